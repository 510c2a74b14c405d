from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import cg

from blockbasis.solvers.block_cg import _orthonormal, block_cg


def definite(values, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    M = (Q * values) @ Q.T
    return (M + M.T) / 2


def run(M, B, P=None, tol=1e-10, max_iterations=500):
    P = np.eye(len(M)) if P is None else P
    seen = []
    found = block_cg(
        lambda V: M @ V, B, precondition=lambda R: P @ R, tol=tol, max_iterations=max_iterations, callback=seen.append
    )
    assert seen == found.history
    return found


def test_with_one_column_it_is_the_usual_method(rng):
    M, b = definite(np.geomspace(1, 1e2, 300)), rng.standard_normal(300)
    P = definite(np.geomspace(1, 2, 300), seed=1)
    for preconditioner in (None, P):
        steps = []
        _, info = cg(M, b, rtol=1e-5, M=preconditioner, callback=lambda x, steps=steps: steps.append(x.copy()))
        assert info == 0
        found = run(M, b[:, np.newaxis], preconditioner, tol=1e-5)
        residuals = [np.linalg.norm(b - M @ x) / np.linalg.norm(b) for x in steps]
        assert abs(len(found.history) - len(steps)) <= 1
        # Later on rounding sends the two on ways of their own, as it does any two forms of the method.
        np.testing.assert_allclose(found.history[:25], residuals[:25], rtol=1e-6)


@pytest.mark.parametrize("width", [1, 4, 30])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_solutions_are_numpys(width, preconditioned, rng):
    M, B = definite(np.geomspace(1e-2, 1e2, 100)), rng.standard_normal((100, width))
    P = np.diag(1 / np.diagonal(M)) if preconditioned else None
    found = run(M, B, P)
    assert found.residual <= 1e-10
    np.testing.assert_allclose(found.X, np.linalg.solve(M, B), rtol=1e-6, atol=1e-7)


def test_many_columns_take_fewer_iterations_than_one(rng):
    M, B = definite(np.geomspace(1, 1e4, 200)), rng.standard_normal((200, 10))
    block, single = run(M, B), run(M, B[:, :1])
    assert len(block.history) < len(single.history) / 2


def test_the_inverse_as_preconditioner_takes_one_iteration(rng):
    M, B = definite(np.geomspace(1, 1e4, 80)), rng.standard_normal((80, 3))
    assert len(run(M, B, np.linalg.inv(M)).history) == 1


def test_columns_that_repeat_or_depend_on_each_other(rng):
    M, B = definite(np.geomspace(1, 1e3, 90)), rng.standard_normal((90, 2))
    dependent = np.column_stack([B, B[:, 0], B @ [1.0, -2.0], 1e-9 * B[:, 1], 1e12 * B[:, 0]])
    found = run(M, dependent)
    assert found.residual <= 1e-10
    residuals = np.linalg.norm(M @ found.X - dependent, axis=0) / np.linalg.norm(dependent, axis=0)
    assert residuals.max() <= 2e-10


def test_columns_that_converge_at_once_beside_others(rng):
    values = np.geomspace(1, 1e3, 90)
    M = np.diag(values)
    B = np.column_stack([np.eye(90)[:, 3], rng.standard_normal(90), np.eye(90)[:, 50]])
    found = run(M, B)
    np.testing.assert_allclose(found.X, B / values[:, np.newaxis], atol=1e-9)


def test_as_many_columns_as_rows():
    M = definite(np.geomspace(1, 1e3, 30))
    found = run(M, np.eye(30))
    assert len(found.history) <= 2
    np.testing.assert_allclose(found.X, np.linalg.inv(M), atol=1e-9)


@given(
    n=st.integers(1, 30),
    width=st.integers(1, 6),
    decades=st.floats(0, 4),
    rank=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_residuals_are_met_and_true(n, width, decades, rank, seed):
    rng = np.random.default_rng(seed)
    M = definite(np.geomspace(1, 10.0**decades, n), seed)
    B = rng.standard_normal((n, min(rank, n))) @ rng.standard_normal((min(rank, n), width))
    found = run(M, B, tol=1e-8)
    true = (np.linalg.norm(M @ found.X - B, axis=0) / np.linalg.norm(B, axis=0)).max()
    assert true <= 1.01e-8
    assert found.residual == pytest.approx(true, rel=0.1, abs=1e-13)
    assert not found.indefinite


def test_the_limit_of_iterations_is_kept(rng):
    found = run(definite(np.geomspace(1, 1e6, 200)), rng.standard_normal((200, 1)), max_iterations=7)
    assert len(found.history) == 7
    assert found.residual > 1e-10


def test_a_drifting_residual_is_mended(rng):
    """At a condition of 1e8 the residual carried along falls far below the true one: the method starts again."""
    M, B = definite(np.geomspace(1e-8, 1, 60)), rng.standard_normal((60, 1))
    b = M @ B
    found = run(M, b, tol=1e-12, max_iterations=5000)
    assert np.linalg.norm(M @ found.X - b) <= 1.5e-12 * np.linalg.norm(b)


def test_what_rounding_cannot_reach_ends(rng):
    M, B = definite(np.geomspace(1e-9, 1, 60)), rng.standard_normal((60, 1))
    found = run(M, B, tol=1e-15, max_iterations=20_000)
    assert found.residual > 1e-15
    assert len(found.history) < 20_000


def test_negative_curvature_is_noticed(rng):
    M = definite(np.concatenate(([-5.0], np.geomspace(1, 10, 40))))
    found = run(M, rng.standard_normal((41, 2)))
    assert found.indefinite
    assert np.isfinite(found.X).all()


def test_orthonormal_in_the_inner_product(rng):
    P = definite(np.geomspace(1, 1e6, 50))
    W = rng.standard_normal((50, 4)) * [1, 1e-3, 1e3, 1]
    W[:, 3] = W[:, 0]
    Q, Z, factor = _orthonormal(W, P @ W)
    assert Q.shape == (50, 3)
    np.testing.assert_allclose(Q.T @ P @ Q, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(Z, P @ Q, rtol=1e-6, atol=1e-6 * np.abs(Z).max())
    np.testing.assert_allclose(Q @ factor, W, atol=1e-9 * np.abs(W).max())
