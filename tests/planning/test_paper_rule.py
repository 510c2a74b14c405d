from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import from_labels
from blockbasis.planning.paper_rule import candidates, dichotomy, memory_bound, select, select_ranks
from tests.repeating import first_of


def rank_of(singular_values, n, tol):
    """The paper's rank of a diagonal block of a matrix of n points, as it is written."""
    size, energies = len(singular_values), np.sort(singular_values**2)
    allowed = (size / n) ** 2 * energies.sum() * tol**2
    return next(m for m in range(size + 1) if energies[: size - m].sum() < allowed)


def exact_ranks(X, kernel, partition, tol):
    blocks = [kernel(X[partition.order[cluster]]) for cluster in partition.clusters]
    return np.array([rank_of(np.linalg.svd(K, compute_uv=False), len(X), tol) for K in blocks])


def assert_near(ranks, exact):
    """Within ten per cent, or one."""
    assert (np.abs(ranks - exact) <= np.maximum(1, 0.1 * exact)).all(), f"{ranks} instead of {exact}"


def ranks_and_entries(X, kernel, partition, tol, seed, n_jobs=1):
    matrix = KernelMatrix(kernel, X[partition.order])
    return select_ranks(matrix, partition, tol, np.random.default_rng(seed), n_jobs), matrix.entries


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_ranks_of_small_blocks_are_the_formula(radial, points):
    """Blocks of 53 and 54 points: too small for a sample."""
    parts = from_labels(points, np.arange(160) % 3)
    for h, tol in itertools.product((0.05, 0.5), (0.3, 1e-1, 1e-2, 1e-3)):
        ranks, entries = ranks_and_entries(points, radial.make(h), parts, tol, 0)
        np.testing.assert_array_equal(ranks, exact_ranks(points, radial.make(h), parts, tol))
        assert entries == (parts.sizes**2).sum()


@pytest.mark.parametrize("seed", first_of(range(5)))
@pytest.mark.parametrize("kernel", [bb.Gaussian(1.0), bb.Matern(3.0, 2.5), bb.Cauchy(2.0), bb.Laplacian(8.0)], ids=repr)
def test_ranks_of_large_blocks_are_near_the_formula(kernel, seed):
    X = unit_cube_mixture(2000, 3, rng=1)
    parts = from_labels(X, (X[:, 0] > np.quantile(X[:, 0], 0.4)).astype(int))
    blocks = [np.linalg.svd(kernel(X[parts.order[cluster]]), compute_uv=False) for cluster in parts.clusters]
    for tol in (1e-1, 1e-2, 1e-3):
        exact = np.array([rank_of(values, 2000, tol) for values in blocks])
        assert_near(ranks_and_entries(X, kernel, parts, tol, seed)[0], exact)


def test_large_blocks_are_not_evaluated_whole():
    X = unit_cube_mixture(4000, 3, rng=1)
    parts = from_labels(X, np.zeros(4000, dtype=int))
    for seed in range(5):
        assert ranks_and_entries(X, bb.Gaussian(1.0), parts, 1e-2, seed)[1] < 0.1 * 4000**2


@pytest.mark.parametrize("seed", first_of(range(5)))
def test_points_far_from_all_others_are_not_missed(seed):
    """Thirty of 1,500 points hold all that the tolerance is about: a uniform sample would see few of them."""
    rng = np.random.default_rng(0)
    X = np.concatenate((rng.normal(size=(1470, 2)), 100 * rng.normal(size=(30, 2))))
    kernel, parts = bb.Gaussian(20.0), from_labels(X, np.zeros(1500, dtype=int))
    exact = exact_ranks(X, kernel, parts, 1e-3)
    assert exact[0] > 25
    ranks, entries = ranks_and_entries(X, kernel, parts, 1e-3, seed)
    assert entries < 0.5 * 1500**2
    assert_near(ranks, exact)


