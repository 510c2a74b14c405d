from __future__ import annotations

import numpy as np
import pytest

from blockbasis.construction.diagonal import fit_core, limit_rows, unshared_diagonal


def low_rank_plus_diagonal(seed, n=120, rank=5):
    """K = Q S Qᵀ + diag(d) with S definite and d between 0 and 1."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, rank)))[0]
    S = np.diag(np.geomspace(20, 5, rank))
    return Q, S, rng.uniform(0, 1, n)


def fitted(Q, S, d, start, largest, updates):
    every = np.arange(len(Q))
    K = Q @ S @ Q.T + np.diag(d)
    return fit_core(K, Q.T, every, Q, np.diagonal(K).copy(), start, largest, updates)


@pytest.mark.parametrize("seed", range(5))
def test_a_matrix_of_low_rank_and_a_diagonal_is_recovered(seed):
    """Updates end at changes of 1e-6 of the largest entry; one leaves at most half of what was wrong before."""
    Q, S, d = low_rank_plus_diagonal(seed)
    own = (Q**2) @ np.diagonal(S) + d
    core, part = fitted(Q, S, d, np.zeros(120), own, 100)
    np.testing.assert_allclose(part, d, atol=1e-5 * own.max())
    np.testing.assert_allclose(core, S, atol=1e-4)


@pytest.mark.parametrize("updates", [1, 3, 20])
def test_the_diagonal_part_keeps_its_bounds_and_the_core_is_semidefinite(updates):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Q, S, d = low_rank_plus_diagonal(seed)
        largest = rng.uniform(0, 2, 120)
        core, part = fitted(Q, S, d, largest / 2, largest, updates)
        assert part.min() >= 0
        assert (part <= largest).all()
        assert np.linalg.eigvalsh(core).min() >= -1e-12 * np.abs(core).max()
        np.testing.assert_array_equal(core, core.T)


def test_nothing_is_left_for_the_diagonal_where_the_basis_holds_all():
    Q, S, _ = low_rank_plus_diagonal(0)
    _, part = fitted(Q, S, np.zeros(120), np.zeros(120), np.ones(120), 20)
    np.testing.assert_allclose(part, 0, atol=1e-12)


def test_some_rows_determine_the_core_too():
    Q, S, d = low_rank_plus_diagonal(1)
    some = np.sort(np.random.default_rng(0).choice(120, 60, replace=False))
    K = Q @ S @ Q.T + np.diag(d)
    inverse = np.linalg.pinv(Q[some])
    own = np.diagonal(K).copy()
    core, part = fit_core(K[np.ix_(some, some)], inverse, some, Q, own, np.zeros(120), own, 200)
    np.testing.assert_allclose(part, d, atol=1e-4)
    np.testing.assert_allclose(core, S, atol=1e-2)


def test_what_no_other_point_shares():
    own = np.array([1.0, 2.0, 1.0])
    block = np.array([[1.0, 0.3, -0.4], [0.3, 2.0, 0.0], [-0.4, 0.0, 1.0]])
    every = np.arange(3)
    np.testing.assert_allclose(unshared_diagonal(own, block, (every, every)), [0.6, 1.7, 0.6])
    crowded = np.array([[1.0, 1.5], [1.5, 1.0]])
    np.testing.assert_array_equal(unshared_diagonal(np.ones(2), crowded, (every[:2], every[:2])), 0)
    np.testing.assert_array_equal(crowded, [[1.0, 1.5], [1.5, 1.0]])


def test_rows_that_hold_too_much_are_scaled_down_and_no_others():
    rng = np.random.default_rng(0)
    values, core, own = rng.normal(size=(50, 3)), np.diag([3.0, 2.0, 1.0]), rng.uniform(1, 12, 50)
    before = values.copy()
    held_before = np.einsum("ij,jk,ik->i", before, core, before)
    held = limit_rows(values, core, own)
    over = held_before > 1.5 * own
    assert 0 < over.sum() < 50
    np.testing.assert_array_equal(values[~over], before[~over])
    np.testing.assert_allclose(held, np.minimum(held_before, 1.5 * own))
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", values, core, values), held)
    np.testing.assert_allclose(np.cross(values, before), 0, atol=1e-9)  # the directions stay
