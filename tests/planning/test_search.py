from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import Method
from blockbasis.datasets import unit_cube_mixture
from blockbasis.partition import Partitioner
from blockbasis.planning.goal import Goal, Request
from blockbasis.planning.search import default_clusters, least_stored, ranks_of_all, search_clusters
from tests.repeating import first_of

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


def searched(goal, n_clusters=None, seed=0, n=1500, h=0.5):
    X = unit_cube_mixture(n, 3, rng=0)
    request = Request(X, bb.Gaussian(h), goal, SKETCHED, 1)
    return search_clusters(request, Partitioner(X, "kmeans", n_clusters, "f"), np.random.default_rng(seed))


def test_default_clusters_grow_as_the_root():
    assert [default_clusters(n) for n in (1, 16, 1600, 160_000)] == [1, 1, 10, 100]


def test_least_floats_are_those_of_one_function_for_each_cluster():
    assert least_stored(100, 4, diagonal=False) == 100 + 10
    assert least_stored(100, 4, diagonal=True) == 200 + 10


def test_a_number_that_is_given_is_the_only_one_looked_at():
    assert [each.n_requested for each in searched(Goal(1e-2, None), n_clusters=7)] == [7]


@pytest.mark.parametrize("h", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", first_of(range(2)))
def test_the_best_of_those_looked_at_comes_first(h, seed):
    found = searched(Goal(1e-2, None), seed=seed, h=h)
    complete = [each.stored for each in found if each.complete]
    # Another number is taken where it is better by five per cent.
    assert found[0].complete and found[0].stored <= min(complete) / 0.95
    assert len({each.n_requested for each in found}) == len(found)


def test_a_budget_has_room_for_the_clusters():
    found = searched(Goal(None, 3200), n=1500)
    assert least_stored(1500, found[0].n_requested, diagonal=True) <= 3200
    assert found[0].error == min(each.error for each in found) or len(found) > 1


def test_ranks_of_all_clusters_are_within_their_sizes():
    best = searched(Goal(1e-2, None))[0]
    sizes = np.array([1, 2, 50, 5000])
    ranks = ranks_of_all(best, sizes, expected=True)
    assert (ranks >= 1).all() and (ranks <= sizes).all()