@pytest.fixture(scope="module")
def abalone_blocks(abalone):
    """Clusters of Abalone beside the squared singular values of their diagonal blocks for h = 1."""

    def cut(k):
        parts = bb.factorize(abalone, bb.Gaussian(1.0), n_clusters=k, rank=1, rng=0).partition
        blocks = [bb.Gaussian(1.0)(abalone[parts.order[cluster]]) for cluster in parts.clusters]
        return parts, [np.sort(np.linalg.eigvalsh(block) ** 2) for block in blocks]

    return {k: cut(k) for k in (1, 4, 16)}


@pytest.mark.slow
@pytest.mark.parametrize(("k", "tol"), [(1, 1e-1), (1, 1e-2), (4, 1e-1), (4, 1e-2), (16, 1e-1), (16, 1e-2), (16, 1e-3)])
def test_abalone(abalone, abalone_blocks, k, tol):
    parts, spectra = abalone_blocks[k]
    shares = (parts.sizes / len(abalone) * tol) ** 2
    exact = np.array([np.count_nonzero(np.cumsum(e) >= s * e.sum()) for e, s in zip(spectra, shares, strict=True)])
    for seed in range(5):
        assert_near(ranks_and_entries(abalone, bb.Gaussian(1.0), parts, tol, seed, n_jobs=2)[0], exact)


@pytest.mark.parametrize("seed", range(3))
def test_doubling_the_points_doubles_the_entries(seed):
    X = unit_cube_mixture(40_000, 3, rng=0)
    found = [select(X[:n], bb.Gaussian(1.0), 1e-2, n_clusters=4, rng=seed) for n in (5000, 10_000, 20_000)]
    for small, large in itertools.pairwise(found):
        assert 1.6 <= large.entries / small.entries <= 2.2
        assert large.ranks.sum() == pytest.approx(small.ranks.sum(), rel=0.1)  # a smooth kernel


# --- the number of clusters ------------------------------------------------------------------------------------------


def test_memory_bound_is_the_papers_g():
    assert memory_bound(np.array([5, 7, 3]), np.array([2, 1, 3])) == 5 * 2 + 7 * 1 + 3 * 3 + (2 + 1 + 3) ** 2


@pytest.mark.parametrize("n", [1, 2, 3, 10, 160, 10_000, 10**6])
def test_candidates_reach_from_one_to_the_root(n):
    numbers = candidates(n)
    assert numbers[0] == 1
    assert numbers[-1] == min(n, int(4 * math.sqrt(n)))
    assert all(a < b <= max(a + 1, 1.25 * a) for a, b in itertools.pairwise(numbers))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 20, 33])
def test_dichotomy_finds_the_minimum_of_a_convex_function(length):
    numbers = candidates(10**6)[:length]
    for best in numbers:
        asked = []

        def distance(k, best=best, asked=asked):
            asked.append(k)
            return (k - best) ** 2

        assert dichotomy(distance, numbers) == best
        assert len(asked) == len(set(asked)) <= 3 + 2 * math.log2(length)


def test_dichotomy_takes_the_fewest_clusters_of_equals():
    assert dichotomy(lambda k: 7, [1, 2, 3]) == 1


@pytest.mark.parametrize(("h", "tol"), [(0.1, 1e-1), (0.5, 1e-2), (2.0, 1e-3)])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_number_found_is_near_the_best(h, tol, seed):
    X = unit_cube_mixture(1500, 3, rng=0)
    kernel = bb.Gaussian(h)
    best = min(select(X, kernel, tol, n_clusters=k, rng=0).memory for k in candidates(1500))
    assert select(X, kernel, tol, rng=seed).memory <= 1.1 * best


# --- what is selected ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(points):
    return select(points, bb.Gaussian(0.3), 1e-2, rng=0)


