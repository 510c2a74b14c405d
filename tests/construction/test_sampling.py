from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

import blockbasis as bb
from blockbasis import sampling
from blockbasis.kernels import as_kernel
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import from_labels
from blockbasis.sampling import (
    energy_sampling,
    every_column,
    important_columns,
    leverage_sampling,
    leverage_scores,
    own_columns,
    pool_of_cluster,
    randomized_sampling,
    tournament,
    uniform_sampling,
)

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


def spans(columns, M):
    """Relative size of what the columns of M leave over."""
    Q = np.linalg.qr(M[:, columns])[0]
    return np.linalg.norm(M - Q @ (Q.T @ M)) / np.linalg.norm(M)


# --- energy sampling -------------------------------------------------------------------------------------------------


def test_columns_are_drawn_once_and_in_order(matrix, parts):
    for seed in range(5):
        skeleton = energy_sampling(matrix, CLUSTER, parts[1], 30, np.random.default_rng(seed))
        assert (np.diff(skeleton.columns) > 0).all()
        assert skeleton.columns.min() >= 0
        assert skeleton.columns.max() < N
        assert skeleton.scales.shape == skeleton.columns.shape
        assert skeleton.scales.min() >= 1


def test_as_many_columns_as_asked_for_on_average(matrix, parts):
    counts = [
        len(energy_sampling(matrix, CLUSTER, parts[1], 30, np.random.default_rng(seed)).columns) for seed in range(200)
    ]
    assert np.mean(counts) == pytest.approx(30, abs=4 * np.std(counts) / np.sqrt(200))
    assert np.ptp(counts) <= 4  # each cluster's count is rounded up or down, no more


def test_more_columns_than_there_are_is_all_of_them(matrix, parts):
    skeleton = energy_sampling(matrix, CLUSTER, parts[1], 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(skeleton.columns, np.arange(N))
    np.testing.assert_array_equal(skeleton.scales, 1)


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
        skeleton = draw(np.random.default_rng(seed))
        B = M[:, skeleton.columns] * skeleton.scales
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
    energies = sampling._cluster_energies(tiny, CLUSTER, parts[1], np.random.default_rng(0))
    np.testing.assert_array_equal(energies, 0)


def test_energies_are_mean_squares(parts, matrix):
    K = matrix.block(CLUSTER, slice(0, N))
    K[np.arange(20), np.arange(20, 40)] = 0
    own = np.array([20 * 20, 20 * 19, 20 * 20, 20 * 20])
    exact = (K**2).reshape(20, 4, 20).sum(axis=(0, 2)) / own
    draws = [sampling._cluster_energies(matrix, CLUSTER, parts[1], np.random.default_rng(s)) for s in range(100)]
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
    skeleton = uniform_sampling(matrix, 30, np.random.default_rng(0))
    assert len(np.unique(skeleton.columns)) == 30
    np.testing.assert_array_equal(skeleton.scales, 1)
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


def test_leverage_scores_tile_by_tile(matrix, monkeypatch):
    whole = leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0))
    before = matrix.entries
    monkeypatch.setattr("blockbasis.matrix._TILE_ENTRIES", 20 * 7)
    np.testing.assert_allclose(leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0)), whole, rtol=1e-9)
    assert matrix.entries - before == 20 * N


def test_leverage_sampling_is_unbiased(matrix):
    M = matrix.block(CLUSTER, slice(0, N))
    M = M[:, leverage_scores(matrix, CLUSTER, 5, np.random.default_rng(0)) > 0]
    assert M.shape[1] == N
    assert_unbiased(lambda rng: leverage_sampling(matrix, CLUSTER, 5, 40, rng), M, 1500)


def test_leverage_columns_are_unique(matrix):
    skeleton = leverage_sampling(matrix, CLUSTER, 3, 60, np.random.default_rng(0))
    assert len(np.unique(skeleton.columns)) == len(skeleton.columns) < 60


def test_whole_rows_and_own_columns(matrix):
    np.testing.assert_array_equal(every_column(matrix).columns, np.arange(N))
    np.testing.assert_array_equal(own_columns(CLUSTER).columns, np.arange(20, 40))
    np.testing.assert_array_equal(own_columns(CLUSTER).scales, np.ones(20))


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_algorithm_1_recovers_a_low_rank_matrix(low_rank, seed):
    skeleton = randomized_sampling(low_rank, CLUSTER, 6, np.random.default_rng(seed))
    M = low_rank.block(CLUSTER, slice(0, N))
    assert spans(skeleton.columns, M) < 1e-12
    # Truncation by the diagonal of R: four important rows and pivots, beside six columns at random.
    assert len(skeleton.rows) == 4
    assert 4 <= len(skeleton.columns) <= 10
    assert np.linalg.matrix_rank(M[skeleton.rows]) == 4


