from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import Method
from blockbasis.datasets import unit_cube_mixture
from blockbasis.partition import Partitioner, from_labels
from blockbasis.planning import survey as module
from blockbasis.planning.goal import Goal, Job
from blockbasis.planning.survey import survey

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


def surveyed(X, h, goal, k, seed, limit=np.inf):
    job = Job(X, bb.Gaussian(h), goal, SKETCHED, 1)
    return survey(job, Partitioner(X, "kmeans", None, "f"), k, 20, np.random.default_rng(seed), limit)


@pytest.mark.parametrize("h", [0.3, 1.0])
def test_a_survey_tells_the_norm_and_what_the_tolerance_needs(h):
    """A quarter: what the issue asks of planned floats."""
    X = unit_cube_mixture(1500, 3, rng=0)
    norm = (bb.Gaussian(h)(X) ** 2).sum()
    for seed in range(3):
        found = surveyed(X, h, Goal(1e-2, None), 6, seed)
        assert found.complete and found.n_asked == 6
        assert found.norm == pytest.approx(norm, rel=0.1)
        assert found.error <= 1e-4 * found.norm
        A = bb.factorize(X, bb.Gaussian(h), tol=1e-2, n_clusters=6, rng=seed)
        assert found.stored == pytest.approx(A.stored, rel=0.3)


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
    parts = from_labels(np.zeros((sizes.sum(), 1)), np.repeat(np.arange(300), sizes))
    picked, weights = module._pick_clusters(parts, np.random.default_rng(seed))
    assert len(np.unique(picked)) == len(picked) <= 48
    assert weights @ parts.sizes[picked] == pytest.approx(sizes.sum())
    few = from_labels(np.zeros((20, 1)), np.arange(20) % 4)
    np.testing.assert_array_equal(module._pick_clusters(few, np.random.default_rng(0))[1], np.ones(4))


def test_blocks_that_are_kept_are_counted():
    assert module._n_related(np.array([8.0, 1.0, 2.0, 4.0]), 0.0) == 4
    assert module._n_related(np.array([8.0, 1.0, 2.0, 4.0]), 3.0) == 2
    assert module._n_related(np.array([8.0, 1.0]), 100.0) == 1
