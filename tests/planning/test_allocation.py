from __future__ import annotations

import itertools

import numpy as np
import pytest

from blockbasis.planning.allocation import Allocation


def spectra(seed, clusters=3, highest=6):
    """Convex residuals of a few clusters, as those of singular values are."""
    rng = np.random.default_rng(seed)
    gains = -np.sort(-(rng.exponential(size=(clusters, highest)) ** 2), axis=1)
    return [np.concatenate(([0.0], np.cumsum(own[::-1])))[::-1] for own in gains]


def allocation(seed, related=None, fixed=0.0):
    residuals = spectra(seed)
    sizes = np.array([10.0, 25.0, 40.0])
    related = np.ones((3, 3)) if related is None else related
    return Allocation(residuals, sizes, np.ones(3), lambda ranks: related @ ranks, fixed, np.zeros(3))


def every_choice():
    return [np.array(ranks) for ranks in itertools.product(range(1, 7), repeat=3)]


def test_floats_of_all_blocks_are_those_of_a_dense_c():
    each = allocation(0, fixed=75.0)
    ranks = np.array([2, 3, 4])
    assert each.stored(ranks) == 2 * 10 + 3 * 25 + 4 * 40 + 9 * 10 / 2 + 75


def test_floats_of_a_block_sparse_c_count_the_blocks_kept():
    related = np.eye(3)
    related[0, 1] = related[1, 0] = 1
    ranks = np.array([2, 3, 4])
    own = 3 + 6 + 10
    assert allocation(0, related).stored(ranks) == 2 * 10 + 3 * 25 + 4 * 40 + own + 2 * 3


@pytest.mark.parametrize("seed", range(10))
def test_a_tolerance_takes_hardly_more_than_the_least_memory(seed):
    """Prices find the corners of the convex hull: the best of all choices is at most one function of each away."""
    each = allocation(seed)
    for share in (0.01, 0.1, 0.3):
        allowed = share * each.error(np.ones(3, dtype=int))
        found, price = each.within(allowed)
        np.testing.assert_array_equal(each.at_price(price), found)
        assert each.error(found) <= allowed
        least = min(each.stored(ranks) for ranks in every_choice() if each.error(ranks) <= allowed)
        assert least <= each.stored(found) <= least + 40 + 18


@pytest.mark.parametrize("seed", range(10))
def test_a_budget_is_never_exceeded_and_nearly_the_best_is_made_of_it(seed):
    each = allocation(seed, fixed=5.0)
    for budget in (90, 150, 260, 400, 10**6):
        found, price = each.affordable(budget)
        assert (each.at_price(price) <= found).all()
        assert each.stored(found) <= budget
        best = min(each.error(ranks) for ranks in every_choice() if each.stored(ranks) <= budget)
        lower = min((each.error(r) for r in every_choice() if each.stored(r) <= budget - 58), default=np.inf)
        assert best <= each.error(found) <= max(lower, best * (1 + 1e-9))


def test_all_functions_are_taken_where_none_are_enough():
    each = allocation(0)
    np.testing.assert_array_equal(each.within(-1.0)[0], [6, 6, 6])
    assert each.within(-1.0)[1] == 0
    np.testing.assert_array_equal(each.affordable(10**9)[0], [6, 6, 6])


def test_every_cluster_has_a_function_whatever_the_price():
    each = allocation(0)
    np.testing.assert_array_equal(each.at_price(1e12), [1, 1, 1])
    np.testing.assert_array_equal(each.within(1e12)[0], [1, 1, 1])


def test_residuals_that_rise_are_smoothed():
    """Samples may show a function that seems to do harm before one that helps."""
    rough = Allocation(
        [np.array([10.0, 6.0, 6.5, 1.0])], np.array([10.0]), np.ones(1), lambda ranks: ranks, 0.0, np.zeros(1)
    )
    assert (np.diff(rough.gains[0]) <= 1e-12).all()
    assert rough.error(rough.within(2.0)[0]) <= 2.0


def test_weights_count_clusters_that_one_stands_for():
    residuals = [np.array([4.0, 1.0])]
    each = Allocation(residuals, np.array([10.0]), np.array([3.0]), lambda r: 3 * r, 0.0, np.zeros(1))
    assert each.error(np.array([1])) == 3.0
    assert each.stored(np.array([1])) == 3 * 10 + 6  # C of 3 by 3, one side of it
