from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction import semidefinite
from blockbasis.construction.semidefinite import semidefinite_inner, squared_changes
from blockbasis.operators.inner import InnerMatrix
from tests.repeating import first_of

RANKS = np.array([3, 1, 4, 2, 2])
OFFSETS = np.concatenate(([0], np.cumsum(RANKS)))
EPS = float(np.finfo(np.float64).eps)


def inner_of(M, kept):
    rows = [slice(OFFSETS[i], OFFSETS[i + 1]) for i in range(5)]
    panels = tuple(np.concatenate([M[rows[i], rows[j]] for j in kept[i]], axis=1) for i in range(5))
    return InnerMatrix.of_whole_blocks(OFFSETS, OFFSETS, [np.array(each) for each in kept], panels, symmetric=True)


def dense_case(seed, shift=0.0):
    M = np.random.default_rng(seed).normal(size=(12, 12))
    M = M + M.T + shift * np.eye(12)
    return inner_of(M, [list(range(i, 5)) for i in range(5)]), M


SPARSE = {
    "chain": [[0, 1], [1, 2], [2, 3], [3, 4], [4]],
    "two components": [[0, 2], [1], [2], [3, 4], [4]],
    "alone": [[0], [1], [2], [3], [4]],
}


@pytest.mark.parametrize("seed", range(3))
def test_a_definite_matrix_is_returned_unchanged(seed):
    C, M = dense_case(seed, shift=20.0)
    assert np.linalg.eigvalsh(M).min() > 0
    for before, after in zip(C.panels, semidefinite_inner(C, EPS).panels, strict=True):
        assert before is after


@pytest.mark.parametrize("seed", range(3))
def test_negative_eigenvalues_are_removed_and_nothing_else(seed):
    C, M = dense_case(seed)
    values, vectors = np.linalg.eigh(M)
    assert values[0] < -1
    nearest = semidefinite_inner(C, EPS)
    np.testing.assert_allclose(nearest.todense(), (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-12)


def test_negative_eigenvalues_within_the_rounding_of_float32_are_shifted():
    _, M = dense_case(0)
    C, _ = dense_case(0, shift=-np.linalg.eigvalsh(M).min() - 1e-7)
    eps = float(np.finfo(np.float32).eps)
    narrow = semidefinite_inner(C, eps).todense()
    added = narrow - C.todense()
    np.testing.assert_allclose(added, added[0, 0] * np.eye(len(added)), atol=1e-14)
    assert 0 < added[0, 0] <= 10 * eps * np.diagonal(C.todense()).max() * (1 + 1e-6)
    assert np.linalg.eigvalsh(narrow).min() >= 0


def test_a_semidefinite_matrix_may_be_singular():
    v = np.arange(1.0, 13.0)
    C = inner_of(np.outer(v, v), [list(range(i, 5)) for i in range(5)])
    np.testing.assert_array_equal(semidefinite_inner(C, EPS).todense(), np.outer(v, v))


def test_zero_stays_zero():
    C = inner_of(np.zeros((12, 12)), SPARSE["chain"])
    found = semidefinite_inner(C, EPS).todense()
    assert np.abs(found).max() <= 1e-100


@pytest.mark.parametrize("name", SPARSE)
def test_blocks_that_are_kept_stay_the_same_ones(name):
    """Where all blocks of a component are there, its eigenvalues are cut; elsewhere all of them are raised."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        M = rng.normal(size=(12, 12))
        C = inner_of(M + M.T, SPARSE[name])
        before = C.todense()
        found = semidefinite_inner(C, EPS)
        after = found.todense()
        for own, other in zip(C.kept, found.kept, strict=True):
            np.testing.assert_array_equal(own, other)
        assert found.stored == C.stored
        values = np.linalg.eigvalsh(after)
        assert values.min() >= -1e-10 * values.max()
        lowest = max(-np.linalg.eigvalsh(before).min(), 0)
        assert np.linalg.norm(after - before) <= 1.01 * lowest * np.sqrt(12)  # no worse than a multiple of the identity


def kernel_case(seed, n_blocks=40, width=8, reach=6):
    """A banded part of a Gaussian kernel matrix on a line: dropped blocks give it small negative eigenvalues."""
    x = np.sort(np.random.default_rng(seed).random(n_blocks * width)) * n_blocks
    M = np.exp(-(np.subtract.outer(x, x) ** 2) / 9)
    edges = np.arange(n_blocks + 1) * width
    kept = [np.arange(i, min(i + reach, n_blocks)) for i in range(n_blocks)]
    rows = [slice(edges[i], edges[i + 1]) for i in range(n_blocks)]
    panels = tuple(np.concatenate([M[rows[i], rows[j]] for j in kept[i]], axis=1) for i in range(n_blocks))
    return InnerMatrix.of_whole_blocks(edges, edges, kept, panels, symmetric=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 1e-6])
def test_the_lowest_eigenpairs_of_a_large_component_are_removed(monkeypatch, seed, share):
    monkeypatch.setattr(semidefinite, "DECOMPOSED", 100)
    monkeypatch.setattr(semidefinite, "_BLOCK_WIDTH", 8)
    C = kernel_case(seed)
    before = C.todense()
    values = np.linalg.eigvalsh(before)
    assert values.min() < -1e-4 * values.max()
    allowed = share * C.energy
    found = semidefinite_inner(C, EPS, allowed)
    after = found.todense()
    assert found.stored == C.stored
    assert np.linalg.eigvalsh(after).min() >= -1e-10 * values.max()
    negative = np.linalg.norm(np.minimum(values, 0))
    shifted = -values.min() * np.sqrt(len(values))
    assert np.linalg.norm(after - before) <= min(3 * negative + np.sqrt(allowed), 0.5 * shifted)


@pytest.mark.parametrize("seed", first_of(range(6)))  # blocks are dropped for all seeds but one
def test_no_negative_eigenvalue_is_left_where_entries_are_float32_and_blocks_are_dropped(seed):
    X = np.random.default_rng(seed).normal(size=(500, 2))
    A = bb.factorize(X, bb.Gaussian(0.5), tol=1e-3, rng=seed)
    assert np.linalg.eigvalsh(A.inner.todense()).min() >= -1e-12
    assert bb.solve(A, np.ones(500), 1e-6).converged


def test_changes_of_a_repair_are_counted_for_both_clusters_of_a_block():
    before, M = dense_case(0)
    after = semidefinite_inner(before, EPS)
    difference = after.todense() - M
    expected = [float((difference[OFFSETS[i] : OFFSETS[i + 1]] ** 2).sum()) for i in range(5)]
    np.testing.assert_allclose(squared_changes(before, after), expected, rtol=1e-10)
    assert not squared_changes(before, before).any()