def test_algorithm_1_spans_better_than_chance(matrix):
    M = matrix.block(CLUSTER, slice(0, N))
    important, uniform = [], []
    for seed in range(20):
        skeleton = randomized_sampling(matrix, CLUSTER, 3, np.random.default_rng(seed))
        important.append(spans(skeleton.columns, M))
        rng = np.random.default_rng(seed)
        uniform.append(spans(uniform_sampling(matrix, len(skeleton.columns), rng).columns, M))
    assert np.mean(important) < np.mean(uniform) / 2
    assert np.std(important) < np.std(uniform)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_algorithm_1_sets_grow_by_the_rank_each_time(matrix, iterations):
    for seed in range(5):
        skeleton = randomized_sampling(matrix, CLUSTER, 3, np.random.default_rng(seed), iterations=iterations)
        assert len(np.unique(skeleton.columns)) == len(skeleton.columns) <= 3 * (iterations + 1)
        assert len(np.unique(skeleton.rows)) == len(skeleton.rows) <= 3 * iterations
        assert len(skeleton.columns) >= 3 * iterations
        assert skeleton.rows.max() < 20


def test_algorithm_1_stops_when_nothing_changes(low_rank):
    """With every row drawn each time the pivots cannot change, and the second iteration is the last."""

    def entries(iterations):
        before = low_rank.entries
        randomized_sampling(low_rank, CLUSTER, 20, np.random.default_rng(0), iterations=iterations)
        return low_rank.entries - before

    assert entries(1) < entries(2) == entries(3) == entries(50)


def test_algorithm_1_chooses_among_candidates(low_rank):
    candidates = np.array([1, 5, 21, 22, 44, 45, 46, 70])
    skeleton = randomized_sampling(low_rank, CLUSTER, 2, np.random.default_rng(0), candidates=candidates)
    assert np.isin(skeleton.columns, candidates).all()
    assert 4 <= len(skeleton.columns) <= 6
    assert spans(skeleton.columns, low_rank.block(CLUSTER, slice(0, N))) < 1e-12


def test_important_columns_are_cut_at_the_rank():
    rng = np.random.default_rng(0)
    block = rng.normal(size=(10, 3)) @ rng.normal(size=(3, 25))
    assert len(important_columns(block, 8)) == 3
    assert len(important_columns(block, 2)) == 2
    assert important_columns(block, 2)[0] == np.linalg.norm(block, axis=0).argmax()


def test_important_columns_of_nothing():
    assert important_columns(np.zeros((4, 6)), 3).shape == (1,)
    assert important_columns(np.zeros((0, 6)), 3).shape == (0,)


# --- tournament pivoting ---------------------------------------------------------------------------------------------

#: Entries of a tile in these tests: so few that blocks of thousands of columns are several rounds.
_FEW_ENTRIES = 2**13


