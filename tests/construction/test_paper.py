from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction import coordinates
from blockbasis.construction.paper import (
    column_pool,
    pairwise_block,
    paper_basis,
    randomized_sampling,
    randomized_svd,
)
from blockbasis.construction.sampling import every_column, uniform_sampling
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import from_labels

N, CLUSTER = 80, slice(20, 40)


@pytest.fixture
def matrix():
    """80 points already in cluster order, four clusters of 20 at growing distance."""
    X = np.random.default_rng(0).normal(size=(N, 2)) * 0.3 + np.repeat([0.0, 0.8, 2.0, 5.0], 20)[:, np.newaxis]
    return KernelMatrix(bb.Gaussian(1.0), X)


@pytest.fixture
def low_rank():
    """A symmetric kernel matrix of rank four exactly: the linear kernel in four dimensions."""
    X = np.random.default_rng(1).normal(size=(N, 4))
    return KernelMatrix(as_kernel(lambda A, B: A @ B.T, caller="f"), X)


def spans(columns, M):
    """Relative size of what the columns of M leave over."""
    Q = np.linalg.qr(M[:, columns])[0]
    return np.linalg.norm(M - Q @ (Q.T @ M)) / np.linalg.norm(M)


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_algorithm_1_recovers_a_low_rank_matrix(low_rank, seed):
    sample = randomized_sampling(low_rank, CLUSTER, 6, np.random.default_rng(seed))
    M = low_rank.block(CLUSTER, slice(0, N))
    assert spans(sample.columns, M) < 1e-12
    # Truncation by the diagonal of R: four important rows and pivots, beside six columns at random.
    assert len(sample.rows) == 4
    assert 4 <= len(sample.columns) <= 10
    assert np.linalg.matrix_rank(M[sample.rows]) == 4


def test_algorithm_1_spans_better_than_chance(matrix):
    M = matrix.block(CLUSTER, slice(0, N))
    important, uniform = [], []
    for seed in range(20):
        sample = randomized_sampling(matrix, CLUSTER, 3, np.random.default_rng(seed))
        important.append(spans(sample.columns, M))
        rng = np.random.default_rng(seed)
        uniform.append(spans(uniform_sampling(matrix, len(sample.columns), rng).columns, M))
    assert np.mean(important) < np.mean(uniform) / 2
    assert np.std(important) < np.std(uniform)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_algorithm_1_sets_grow_by_the_rank_each_time(matrix, iterations):
    for seed in range(5):
        sample = randomized_sampling(matrix, CLUSTER, 3, np.random.default_rng(seed), iterations=iterations)
        assert len(np.unique(sample.columns)) == len(sample.columns) <= 3 * (iterations + 1)
        assert len(np.unique(sample.rows)) == len(sample.rows) <= 3 * iterations
        assert len(sample.columns) >= 3 * iterations
        assert sample.rows.max() < 20


def test_algorithm_1_stops_when_nothing_changes(low_rank):
    """With every row drawn each time the pivots cannot change, and the second iteration is the last."""

    def entries(iterations):
        before = low_rank.entries
        randomized_sampling(low_rank, CLUSTER, 20, np.random.default_rng(0), iterations=iterations)
        return low_rank.entries - before

    assert entries(1) < entries(2) == entries(3) == entries(50)


def test_algorithm_1_chooses_among_candidates(low_rank):
    candidates = np.array([1, 5, 21, 22, 44, 45, 46, 70])
    sample = randomized_sampling(low_rank, CLUSTER, 2, np.random.default_rng(0), candidates=candidates)
    assert np.isin(sample.columns, candidates).all()
    assert 4 <= len(sample.columns) <= 6
    assert spans(sample.columns, low_rank.block(CLUSTER, slice(0, N))) < 1e-12


@pytest.mark.parametrize("algorithm", ["randomized", "pooled"])
def test_tiles_leave_the_entries_and_the_error_of_the_papers_algorithm(monkeypatch, algorithm):
    """Mean error over seeds of the whole factorization, with tiles and with plain pivoted QR."""
    X = np.random.default_rng(0).normal(size=(1500, 3))
    errors, entries = {}, {}
    for tile in (2**40, 2**12):
        monkeypatch.setattr(coordinates, "_PIVOTED_ENTRIES", tile)
        found = [
            bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=15, algorithm="paper", sampling=algorithm, rng=seed)
            for seed in range(5)
        ]
        errors[tile] = np.mean([bb.relative_error(A, X, bb.Gaussian(1.0)).value for A in found])
        entries[tile] = [A.entries.bases for A in found]
    assert errors[2**12] < 1.05 * errors[2**40]
    np.testing.assert_allclose(entries[2**12], entries[2**40], rtol=0.1)


