from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture


@pytest.fixture(scope="module")
def cloud():
    return unit_cube_mixture(1000, 3, rng=0)


@pytest.mark.filterwarnings("ignore::blockbasis.PerformanceWarning")  # the smallest bandwidth is not worth it
@pytest.mark.parametrize("h", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_a_tolerance_is_met_and_known(cloud, h, tol):
    kernel = bb.Gaussian(h)
    for seed in range(2):
        A = bb.factorize(cloud, kernel, tol=tol, rng=seed)
        truth = bb.relative_error(A, cloud, kernel).value
        assert truth <= tol
        assert A.error_estimate.exact  # few points: every row was looked at
        assert A.error_estimate.value == pytest.approx(truth, rel=1e-3)


def test_a_tolerance_is_met_from_some_rows():
    kernel, deviations = bb.Gaussian(0.3), []
    for seed in range(5):
        X = unit_cube_mixture(4500, 3, rng=seed)
        A = bb.factorize(X, kernel, tol=0.05, rng=seed)
        truth = bb.relative_error(A, X, kernel).value
        assert truth <= 0.05
        assert not A.error_estimate.exact
        deviations.append(abs(A.error_estimate.value / truth - 1))
    assert max(deviations) <= 0.2


@pytest.mark.parametrize("kernel", [bb.Laplacian(1.0), bb.Matern(0.5, 2.5), bb.Cauchy(0.3)], ids=repr)
def test_a_tolerance_is_met_for_other_kernels(cloud, kernel):
    A = bb.factorize(cloud, kernel, tol=0.05, rng=0)
    assert bb.relative_error(A, cloud, kernel).value <= 0.05


def test_a_smaller_tolerance_takes_more_memory(cloud):
    stored = [bb.factorize(cloud, bb.Gaussian(0.5), tol=tol, rng=0).stored for tol in (0.1, 0.01, 0.001)]
    assert stored[0] < stored[1] < stored[2]


def test_the_default_is_a_tolerance(cloud):
    A = bb.factorize(cloud, bb.Gaussian(1.0), rng=0)
    assert bb.relative_error(A, cloud, bb.Gaussian(1.0)).value <= 1e-3


@pytest.mark.parametrize("floats_per_point", [4, 10, 40])
def test_a_budget_is_kept_and_nearly_used(cloud, floats_per_point):
    budget = floats_per_point * len(cloud)
    A = bb.factorize(cloud, bb.Gaussian(0.2), memory=budget, rng=0)
    assert 0.9 * budget <= A.stored <= budget
    assert A.error_estimate.value == pytest.approx(bb.relative_error(A, cloud, bb.Gaussian(0.2)).value, rel=0.2)


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_the_least_budget_is_kept_by_fewer_clusters(cloud, n):
    A = bb.factorize(cloud[:n], bb.Gaussian(3.0), memory=3 * n, rng=0)
    assert A.stored <= 3 * n


def test_a_budget_below_what_the_clusters_need_is_refused(cloud):
    labels = np.arange(len(cloud)) % 100
    for arguments in ({"n_clusters": 100}, {"partition": labels}):
        with pytest.raises(
            ValueError, match="'memory' parameter must be at least 7050 floats for 100 clusters. Got 3000"
        ):
            bb.factorize(cloud, bb.Gaussian(3.0), memory=3000, rng=0, **arguments)


@pytest.mark.parametrize("tol", [1e-4, 3e-4])
def test_float32_meets_small_tolerances_and_knows_its_error(cloud, tol):
    X = cloud[:400].astype(np.float32)
    for seed in range(2):
        A = bb.factorize(X, bb.Gaussian(0.3), tol=tol, rng=seed)
        truth = bb.relative_error(A, X, bb.Gaussian(0.3)).value
        assert truth <= tol
        assert A.error_estimate.value == pytest.approx(truth, rel=1e-2)


@pytest.mark.parametrize("tol", [1e-5, 1e-8])
def test_duplicated_points_meet_small_tolerances(cloud, tol):
    X = np.repeat(cloud[:100], 4, axis=0)
    A = bb.factorize(X, bb.Gaussian(0.3), tol=tol, rng=0)
    assert bb.relative_error(A, X, bb.Gaussian(0.3)).value <= tol


def test_a_tolerance_below_rounding_ends_with_a_warning(cloud):
    X = cloud[:200].astype(np.float32)
    with pytest.warns(bb.AccuracyWarning, match="tolerance of 1e-12 was not reached: the relative error is") as caught:
        A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-12, rng=0)
    assert caught[-1].filename == __file__
    assert A.error_estimate.value < 1e-5


def test_a_budget_in_bytes(cloud):
    A = bb.factorize(cloud, bb.Gaussian(0.3), memory="0.24 MB", rng=0)
    assert 20_000 < A.stored <= 30_000
    narrow = bb.factorize(cloud.astype(np.float32), bb.Gaussian(0.3), memory="240KB", rng=0)
    assert 40_000 < narrow.stored <= 60_000


