from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import ACCURATE, FAST, Method
from blockbasis.construction.pipeline import (
    Construction,
    assemble,
    factorize_with_ranks,
    make_bases,
    orthonormalize,
    sketched_draft,
)
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.entries import Entries
from blockbasis.partition import kmeans
from tests.repeating import first_of

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


def case(seed, n=600, h=1.0, k=4):
    X = unit_cube_mixture(n, 3, rng=seed)
    parts = kmeans(X, k, np.random.default_rng(seed))
    return X, KernelMatrix(bb.Gaussian(h), X[parts.order]), parts


# --- orthonormal columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_columns_become_orthonormal_and_the_factor_tells_the_old_ones(condition):
    """One Cholesky factorization loses the square of the condition, which a second mends where it is above 1e4."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.normal(size=(500, 8)))[0]
        values = (Q * np.geomspace(1, 1 / condition, 8)) @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
        before = values.copy()
        R = orthonormalize(values)
        np.testing.assert_allclose(values.T @ values, np.eye(8), atol=1e-12 if condition == 1 else 1e-9)
        np.testing.assert_allclose(values @ R, before, atol=1e-12)


# --- from a draft to an operator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.1, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_bases_of_an_operator_are_orthonormal(h, dtype, seed):
    X = unit_cube_mixture(600, 3, rng=seed)
    A = bb.factorize(X, bb.Gaussian(h), n_clusters=4, rank=12, dtype=dtype, rng=seed)
    for U in A.bases:
        U = U.astype(np.float64)
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12 if dtype == np.float64 else 1e-5)


def test_an_operator_is_its_draft_at_all_points():
    """U C Uᵀ = Y C' Yᵀ: the change of bases cancels."""
    for seed in range(3):
        X, matrix, parts = case(seed)
        construction = Construction(matrix, parts, SKETCHED, FAST, 1)
        ranks = np.full(4, 9)
        streams = np.random.default_rng(seed).spawn(2)
        bases = make_bases(construction, ranks, streams[0])
        draft = sketched_draft(construction, bases, streams[1])
        A = assemble(matrix, parts, draft, Entries(0, 0), 1, diagonal=False)
        C = draft.inner.todense()
        Y = np.zeros((600, int(ranks.sum())))
        for i, cluster in enumerate(parts.clusters):
            Y[cluster, 9 * i : 9 * (i + 1)] = bases[i].evaluate(matrix, cluster)
        ordered = A.todense()[np.ix_(parts.order, parts.order)]
        assert np.diagonal(Y @ C @ Y.T).max() < 1.1  # no row was limited
        np.testing.assert_allclose(ordered, Y @ C @ Y.T, atol=1e-9)
        assert A.diagonal_part is None


def test_a_truncated_draft_is_the_leading_part():
    _, matrix, parts = case(0)
    construction = Construction(matrix, parts, SKETCHED, FAST, 1)
    streams = np.random.default_rng(0).spawn(2)
    bases = make_bases(construction, np.full(4, 9), streams[0])
    draft = sketched_draft(construction, bases, streams[1])
    ranks = np.array([2, 9, 4, 1])
    small = draft.truncated(ranks)
    np.testing.assert_array_equal(small.ranks, ranks)
    np.testing.assert_array_equal(small.inner.block(0, 2), draft.inner.block(0, 2)[:2, :4])
    assert draft.truncated(np.full(4, 9)) is draft


def test_blocks_of_unchanged_clusters_are_not_evaluated_again():
    _, matrix, parts = case(0)
    construction = Construction(matrix, parts, SKETCHED, FAST, 1)
    streams = np.random.default_rng(0).spawn(2)
    bases = make_bases(construction, np.full(4, 6), streams[0])
    draft = sketched_draft(construction, bases, streams[1])
    before = matrix.entries
    again = sketched_draft(construction, bases, streams[1], known=(draft, np.ones(4, dtype=bool)))
    assert matrix.entries == before
    np.testing.assert_array_equal(again.inner.todense(), draft.inner.todense())


@pytest.mark.parametrize("h", [0.5, 2.0])
def test_the_extension_at_old_points_is_the_rows_of_the_operator(h):
    """But for landmarks, from whose rows a diagonal part is taken out, and rows that were limited."""
    for seed in range(3):
        X, _, _ = case(seed)
        A = bb.factorize(X, bb.Gaussian(h), n_clusters=4, rank=15, diagonal=False, rng=seed)
        held = A.diagonal()
        assert held.max() < 1.09  # nothing was limited
        landmarks = np.concatenate([extension.points for extension in A.extensions])
        others = ~(X[:, np.newaxis] == landmarks).all(axis=2).any(axis=1)
        near = A.partition.assign(X) == A.partition.labels
        at = np.flatnonzero(others & near)
        assert len(at) > 100
        np.testing.assert_allclose(A.extend(X[at]).todense(), A.todense()[at], atol=1e-6)


def test_the_diagonal_is_exact_where_a_part_is_carried():
    """Unless U C Uᵀ holds more than the entry already."""
    for h in (0.05, 0.5):
        X, _, _ = case(0)
        A = bb.factorize(X, bb.Gaussian(h), n_clusters=4, rank=5, rng=0)
        assert A.diagonal_part.min() >= 0
        kept = A.diagonal_part > 0
        np.testing.assert_allclose(A.diagonal()[kept], 1, atol=1e-12)
        assert (A.diagonal() >= 1 - 1e-12).all()
        assert A.diagonal().max() <= 1.5 + 1e-9


def test_entries_are_counted_once():
    _, matrix, parts = case(0)
    A = factorize_with_ranks(matrix, parts, np.full(4, 5), SKETCHED, tuple(np.random.default_rng(0).spawn(2)), 1)
    assert A.entries.total == matrix.entries


def test_more_ranks_than_points_keep_the_cluster_whole():
    X, matrix, parts = case(0, n=60)
    A = factorize_with_ranks(matrix, parts, np.full(4, 99), SKETCHED, tuple(np.random.default_rng(0).spawn(2)), 1)
    np.testing.assert_array_equal(A.ranks, parts.sizes)
    np.testing.assert_allclose(A.todense(), bb.Gaussian(1.0)(X), atol=1e-12)
    assert ACCURATE.rows > FAST.rows