def test_the_pool_has_important_points_of_every_cluster(matrix, low_rank):
    partition = from_labels(np.zeros((80, 1)), np.repeat(np.arange(4), 20))
    pool = column_pool(matrix, partition, 5, np.random.default_rng(0), 1)
    assert (np.diff(pool) > 0).all()
    counts = np.bincount(pool // 20)  # negligible pivots are dropped
    assert counts.min() >= 1 and counts.max() == 5 and len(counts) == 4
    assert len(column_pool(low_rank, partition, 9, np.random.default_rng(0), 1)) == 4 * 4


# --- Algorithm 4 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 300), (300, 200), (20, 500)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_randomized_svd_has_the_leading_singular_values(shape, dtype):
    """Values that fall by a half each: two power iterations with ten directions more leave (2^-20)^5 of the others."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Q, P = (np.linalg.qr(rng.normal(size=(length, 20)))[0] for length in shape)
        M = ((Q * 0.5 ** np.arange(20)) @ P.T).astype(dtype)
        U, s, Vt = randomized_svd(M, 6, rng)
        assert (U.shape, s.shape, Vt.shape) == ((shape[0], 6), (6,), (6, shape[1]))
        np.testing.assert_allclose(s, 0.5 ** np.arange(6), rtol=100 * np.finfo(dtype).eps)
        np.testing.assert_allclose(U.T @ U, np.eye(6), atol=20 * np.finfo(dtype).eps)
        rest = np.linalg.norm(M - (U * s) @ Vt, 2)
        assert rest == pytest.approx(0.5**6, rel=1e-4)


def test_randomized_svd_of_fewer_columns_than_the_rank():
    U, s, _ = randomized_svd(np.eye(5)[:, :2], 4, np.random.default_rng(0))
    assert U.shape == (5, 2)
    np.testing.assert_allclose(s, 1)


# --- Algorithm 5 -----------------------------------------------------------------------------------------------------


def test_the_papers_basis_of_all_columns_is_the_singular_vectors(matrix):
    basis = paper_basis(matrix, CLUSTER, every_column(matrix), 5, np.random.default_rng(0))
    exact = np.linalg.svd(matrix.block(CLUSTER, slice(0, N)))[0][:, :5]
    assert np.linalg.svd(basis.vectors.T @ exact, compute_uv=False).min() > 1 - 1e-10
    np.testing.assert_array_equal(basis.values, basis.vectors[basis.rows - 20])


def test_directions_below_rounding_are_no_basis(low_rank):
    basis = paper_basis(low_rank, CLUSTER, every_column(low_rank), 9, np.random.default_rng(0))
    assert basis.rank == 4


def test_the_papers_basis_continues_by_its_landmarks(matrix):
    """A smooth kernel: the regularised fit of singular vectors to 80 columns is good to the root of its ridge."""
    for seed in range(3):
        basis = paper_basis(matrix, CLUSTER, every_column(matrix), 5, np.random.default_rng(seed))
        np.testing.assert_allclose(basis.evaluate(matrix, CLUSTER), basis.vectors, atol=1e-4)


def test_pairwise_blocks_of_low_rank_are_exact(low_rank):
    """Proposition 3.2: any rows that determine coordinates give C."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        a, b = slice(0, 30), slice(30, 80)
        one, two = (paper_basis(low_rank, c, randomized_sampling(low_rank, c, 4, rng), 4, rng) for c in (a, b))
        K = low_rank.block(slice(0, N), slice(0, N))
        for row, column, at, there in ((one, two, a, b), (one, one, a, a), (two, one, b, a)):
            expected = row.vectors.T @ K[at, there] @ column.vectors
            np.testing.assert_allclose(pairwise_block(low_rank, row, column, rng), expected, atol=1e-9)


def test_own_blocks_are_symmetric(matrix):
    rng = np.random.default_rng(0)
    basis = paper_basis(matrix, CLUSTER, uniform_sampling(matrix, 30, rng), 4, rng)
    own = pairwise_block(matrix, basis, basis, rng)
    np.testing.assert_allclose(own, own.T, atol=1e-12)
