from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture
from blockbasis.solvers import components, ridge_system
from tests.repeating import first_of

RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2)
EPS = np.finfo(np.float64).eps


def extended_inverse_diagonal(M):
    """Logarithm of the determinant and diagonal of the inverse by elimination in extended precision."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision on this machine")
    M, n = M.astype(np.longdouble), len(M)
    inverse, logdet = np.eye(n, dtype=np.longdouble), np.longdouble(0)
    for j in range(n):
        root = np.sqrt(M[j, j])
        logdet += 2 * np.log(root)
        column = M[j + 1 :, j] / root
        M[j + 1 :, j + 1 :] -= np.outer(column, column)
        inverse[j] /= root
        inverse[j + 1 :] -= np.outer(column, inverse[j])
    return logdet, (inverse**2).sum(axis=0)


# --- against dense matrices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", first_of([1e-4, 1.0, 1e-2, 1e2], fast=2))
def test_everything_is_the_dense_systems(A, ridge, of, rng):
    M = of["dense"](A) + ridge * np.eye(A.shape[0])
    B = rng.standard_normal((A.shape[0], 3))
    for system in (bb.RidgeSystem(A, ridge), bb.RidgeSystem(A, 7.0).with_ridge(ridge)):
        X = system.solve(B)
        assert np.linalg.norm(M @ X - B) <= 1e-8 * np.linalg.norm(B)
        np.testing.assert_allclose(system.solve(B[:, 0]), X[:, 0], rtol=1e-7, atol=1e-9 * np.abs(X).max())
        assert system.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(system.inverse_diagonal(), np.diagonal(np.linalg.inv(M)), rtol=1e-8)
        np.testing.assert_allclose(system.quadratic(B), (B * np.linalg.solve(M, B)).sum(axis=0), rtol=1e-8)
        assert system.quadratic(B[:, 0]) == pytest.approx(system.quadratic(B)[0], rel=1e-8)
        UC = A.basis.expand(A.inner.todense().astype(np.float64))
        explained = UC.T @ np.linalg.solve(M, UC)
        np.testing.assert_allclose(system.explained(), explained, atol=1e-9 * np.abs(explained).max())


@pytest.mark.parametrize("ridge", [1e-8, 1e-6])
def test_tiny_ridges_against_extended_precision(A, ridge, of, rng):
    exact = of["dense"](A, np.longdouble) + np.longdouble(ridge) * np.eye(A.shape[0], dtype=np.longdouble)
    if np.linalg.eigvalsh(exact.astype(np.float64))[0] < ridge / 2:
        pytest.skip("rounded to float32 the matrix is indefinite")
    logdet, inverse_diagonal = extended_inverse_diagonal(exact)
    b = rng.standard_normal(A.shape[0])
    for system in (bb.RidgeSystem(A, ridge), bb.RidgeSystem(A, 7.0).with_ridge(ridge)):
        x = system.solve(b)
        residual = np.linalg.norm((exact @ x - b).astype(np.float64))
        # No float64 vector does better: rounding x alone leaves eps |A| |x|.
        floor = EPS * np.linalg.norm(exact.astype(np.float64), 2) * np.linalg.norm(x)
        assert residual <= 4 * floor + 1e-13 * np.linalg.norm(b)
        assert system.logdet() == pytest.approx(float(logdet), rel=1e-8)
        # Where D is zero only the ridge holds the null space of C, and float64 holds A itself to eps |A| only: the
        # inverse is not determined beyond eps |A| / ridge.
        norm = np.linalg.norm(exact.astype(np.float64), 2)
        worst = float(np.abs(system.inverse_diagonal() / inverse_diagonal - 1).max())
        assert worst <= max(1e-8, 0.1 * EPS * norm / ridge)


def test_tiny_ridges_on_real_points(abalone, of, rng):
    for h, diagonal in ((1.0, True), (0.2, True), (0.2, False)):
        A = bb.factorize(abalone[:300], bb.Gaussian(h), n_clusters=5, rank=30, diagonal=diagonal, rng=0)
        exact = of["dense"](A, np.longdouble) + np.longdouble(1e-8) * np.eye(300, dtype=np.longdouble)
        logdet, inverse_diagonal = extended_inverse_diagonal(exact)
        system, b = bb.RidgeSystem(A, 1e-8), rng.standard_normal(300)
        x = system.solve(b)
        # A product with x rounds by eps |A| |x|, and |x| is near |b| / ridge: no solver leaves less than that.
        rounding = np.finfo(np.float64).eps * np.linalg.norm(exact.astype(np.float64), 2) * np.linalg.norm(x)
        residual = np.linalg.norm((exact @ x - b).astype(np.float64))
        assert residual <= max(1e-8 * np.linalg.norm(b), rounding)
        assert system.logdet() == pytest.approx(float(logdet), rel=1e-8)
        assert float(np.abs(system.inverse_diagonal() / inverse_diagonal - 1).max()) <= 1e-8


def test_the_inverse_diagonal_keeps_its_digits_where_a_point_has_almost_no_noise(with_diagonal, of):
    noise = np.where(np.arange(150) % 10 == 0, 1e-9, 10.0)
    D = np.where(np.arange(150) % 10 == 0, 0.0, with_diagonal.diagonal_part)
    A = replace(with_diagonal, diagonal_part=D)
    exact = of["dense"](A, np.longdouble)
    exact[np.diag_indices(150)] += noise
    _, inverse_diagonal = extended_inverse_diagonal(exact)
    found = bb.RidgeSystem(A, noise).inverse_diagonal()
    assert (found * (D + noise) < ridge_system._CANCELLED).any()
    assert float(np.abs(found / inverse_diagonal - 1).max()) <= 1e-8


def test_corrections_repair_a_poor_factorization(plain, of, rng):
    M, b = of["dense"](plain) + 1e-3 * np.eye(150), rng.standard_normal(150)
    system = bb.RidgeSystem(plain, 1e-3)
    (form,) = system._inverse.inner_factorization.factorizations
    poor = replace(
        system._inverse.inner_factorization, factorizations=(replace(form, factor=form.factor * (1 + 1e-6)),)
    )
    system._inverse = replace(system._inverse, inner_factorization=poor)
    assert np.linalg.norm(M @ system.solve(b) - b) <= 1e-10 * np.linalg.norm(b)
    without = system._refined(b[:, np.newaxis], steps=0)[:, 0]
    assert np.linalg.norm(M @ without - b) > 1e-8 * np.linalg.norm(b)


# --- one ridge for each point ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_a_ridge_for_each_point(A, spread, of, rng):
    n = A.shape[0]
    ridge = 1e-3 * spread ** rng.uniform(size=n)
    M, b = of["dense"](A) + np.diag(ridge), rng.standard_normal(n)
    for system in (bb.RidgeSystem(A, ridge), bb.RidgeSystem(A, 1.0).with_ridge(ridge)):
        assert np.linalg.norm(M @ system.solve(b) - b) <= 1e-8 * np.linalg.norm(b)
        assert system.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-8, abs=1e-8)
        np.testing.assert_allclose(system.inverse_diagonal(), np.diagonal(np.linalg.inv(M)), rtol=1e-7)


def test_equal_ridges_are_one_ridge(pair, rng):
    b = rng.standard_normal(150)
    one, many = bb.RidgeSystem(pair, 0.1), bb.RidgeSystem(pair, np.full(150, 0.1))
    np.testing.assert_allclose(one.solve(b), many.solve(b), rtol=1e-9)
    assert one.logdet() == pytest.approx(many.logdet(), rel=1e-12)


def test_sample_weights_are_repetitions(of, rng):
    """A point of weight 3 is the point three times: of the same coefficients, summed."""
    X, y = unit_cube_mixture(40, 2, rng=0), rng.standard_normal(40)
    weights = rng.integers(1, 4, size=40)
    K = bb.Gaussian(0.3)
    A = bb.factorize(X, K, n_clusters=2, rank=40, rng=0)
    weighted = bb.RidgeSystem(A, 0.5 / weights).solve(y)
    repeated = np.repeat(np.arange(40), weights)
    coefficients = np.linalg.solve(K(X[repeated]) + 0.5 * np.eye(len(repeated)), y[repeated])
    np.testing.assert_allclose(weighted, np.bincount(repeated, coefficients), atol=1e-9)


# --- laws ------------------------------------------------------------------------------------------------------------


@given(
    n=st.integers(2, 60),
    k=st.integers(1, 5),
    rank=st.integers(1, 20),
    h=st.sampled_from([0.03, 0.3, 3.0]),
    logarithm=st.floats(-6, 3),
    diagonal=st.booleans(),
    seed=st.integers(0, 5),
)
def test_laws_of_the_inverse(n, k, rank, h, logarithm, diagonal, seed):
    X, ridge = unit_cube_mixture(n, 2, rng=seed), 10.0**logarithm
    A = bb.factorize(X, bb.Gaussian(h), n_clusters=min(k, n), rank=rank, diagonal=diagonal, rng=seed)
    system = bb.RidgeSystem(A, ridge)
    inverse = system.solve(np.eye(n))
    scale = np.abs(inverse).max()
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-7 * scale)
    np.testing.assert_allclose(np.diagonal(inverse), system.inverse_diagonal(), rtol=1e-7)
    assert (system.inverse_diagonal() <= (1 + 1e-9) / ridge).all()
    # d logdet / d log ridge = ridge tr (A + ridge I)^-1, by a symmetric difference
    step = 1e-4
    slope = (system.with_ridge(ridge * (1 + step)).logdet() - system.with_ridge(ridge * (1 - step)).logdet()) / (
        2 * step
    )
    assert slope == pytest.approx(ridge * system.inverse_diagonal().sum(), rel=1e-5, abs=1e-6)


def test_leave_one_out_is_brute_force(pair, of, rng):
    M, y = of["dense"](pair), rng.standard_normal(150)
    system = bb.RidgeSystem(pair, 0.05)
    fast = system.solve(y) / system.inverse_diagonal()
    for i in range(0, 150, 10):
        others = np.delete(np.arange(150), i)
        coefficients = np.linalg.solve(M[np.ix_(others, others)] + 0.05 * np.eye(149), y[others])
        assert fast[i] == pytest.approx(y[i] - M[i, others] @ coefficients, rel=1e-8, abs=1e-10)


# --- what is reused --------------------------------------------------------------------------------------------------


def test_ridges_share_one_decomposition(plain, monkeypatch):
    calls = []
    original = components.eigenpairs
    monkeypatch.setattr(components, "eigenpairs", lambda M: calls.append(1) or original(M))
    first = bb.RidgeSystem(plain, 1.0)
    assert not calls
    systems = [first.with_ridge(ridge) for ridge in RIDGES]
    again = systems[-1].with_ridge(0.3)
    assert len(calls) == 1
    assert again.logdet() == pytest.approx(bb.RidgeSystem(plain, 0.3).logdet(), rel=1e-12)
    assert again.A is plain
    assert again.ridge == 0.3


def test_with_ridge_leaves_the_system_as_it_is(pair, rng):
    b = rng.standard_normal(150)
    system = bb.RidgeSystem(pair, 0.1)
    before = system.solve(b)
    system.with_ridge(10.0).solve(b)
    assert (system.solve(b) == before).all()
    assert system.ridge == 0.1


def test_arguments_are_left_alone(pair, rng):
    b, ridge = rng.standard_normal((150, 2)), np.full(150, 0.3)
    kept = b.copy(), ridge.copy()
    system = bb.RidgeSystem(pair, ridge)
    system.solve(b), system.quadratic(b)
    assert (b == kept[0]).all()
    assert (ridge == kept[1]).all()


def test_right_hand_sides_of_every_kind(pair):
    system = bb.RidgeSystem(pair, 1.0)
    whole = np.arange(150)
    for b in (whole, whole.tolist(), whole.astype(np.float32), np.asfortranarray(np.stack([whole, whole], axis=1))):
        assert system.solve(b).shape == np.shape(b)
        assert system.solve(b).dtype == np.float64
    assert system.solve(np.empty((150, 0))).shape == (150, 0)
    assert system.quadratic(np.empty((150, 0))).shape == (0,)
    assert not system.solve(np.zeros(150)).any()


def test_it_prints_itself(pair):
    assert repr(bb.RidgeSystem(pair, 0.1)).endswith("ridge=0.1)")
    assert repr(bb.RidgeSystem(pair, np.ones(150))).endswith("ridge=one for each of 150 points)")


# --- what cannot be solved -------------------------------------------------------------------------------------------


def test_no_ridge_where_nothing_else_holds_the_diagonal(plain, with_diagonal):
    for make in (lambda: bb.RidgeSystem(plain, 0), lambda: bb.RidgeSystem(plain, 1.0).with_ridge(0.0)):
        with pytest.raises(np.linalg.LinAlgError, match="150 of the 150 points. Give a positive ridge"):
            make()
    D = np.where(np.arange(150) < 3, 0.0, 0.1)
    with pytest.raises(np.linalg.LinAlgError, match="3 of the 150 points"):
        bb.RidgeSystem(replace(with_diagonal, diagonal_part=D), 0)


def test_a_diagonal_part_alone_is_enough(with_diagonal, of, rng):
    A = replace(with_diagonal, diagonal_part=np.full(150, 0.1))
    b = rng.standard_normal(150)
    np.testing.assert_allclose(of["dense"](A) @ bb.RidgeSystem(A, 0).solve(b), b, atol=1e-10)


def test_indefinite_matrices_are_refused(plain, of, rng):
    A = of["negated"](plain)
    largest = np.linalg.norm(of["dense"](plain), 2)
    for make in (bb.RidgeSystem, lambda A, ridge: bb.RidgeSystem(A, 2 * largest).with_ridge(ridge)):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite.*larger ridge.*cutoff="):
            make(A, 0.9 * largest)
    ridge, b = 1.1 * largest, rng.standard_normal(150)
    M = of["dense"](A) + ridge * np.eye(150)
    np.testing.assert_allclose(M @ bb.RidgeSystem(A, ridge).solve(b), b, atol=1e-10)


def test_a_cutoff_that_costs_definiteness_is_noticed(of):
    X = unit_cube_mixture(150, 3, rng=3)
    A = bb.factorize(X, bb.Gaussian(0.5), n_clusters=8, rank=12, cutoff=0.3, diagonal=False, rng=0)
    smallest = np.linalg.eigvalsh(of["dense"](A))[0]
    assert smallest < -1e-3
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        bb.RidgeSystem(A, -0.9 * smallest)
    bb.RidgeSystem(A, -1.1 * smallest)


def test_rounding_of_float32_storage_counts_as_zero(of, rng):
    X = unit_cube_mixture(150, 3, rng=3)
    A = bb.factorize(X, bb.Gaussian(5.0), n_clusters=2, rank=30, diagonal=False, dtype=np.float32, rng=0)
    values = np.linalg.eigvalsh(of["dense"](A))
    assert -1e-5 * values[-1] < values[0] < 0
    for system in (bb.RidgeSystem(A, 1e-10), bb.RidgeSystem(A, 1.0).with_ridge(1e-10)):
        assert system.logdet() == pytest.approx(np.log(np.maximum(values, 0) + 1e-10).sum(), rel=1e-3)
        assert (system.inverse_diagonal() > 0).all()
        b = rng.standard_normal((150, 2))
        assert (system.quadratic(b) > 0).all()


def test_singular_to_working_precision(plain):
    for make in (lambda: bb.RidgeSystem(plain, 1e-18), lambda: bb.RidgeSystem(plain, 1.0).with_ridge(1e-18)):
        with pytest.raises(np.linalg.LinAlgError, match="working precision.*larger ridge"):
            make()


@pytest.mark.parametrize(
    ("ridge", "error", "message"),
    [
        (-1.0, ValueError, "'ridge'.*at least 0.*Got -1.0"),
        (np.nan, ValueError, "at least 0.*Got nan"),
        (np.inf, ValueError, "at least 0.*Got inf"),
        (np.ones(149), ValueError, r"each of the 150 points.*shape \(149,\)"),
        (np.ones((150, 1)), ValueError, r"shape \(150, 1\)"),
        (np.where(np.arange(150) == 7, -2.0, 1.0), ValueError, "Got -2.0"),
        ("1", TypeError, "at least 0"),
        (None, TypeError, "at least 0"),
        (True, TypeError, "at least 0"),
        (1j, TypeError, "must be real"),
    ],
)
def test_bad_ridges(plain, ridge, error, message):
    with pytest.raises(error, match=message):
        bb.RidgeSystem(plain, ridge)
    with pytest.raises(error, match=message):
        bb.RidgeSystem(plain, 1.0).with_ridge(ridge)


@pytest.mark.parametrize(
    ("b", "error", "message"),
    [
        (np.ones(149), ValueError, r"of shape \(150,\) or \(150, m\).*\(149,\)"),
        (np.ones((2, 150)), ValueError, "of shape"),
        (np.ones((150, 2, 2)), ValueError, "of shape"),
        (1.0, ValueError, "of shape"),
        (np.where(np.arange(150) == 4, np.nan, 1.0), ValueError, "free of NaN.*row 4"),
        (np.full((150, 2), np.inf), ValueError, "free of NaN.*row 0"),
        (np.full(150, "a"), TypeError, "numbers"),
        (np.ones(150) * 1j, TypeError, "real"),
    ],
)
def test_bad_right_hand_sides(plain, b, error, message):
    system = bb.RidgeSystem(plain, 1.0)
    for function in (system.solve, system.quadratic):
        with pytest.raises(error, match=message):
            function(b)


def test_only_factorizations(points):
    for wrong in (np.eye(3), bb.ExactKernel(points, bb.Gaussian(1.0)), None):
        with pytest.raises(TypeError, match="must be a BlockBasis.*method='cg'"):
            bb.RidgeSystem(wrong, 1.0)
