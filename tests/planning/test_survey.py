from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import SURVEY, Method
from blockbasis.datasets import unit_cube_mixture
from blockbasis.partition import Partitioner, from_labels
from blockbasis.planning import survey as module
from blockbasis.planning.goal import Goal, Request
from blockbasis.planning.survey import survey
from tests.repeating import first_of

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


def surveyed(X, h, goal, k, seed, limit=np.inf):
    request = Request(X, bb.Gaussian(h), goal, SKETCHED, 1)
    return survey(request, Partitioner(X, "kmeans", None, "f"), k, 20, np.random.default_rng(seed), limit)


@pytest.mark.parametrize("h", [0.3, 1.0])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_survey_tells_the_norm_and_what_the_tolerance_needs(h, seed):
    """The floats that a survey tells are near those that are then stored."""
    X = unit_cube_mixture(1500, 3, rng=0)
    norm = (bb.Gaussian(h)(X) ** 2).sum()
    found = surveyed(X, h, Goal(1e-2, None), 6, seed)
    assert found.complete and found.n_requested == 6
    assert found.norm == pytest.approx(norm, rel=0.1)
    assert found.error <= 1e-4 * found.norm
    A = bb.factorize(X, bb.Gaussian(h), tol=1e-2, n_clusters=6, rng=seed)
    assert found.stored == pytest.approx(A.stored, rel=0.3)


def test_the_subset_of_many_points_has_rows_enough_for_the_rank():
    """With fewer rows for each unit of rank, residuals are too small, and ranks have to be raised."""
    X = unit_cube_mixture(60_000, 3, rng=0)
    found = surveyed(X, 1.0, Goal(1e-2, None), 200, 0)
    assert 200 * 20 * SURVEY.rows <= found.partition.n_points < 60_000


def test_a_survey_keeps_a_budget():
    X = unit_cube_mixture(1500, 3, rng=0)
    for budget in (10_000, 30_000):
        found = surveyed(X, 0.5, Goal(None, budget), 6, 0)
        assert found.stored <= budget
        assert found.ranks.min() >= 1


def test_a_survey_ends_where_it_is_too_costly():
    X = np.random.default_rng(0).normal(size=(1000, 20))
    whole, cut = (surveyed(X, 3.0, Goal(1e-6, None), 2, 0, limit) for limit in (np.inf, 1000.0))
    assert not cut.complete
    assert cut.ranks.sum() < whole.ranks.sum()


def test_ranks_of_other_clusters_follow_their_sizes():
    X = unit_cube_mixture(1500, 3, rng=0)
    found = surveyed(X, 0.5, Goal(1e-2, None), 6, 0)
    smallest, largest = found.sizes.argmin(), found.sizes.argmax()
    ends = found.ranks_of(np.array([0, 10**6]))
    np.testing.assert_array_equal(ends, found.ranks[[smallest, largest]])
    between = found.ranks_of(np.arange(1, 1500))
    assert found.ranks.min() <= between.min() and between.max() <= found.ranks.max()
    assert found.ranks.min() <= found.mean_rank <= found.ranks.max()


@pytest.mark.parametrize("seed", range(5))
def test_clusters_looked_at_stand_for_all_points(seed):
    sizes = np.random.default_rng(seed).integers(1, 400, 300)
    X = np.zeros((sizes.sum(), 1))
    parts = from_labels(X, np.repeat(np.arange(300), sizes))
    picked, weights = module._select_clusters(X, parts, 6, np.random.default_rng(seed))
    assert len(np.unique(picked)) == len(picked) <= 48
    assert weights @ parts.sizes[picked] == pytest.approx(sizes.sum())
    few = from_labels(X[:20], np.arange(20) % 4)
    np.testing.assert_array_equal(module._select_clusters(X[:20], few, 6, np.random.default_rng(0))[1], np.ones(4))


@pytest.mark.parametrize("seed", range(5))
def test_clusters_with_many_of_the_points_represent_themselves_alone(seed):
    sizes = np.array([50_000, 20_000, *[10] * 40])
    X = np.random.default_rng(seed).normal(size=(sizes.sum(), 2))
    parts = from_labels(X, np.repeat(np.arange(len(sizes)), sizes))
    picked, weights = module._select_clusters(X, parts, 6, np.random.default_rng(seed))
    np.testing.assert_array_equal(picked[:2], [0, 1])
    np.testing.assert_allclose(weights, [1, 1, 10, 10, 10, 10])


def test_clusters_of_every_spread_are_looked_at():
    """A systematic sample: of ten clusters in the order of their spread, one of each pair of neighbours."""
    rng = np.random.default_rng(0)
    X = np.concatenate([scale * rng.normal(size=(1000, 2)) for scale in (3, 1, 8, 2, 5, 9, 4, 10, 6, 7)])
    parts = from_labels(X, np.repeat(np.arange(10), 1000))
    order = np.argsort(np.argsort([np.var(X[cluster], axis=0).sum() for cluster in parts.clusters]))
    for seed in range(5):
        picked, _ = module._select_clusters(X, parts, 5, np.random.default_rng(seed))
        np.testing.assert_array_equal(np.sort(order[picked]) // 2, np.arange(5))


def test_the_smallest_blocks_of_all_surveyed_clusters_are_dropped():
    energies, weights = np.array([[8.0, 1.0, 2.0], [4.0, 0.5, 16.0]]), np.array([1.0, 2.0])
    assert module._kept(energies, weights, 0.0).all()
    np.testing.assert_array_equal(module._kept(energies, weights, 2.0), [[True, False, True], [True, False, True]])
    np.testing.assert_array_equal(module._kept(energies, weights, 4.0), [[True, False, False], [True, False, True]])


def test_related_ranks_are_those_of_related_clusters():
    """Two groups of clusters that do not see each other: each cluster has the ranks of its own group."""
    energies = np.kron(np.eye(2), np.ones((10, 10)))
    found = [module.ClusterSurvey(50.0, np.zeros(1), False, energies[i], None, None) for i in (0, 4, 12, 17)]
    picked, weights = np.array([0, 4, 12, 17]), np.full(4, 5.0)
    ranks = np.array([30.0, 20.0, 4.0, 6.0])
    related = module._related(found, picked, weights, 1e-9)
    np.testing.assert_allclose(related @ ranks, [30 + 9 * 20, 20 + 9 * 30, 4 + 9 * 6, 6 + 9 * 4])
    every = module._related(found, picked, weights, 0.0)
    np.testing.assert_allclose(
        every @ ranks, [30 + 19 * 10, 20 + 19 * 40 / 3, 4 + 19 * 56 / 3, 6 + 19 * 18], rtol=1e-12
    )


def test_clusters_of_too_high_a_rank_are_not_surveyed_further(monkeypatch):
    """Heavy tails leave most points in one cluster: planning gives up, says so, and keeps clusters whole."""
    monkeypatch.setattr(module, "_MAX_RANK", 40)
    X, goal = np.random.default_rng(0).standard_cauchy(size=(700, 3)), Goal(1e-2, None)
    found = surveyed(X, 1.0, goal, 2, 0)
    assert not found.complete
    assert found.ranks.max() <= 40
    with pytest.warns(bb.PerformanceWarning, match="more than the 245350 of the dense matrix"):
        A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=0)
    assert bb.relative_error(A, X, bb.Gaussian(1.0)).value <= 1e-2