def test_a_selection_is_consistent(points, found):
    np.testing.assert_array_equal(found.ranks, exact_ranks(points, bb.Gaussian(0.3), found.partition, 1e-2))
    assert found.memory == memory_bound(found.partition.sizes, found.ranks)
    assert (found.partition.n_clusters, found.memory) in found.searched
    assert found.memory == min(memory for _, memory in found.searched)
    assert len({k for k, _ in found.searched}) == len(found.searched) > 3


def test_a_smaller_tolerance_takes_more_rank(points):
    totals = [select(points, bb.Gaussian(0.5), tol, n_clusters=3, rng=0).ranks.sum() for tol in (0.3, 0.1, 0.01, 0.001)]
    assert totals == sorted(totals)
    assert totals[0] < totals[-1]


def test_clusters_may_be_given(points):
    labels = np.arange(160) % 3
    of_labels = select(points, bb.Gaussian(0.3), 0.1, partition=labels, n_clusters=3, rng=0)
    np.testing.assert_array_equal(of_labels.partition.labels, labels)
    assert of_labels.searched == ((3, of_labels.memory),)
    of_number = select(points, bb.Gaussian(0.3), 0.1, n_clusters=7, partition="kcenters", rng=0)
    assert of_number.searched == ((7, of_number.memory),)
    with pytest.raises(ValueError, match="'n_clusters' parameter of select must be that of the partition given, 3"):
        select(points, bb.Gaussian(0.3), 0.1, partition=labels, n_clusters=4)


def test_the_same_for_any_number_of_threads():
    X = unit_cube_mixture(1500, 3, rng=0)
    first, second = (select(X, bb.Gaussian(1.0), 1e-2, rng=3, n_jobs=jobs) for jobs in (1, 3))
    assert first.searched == second.searched
    assert first.entries == second.entries
    np.testing.assert_array_equal(first.ranks, second.ranks)


def test_float32_points_have_the_same_ranks():
    X = unit_cube_mixture(1500, 3, rng=0)
    parts = np.arange(1500) % 2
    for tol in (1e-1, 1e-3, 1e-5):
        wide, narrow = (
            select(Y, bb.Gaussian(1.0), tol, partition=parts, rng=0).ranks for Y in (X, X.astype(np.float32))
        )
        assert_near(narrow, wide)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 30])
@pytest.mark.parametrize("algorithm", ["kmeans", "kcenters", "random"])
def test_few_points(n, algorithm):
    X = unit_cube_mixture(n, 2, rng=0)
    found = select(X, bb.Gaussian(0.3), 1e-3, partition=algorithm, rng=0)
    np.testing.assert_array_equal(found.ranks, exact_ranks(X, bb.Gaussian(0.3), found.partition, 1e-3))


@pytest.mark.parametrize("n", [1, 40, 500])
def test_clusters_of_one_point(n):
    X = unit_cube_mixture(n, 2, rng=0)
    found = select(X, bb.Gaussian(0.1), 1e-2, n_clusters=n, partition="random", rng=0)
    np.testing.assert_array_equal(found.ranks, 1)
    assert found.memory == n + n**2


@pytest.mark.parametrize("n", [2, 50, 1000])
def test_all_points_equal(n):
    found = select(np.full((n, 3), 7.0), bb.Laplacian(1.0), 1e-6, rng=0)
    np.testing.assert_array_equal(found.ranks, [1])
    assert found.memory == n + 1


@pytest.mark.parametrize("copies", [10, 200])
def test_duplicated_points(copies):
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 2)), copies, axis=0)
    found = select(X, bb.Gaussian(0.01), 1e-3, n_clusters=1, rng=0)
    np.testing.assert_array_equal(found.ranks, [6])