def wide_block(seed, height, width, bandwidth=0.5):
    """Entries of a Gaussian kernel between a few rows and points in clusters of very unlike sizes and spreads."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice(6, width, p=[0.4, 0.3, 0.2, 0.06, 0.03, 0.01]))
    X = rng.normal(size=(6, 4))[labels] + rng.normal(size=(width, 4)) * np.geomspace(0.03, 1, 6)[labels, np.newaxis]
    rows = rng.choice(width, height, replace=False)
    return bb.Gaussian(bandwidth).block(X[rows], X)


def plain_pivots(block, size):
    R, pivots = linalg.qr(block, mode="r", pivoting=True)
    diagonal = np.abs(np.diagonal(R))
    return pivots[: min(size, np.count_nonzero(diagonal > 1e-12 * diagonal[0]))]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(20, 500), (40, 3000), (30, 12), (1, 40)])
def test_blocks_of_one_tile_have_the_pivots_of_pivoted_qr(shape, order):
    height, width = shape
    block = np.asarray(wide_block(0, min(shape), max(shape)), order=order)
    block = block if height <= width else block.T
    before = block.copy()
    for size in (1, 7, 40):
        np.testing.assert_array_equal(important_columns(block, size), plain_pivots(block, size))
    np.testing.assert_array_equal(block, before)


@pytest.mark.parametrize("height", [20, 40])
def test_tournament_is_as_good_as_pivoted_qr(monkeypatch, height):
    """Volume, conditioning and what the columns leave over, for half as many columns as rows, and for as many.

    Neither is the best choice: of a single block now the one and now the other leaves less, so means are compared.
    """
    monkeypatch.setattr(sampling, "_PIVOTED_ENTRIES", 2**15)  # some 40 columns for each one kept: 80 in earnest
    left, volumes = [], []
    for seed in range(30):
        block = wide_block(seed, height, 6000)
        for size in (height // 2, height):
            ours, plain = important_columns(block, size), plain_pivots(block, size)
            assert len(np.unique(ours)) == len(ours) == len(plain)
            values, of_plain = (np.linalg.svd(block[:, each], compute_uv=False) for each in (ours, plain))
            assert values[-1] > of_plain[-1] / 3
            volumes.append(np.exp(np.log(values / of_plain).mean()))  # for each of the columns
            if size < height:
                left.append(spans(ours, block) / spans(plain, block))
    assert np.mean(volumes) > 0.98
    assert min(volumes) > 0.9
    assert np.exp(np.mean(np.log(left))) < 1.05
    assert max(left) < 2.5


@pytest.mark.parametrize("seed", range(3))
def test_tournament_of_several_rounds_finds_what_spans(monkeypatch, seed):
    """Five of 5000 columns span the others, and stand anywhere."""
    monkeypatch.setattr(sampling, "_PIVOTED_ENTRIES", 2**8)
    rng = np.random.default_rng(seed)
    block = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 5000))
    found = important_columns(block, 12)
    assert len(found) == 5
    assert spans(found, block) < 1e-12
    assert important_columns(np.zeros((20, 5000)), 12).shape == (1,)


def test_tournament_evaluates_every_column_once_and_few_at_a_time(monkeypatch):
    monkeypatch.setattr(sampling, "_PIVOTED_ENTRIES", _FEW_ENTRIES)
    block, asked = wide_block(0, 20, 5000), []

    def evaluate(tile):
        asked.append((tile.start, tile.stop))
        return block[:, tile]

    found = tournament(evaluate, block.shape, 10)
    np.testing.assert_array_equal(found, important_columns(block, 10))
    starts, stops = zip(*asked, strict=True)
    assert starts == (0, *stops[:-1])
    assert stops[-1] == 5000
    assert max(stop - start for start, stop in asked) <= _FEW_ENTRIES // 20


@pytest.mark.parametrize("algorithm", ["randomized", "pooled"])
def test_tiles_leave_the_entries_and_the_error_of_the_papers_algorithm(monkeypatch, algorithm):
    """Mean error over seeds of the whole factorization, with tiles and with plain pivoted QR."""
    X = np.random.default_rng(0).normal(size=(3000, 3))
    errors, entries = {}, {}
    for tile in (2**40, 2**12):
        monkeypatch.setattr(sampling, "_PIVOTED_ENTRIES", tile)
        found = [
            bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=15, algorithm="paper", sampling=algorithm, rng=seed)
            for seed in range(5)
        ]
        errors[tile] = np.mean([bb.relative_error(A, X, bb.Gaussian(1.0)).value for A in found])
        entries[tile] = [A.entries.bases for A in found]
    assert errors[2**12] < 1.05 * errors[2**40]
    np.testing.assert_allclose(entries[2**12], entries[2**40], rtol=0.1)


def test_pool_is_of_the_clusters_own_points(matrix, low_rank):
    pool = pool_of_cluster(matrix, CLUSTER, 5, np.random.default_rng(0))
    assert len(pool) == 5
    assert (np.diff(pool) > 0).all()
    assert pool.min() >= 20
    assert pool.max() < 40
    assert len(pool_of_cluster(low_rank, CLUSTER, 9, np.random.default_rng(0))) == 4


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
        columns = sampling._one_of_each_part(parts, counts, rng)
        assert (np.diff(columns) > 0).all() and (np.bincount(labels[columns], minlength=4) == counts).all()
        seen[columns] += 1
    chances = (counts / parts.sizes)[labels]
    assert (np.abs(seen / times - chances) <= 5 * np.sqrt(chances * (1 - chances) / times)).all()