def test_more_memory_less_error(cloud):
    kernel = bb.Gaussian(0.2)
    errors = [
        bb.relative_error(bb.factorize(cloud, kernel, memory=m * len(cloud), rng=0), cloud, kernel).value
        for m in (5, 15, 45)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_clusters_may_be_given(cloud):
    A = bb.factorize(cloud, bb.Gaussian(0.5), tol=0.01, n_clusters=7, rng=0)
    assert A.n_clusters == 7
    labels = np.arange(len(cloud)) % 3
    B = bb.factorize(cloud, bb.Gaussian(0.5), tol=0.01, partition=labels, rng=0)
    np.testing.assert_array_equal(B.partition.labels, labels)
    for operator in (A, B):
        assert bb.relative_error(operator, cloud, bb.Gaussian(0.5)).value <= 0.01


def test_a_skeleton_basis_keeps_a_tolerance_too(cloud):
    A = bb.factorize(cloud, bb.Gaussian(0.5), tol=0.02, basis="skeleton", rng=0)
    assert bb.relative_error(A, cloud, bb.Gaussian(0.5)).value <= 0.02


def test_the_same_for_any_number_of_threads(cloud):
    first, second = (bb.factorize(cloud, bb.Gaussian(0.3), tol=0.05, rng=3, n_jobs=jobs) for jobs in (1, 3))
    np.testing.assert_array_equal(first.todense(), second.todense())


def test_few_points():
    for n in (1, 2, 5, 30):
        X = unit_cube_mixture(n, 2, rng=0)
        A = bb.factorize(X, bb.Gaussian(0.3), tol=1e-3, rng=0)
        assert bb.relative_error(A, X, bb.Gaussian(0.3)).value <= 1e-3


def test_all_points_equal():
    X = np.ones((50, 2))
    np.testing.assert_allclose(bb.factorize(X, bb.Gaussian(1.0), rng=0).todense(), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"tol": 0.0}, ["'tol'", "between 0 and 1", "0.0"]),
        ({"tol": 1.0}, ["'tol'", "between 0 and 1", "1.0"]),
        ({"tol": -1e-3}, ["'tol'", "-0.001"]),
        ({"tol": float("nan")}, ["'tol'", "nan"]),
        ({"tol": "small"}, ["'tol'", "'small'"]),
        ({"memory": 0}, ["'memory'", "0"]),
        ({"memory": 100}, ["'memory'", "3 floats for each of the 1000 points", "100"]),
        ({"memory": "much"}, ["'memory'", "512MB", "'much'"]),
        ({"memory": "5 parsecs"}, ["'memory'", "512MB", "'5 parsecs'"]),
        ({"memory": 1e6}, ["'memory'", "1000000.0"]),
        ({"tol": 0.1, "memory": 10**5}, ["one of 'tol', 'memory' and 'rank'", "Got 'tol' and 'memory' together"]),
        ({"tol": 0.1, "rank": 3}, ["Got 'tol' and 'rank' together"]),
        ({"memory": 10**5, "rank": 3}, ["Got 'memory' and 'rank' together"]),
        ({"memory": 10**5, "algorithm": "paper"}, ["'memory'", "algorithm='paper'", "no rule for a budget", "100000"]),
        ({"tol": 1e-3, "cutoff": 1e-2}, ["'cutoff'", "below 'tol'", "0.01", "0.001"]),
        ({"memory": 10**5, "sampling": "uniform"}, ["'rank'", "sampling='uniform'"]),
    ],
    ids=str,
)
def test_bad_goals(cloud, arguments, parts):
    with pytest.raises((ValueError, TypeError)) as caught:
        bb.factorize(cloud, bb.Gaussian(1.0), **arguments)
    for part in parts:
        assert part in str(caught.value)


# --- points with no others near --------------------------------------------------------------------------------------


def lattice_with_pairs(n_pairs):
    """Isolated points, some with one companion: D holds all but two entries for each of those."""
    far = 100.0 * np.stack(np.meshgrid(*[np.arange(8)] * 3), axis=-1).reshape(-1, 3)
    return np.concatenate((far, far[:n_pairs] + [0.5, 0.0, 0.0]))


@pytest.mark.parametrize(("n_pairs", "floats"), [(0, 3), (0, 20), (1, 3), (1, 20), (20, 6), (20, 20)])
@pytest.mark.parametrize("n_clusters", [None, 8])
def test_budgets_are_kept_where_next_to_nothing_is_to_hold(n_pairs, n_clusters, floats):
    X = lattice_with_pairs(n_pairs)
    K = bb.Gaussian(1.0)(X)
    for seed in range(2):
        A = bb.factorize(X, bb.Gaussian(1.0), memory=floats * len(X), n_clusters=n_clusters, rng=seed)
        assert A.stored <= floats * len(X)
        assert np.linalg.norm(A.todense() - K) <= 0.02 * np.linalg.norm(K)


@pytest.mark.parametrize("n_pairs", [0, 1, 20])
def test_tolerances_cost_little_where_next_to_nothing_is_to_hold(n_pairs):
    X = lattice_with_pairs(n_pairs)
    K = bb.Gaussian(1.0)(X)
    for seed in range(2):
        A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-4, rng=seed)
        assert np.linalg.norm(A.todense() - K) <= 1e-4 * np.linalg.norm(K)
        assert A.stored <= 20 * len(X)


def test_a_budget_is_kept_for_a_kernel_without_neighbours():
    """White noise: a function that is one where the points are the same."""

    def same(X, Y):
        return (X[:, np.newaxis] == Y).all(axis=2).astype(float)

    X = np.random.default_rng(0).normal(size=(300, 3))
    A = bb.factorize(X, same, memory=2000, rng=0)
    assert A.stored <= 2000
    np.testing.assert_allclose(A.todense(), np.eye(300), atol=1e-12)