@pytest.mark.parametrize("n", [40, 400])
def test_a_block_of_zeros_has_rank_one(n):
    X = np.concatenate((np.zeros((n, 2)), unit_cube_mixture(n, 2, rng=0)))
    found = select(X, lambda X, Y: X @ Y.T, 1e-2, partition=np.repeat([0, 1], n), rng=0)
    np.testing.assert_array_equal(found.ranks, [1, 2])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"X": [[np.nan]]}, ["'X' parameter of select", "free of NaN"]),
        ({"kernel": "rbf"}, ["'kernel' parameter of select", "'rbf'"]),
        ({"tol": 0.0}, ["'tol' parameter of select", "between 0 and 1", "Got 0.0"]),
        ({"tol": None}, ["'tol' parameter of select", "Got None"]),
        ({"n_clusters": 161}, ["'n_clusters' parameter of select", "at most 160", "Got 161"]),
        ({"partition": "means"}, ["'partition' parameter of select", "Got 'means'"]),
        ({"rng": -1}, ["'rng' parameter of select", "Got -1"]),
        ({"n_jobs": 0}, ["'n_jobs' parameter of select", "Got 0"]),
        ({"kernel": lambda X, Y: X[:, :1] - Y[:, 0]}, ["must be symmetric"]),
        ({"kernel": lambda X, Y: -X @ Y.T}, ["must be positive semi-definite"]),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, dict) else "",
)
def test_bad_arguments(points, arguments, parts):
    with pytest.raises((TypeError, ValueError)) as caught:
        select(**{"X": points, "kernel": bb.Gaussian(1.0), "tol": 0.1, **arguments})
    for part in parts:
        assert part in str(caught.value)


# --- factorize(algorithm="paper") ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"sampling": "pooled"}, {"sampling": "uniform"}, {"inner": "exact"}], ids=str)
def test_the_papers_algorithm_takes_a_tolerance(points, settings):
    kernel = bb.Gaussian(0.5)
    A = bb.factorize(points, kernel, tol=1e-2, algorithm="paper", rng=0, **settings)
    np.testing.assert_array_equal(A.ranks, exact_ranks(points, kernel, A.partition, 1e-2))
    assert bb.relative_error(A, points, kernel).value < 5e-2  # a guide, not a promise
    assert A.error_estimate is None
    assert A.diagonal_part is None
    assert A.entries.planning > 0


def test_with_clusters_given_only_the_ranks_are_selected(points):
    A = bb.factorize(points, bb.Gaussian(0.5), tol=1e-2, n_clusters=5, algorithm="paper", rng=0)
    assert A.n_clusters == 5
    assert A.entries.planning == (A.partition.sizes**2).sum()
    labels = np.arange(160) % 3
    B = bb.factorize(points, bb.Gaussian(0.5), tol=1e-2, partition=labels, algorithm="paper", rng=0)
    np.testing.assert_array_equal(B.partition.labels, labels)


def test_the_papers_default_is_a_tolerance_too(points):
    default, given = (
        bb.factorize(points, bb.Gaussian(0.5), algorithm="paper", rng=0, **settings) for settings in ({}, {"tol": 1e-3})
    )
    np.testing.assert_array_equal(default.todense(), given.todense())


def test_entries_of_the_selection_are_counted(many_points, counting):
    A = bb.factorize(many_points, counting, tol=1e-2, algorithm="paper", rng=0, n_jobs=1)
    assert A.entries.total == counting.seen
    assert 0 < A.entries.planning < A.entries.total


def test_a_budget_has_no_rule(points):
    with pytest.raises(ValueError, match=r"'memory' parameter of factorize must be left out .* Got '1MB' instead"):
        bb.factorize(points, bb.Gaussian(1.0), memory="1MB", algorithm="paper")


def test_a_tolerance_wants_a_semidefinite_function(points):
    def indefinite(X, Y):
        return -X @ Y.T

    bb.factorize(points, indefinite, n_clusters=2, rank=5, algorithm="paper", rng=0)
    with pytest.raises(ValueError, match="positive semi-definite.*algorithm='paper' and 'rank' given takes any"):
        bb.factorize(points, indefinite, tol=0.1, algorithm="paper", rng=0)
