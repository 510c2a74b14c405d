from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockbasis as bb
from blockbasis.construction import sampling
from blockbasis.construction.sampling import (
    cluster_energies,
    energy_sampling,
    every_column,
    leverage_sampling,
    leverage_scores,
    own_columns,
    uniform_sampling,
)
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import from_labels

N, CLUSTER = 80, slice(20, 40)


@pytest.fixture
def parts():
    """80 points already in cluster order, four clusters of 20 at growing distance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) * 0.3 + np.repeat([0.0, 0.8, 2.0, 5.0], 20)[:, np.newaxis]
    return X, from_labels(X, np.repeat(np.arange(4), 20))


@pytest.fixture
def matrix(parts):
    return KernelMatrix(bb.Gaussian(1.0), parts[0])


@pytest.fixture
def low_rank():
    """A symmetric kernel matrix of rank four exactly: the linear kernel in four dimensions."""
    X = np.random.default_rng(1).normal(size=(N, 4))
    return KernelMatrix(as_kernel(lambda A, B: A @ B.T, caller="f"), X)


# --- energy sampling -------------------------------------------------------------------------------------------------


def test_columns_are_drawn_once_and_in_order(matrix, parts):
    for seed in range(5):
        sample = energy_sampling(matrix, CLUSTER, parts[1], 30, np.random.default_rng(seed))
        assert (np.diff(sample.columns) > 0).all()
        assert sample.columns.min() >= 0
        assert sample.columns.max() < N
        assert sample.scales.shape == sample.columns.shape
        assert sample.scales.min() >= 1


def test_as_many_columns_as_asked_for_on_average(matrix, parts):
    counts = [
        len(energy_sampling(matrix, CLUSTER, parts[1], 30, np.random.default_rng(seed)).columns) for seed in range(200)
    ]
    assert np.mean(counts) == pytest.approx(30, abs=4 * np.std(counts) / np.sqrt(200))
    assert np.ptp(counts) <= 4  # each cluster's count is rounded up or down, no more


def test_more_columns_than_there_are_is_all_of_them(matrix, parts):
    sample = energy_sampling(matrix, CLUSTER, parts[1], 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(sample.columns, np.arange(N))
    np.testing.assert_array_equal(sample.scales, 1)


def test_near_clusters_give_more_columns_than_far_ones(matrix, parts):
    counts = np.zeros(4)
    for seed in range(40):
        columns = energy_sampling(matrix, CLUSTER, parts[1], 30, np.random.default_rng(seed)).columns
        counts += np.bincount(columns // 20, minlength=4)
    assert counts[1] > counts[2] > counts[3]
    assert counts[0] > counts[2]


def assert_unbiased(draw, M, draws):
    """The mean of B Bᵀ over many draws is M Mᵀ, within what the spread of the draws allows."""
    truth = M @ M.T
    samples = np.empty((draws, *truth.shape))
    for seed in range(draws):
        sample = draw(np.random.default_rng(seed))
        B = M[:, sample.columns] * sample.scales
        samples[seed] = B @ B.T
    deviation = np.linalg.norm(samples.mean(axis=0) - truth)
    expected = np.sqrt(samples.var(axis=0, ddof=1).sum() / draws)
    assert 0 < expected < 0.05 * np.linalg.norm(truth)
    assert deviation < 3 * expected


def test_energy_sampling_is_unbiased(matrix, parts):
    M = matrix.block(CLUSTER, slice(0, N))
    assert_unbiased(lambda rng: energy_sampling(matrix, CLUSTER, parts[1], 24, rng), M, 1500)


def test_energies_leave_each_points_own_entry_out(parts):
    """At a tiny bandwidth a cluster sees nothing but itself: its own column is no reason to sample near by."""
    tiny = KernelMatrix(bb.Gaussian(1e-6), parts[0])
    energies = cluster_energies(tiny, CLUSTER, parts[1], np.random.default_rng(0))
    np.testing.assert_array_equal(energies, 0)


def test_energies_are_mean_squares(parts, matrix):
    K = matrix.block(CLUSTER, slice(0, N))
    K[np.arange(20), np.arange(20, 40)] = 0
    own = np.array([20 * 20, 20 * 19, 20 * 20, 20 * 20])
    exact = (K**2).reshape(20, 4, 20).sum(axis=(0, 2)) / own
    draws = [cluster_energies(matrix, CLUSTER, parts[1], np.random.default_rng(s)) for s in range(100)]
    np.testing.assert_allclose(np.mean(draws, axis=0), exact, rtol=0.1)


@given(
    st.lists(st.tuples(st.floats(0, 1e6, allow_subnormal=False), st.integers(1, 200)), min_size=1, max_size=8),
    st.integers(1, 400),
)
def test_inclusion_probabilities(clusters, n_columns):
    energies, sizes = (np.array(column) for column in zip(*clusters, strict=True))
    p = sampling._inclusion_probabilities(energies.astype(float), sizes, n_columns)
    assert (p > 0).all()
    assert (p <= 1).all()
    assert (p * sizes).sum() == pytest.approx(min(n_columns, sizes.sum()), rel=1e-9)
    # Below the cap, probability follows energy, but for the small part that is drawn uniformly.
    mean = energies @ sizes / sizes.sum()
    share = sampling._UNIFORM_SHARE
    weights = (1 - share) * energies + share * mean if energies.max() > np.finfo(float).tiny else np.ones(len(sizes))
    below = p < 1
    if below.any():
        factor = p[below] / weights[below]
        np.testing.assert_allclose(factor, factor[0], rtol=1e-9)
        assert (weights[~below] * factor[0] >= 1 - 1e-9).all()


# --- plain sampling --------------------------------------------------------------------------------------------------


def test_uniform_sampling(matrix):
    sample = uniform_sampling(matrix, 30, np.random.default_rng(0))
    assert len(np.unique(sample.columns)) == 30
    np.testing.assert_array_equal(sample.scales, 1)
    hits = np.zeros(N)
    for seed in range(300):
        hits[uniform_sampling(matrix, 30, np.random.default_rng(seed)).columns] += 1
    assert np.abs(hits / 300 - 30 / N).max() < 4.5 * np.sqrt(30 / N * (1 - 30 / N) / 300)
    assert len(uniform_sampling(matrix, 500, np.random.default_rng(0)).columns) == N


def test_leverage_scores_of_a_low_rank_matrix_are_exact(low_rank):
    M = low_rank.block(CLUSTER, slice(0, N))
    right = np.linalg.svd(M)[2][:4]
    scores = leverage_scores(low_rank, CLUSTER, 4, np.random.default_rng(0))
    np.testing.assert_allclose(scores, (right**2).sum(axis=0), rtol=1e-8)
    assert scores.sum() == pytest.approx(4)


def test_leverage_scores_approximate_the_leading_ones(matrix):
    M = matrix.block(CLUSTER, slice(0, N))
    exact = (np.linalg.svd(M)[2][:5] ** 2).sum(axis=0)
    scores = leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0))
    np.testing.assert_allclose(scores, exact, atol=0.05)


def test_leverage_scores_tile_by_tile(matrix, tiles_of):
    whole = leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0))
    before = matrix.entries
    tiles_of(20 * 7)
    np.testing.assert_allclose(leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0)), whole, rtol=1e-9)
    assert matrix.entries - before == 20 * N


def test_leverage_sampling_is_unbiased(matrix):
    M = matrix.block(CLUSTER, slice(0, N))
    M = M[:, leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0)) > 0]
    assert M.shape[1] == N
    assert_unbiased(lambda rng: leverage_sampling(matrix, CLUSTER, 5, 40, rng), M, 1500)


def test_leverage_columns_are_unique(matrix):
    sample = leverage_sampling(matrix, CLUSTER, 3, 60, np.random.default_rng(0))
    assert len(np.unique(sample.columns)) == len(sample.columns) < 60


def test_whole_rows_and_own_columns(matrix):
    np.testing.assert_array_equal(every_column(matrix).columns, np.arange(N))
    np.testing.assert_array_equal(own_columns(CLUSTER).columns, np.arange(20, 40))
    np.testing.assert_array_equal(own_columns(CLUSTER).scales, np.ones(20))


@pytest.mark.parametrize("energy", [0.0, 5e-324, 1e-310, 1e-300])
def test_inclusion_probabilities_of_vanished_energies(energy):
    """A cluster far from all others: what it sees of them has underflowed."""
    p = sampling._inclusion_probabilities(np.array([energy, 0.0, energy]), np.array([5, 500, 50]), 60)
    assert np.isfinite(p).all()
    assert (p > 0).all()
    assert p @ [5, 500, 50] == pytest.approx(60)


def test_columns_of_every_cluster_have_the_same_chance_and_come_once():
    labels = np.repeat([0, 1, 2, 3], [3, 7, 1, 10])
    parts = from_labels(np.arange(21.0)[:, np.newaxis], labels)
    counts, rng, times = np.array([2, 3, 0, 10]), np.random.default_rng(0), 4000
    seen = np.zeros(21)
    for _ in range(times):
        columns = sampling._stratified_columns(parts, counts, rng)
        assert (np.diff(columns) > 0).all() and (np.bincount(labels[columns], minlength=4) == counts).all()
        seen[columns] += 1
    chances = (counts / parts.sizes)[labels]
    assert (np.abs(seen / times - chances) <= 5 * np.sqrt(chances * (1 - chances) / times)).all()
