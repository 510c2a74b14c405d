"""Arguments that hang together. What each alone must be is tested with the functions that take it."""

from __future__ import annotations

import numpy as np
import pytest

from blockbasis._arguments import check_basis, check_both_clusters, check_clusters, check_goal, check_method


def method(**settings):
    defaults = {"algorithm": "default", "sampling": None, "inner": "sampled", "diagonal": None, "cutoff": None}
    return check_method(**{**defaults, **settings}, caller="f")


def goal(points, *, tol=None, memory=None, rank=None, ridge=None, **settings):
    return check_goal(tol, memory, rank, ridge, method(**settings), points, "f")


def test_each_algorithm_has_its_own_defaults():
    default, paper = method(), method(algorithm="paper")
    assert (default.paper, default.sampling, default.diagonal) == (False, "energy", True)
    assert (paper.paper, paper.sampling, paper.diagonal) == (True, "randomized", False)
    assert method(diagonal=False).diagonal is False
    with pytest.raises(ValueError, match="diagonal=True contradicts algorithm='paper'"):
        method(algorithm="paper", diagonal=True)


def test_ranks_are_no_goal_and_nothing_is_a_tolerance(points):
    assert goal(points, rank=5) is None
    assert goal(points).tol == 1e-3
    assert goal(points, tol=0.1).tol == 0.1
    assert goal(points, memory=5000).tol is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tol": 0.1, "rank": 5}, "takes one of 'tol', 'memory' and 'rank': .*'tol' and 'rank' together"),
        ({"tol": 0.1, "memory": 9999}, "'tol' and 'memory' together"),
        ({"ridge": 1.0, "rank": 5}, "'ridge' parameter of f goes with 'tol' only. Got it with 'rank'"),
        ({"ridge": 1.0, "memory": 9999}, "'ridge' parameter of f goes with 'tol' only. Got it with 'memory'"),
        ({"tol": 0.01, "cutoff": 0.02}, "'cutoff' parameter of f must be below 'tol'"),
        ({"cutoff": 0.02}, "below 'tol'. Got 0.02 with tol=0.001"),
        ({"tol": 0.1, "cutoff": 0.02, "inner": "exact"}, "'cutoff' parameter of f must be left out with inner='exact'"),
        ({"ridge": 1.0, "algorithm": "paper"}, "'ridge' parameter of f must be left out"),
        ({"memory": 9999, "algorithm": "paper"}, "'memory' parameter of f must be left out"),
        ({"tol": 0.1, "sampling": "uniform"}, "'rank' parameter of f must be given with sampling='uniform'"),
    ],
    ids=str,
)
def test_goals_that_contradict_each_other(points, settings, message):
    with pytest.raises(ValueError, match=message):
        goal(points, **settings)


def test_clusters_of_both_sides():
    assert check_both_clusters(3, 10, 20, "f") == (3, 3)
    assert check_both_clusters((3, 15), 10, 20, "f") == (3, 15)
    with pytest.raises(ValueError, match="a tuple of two: for Y and for X"):
        check_both_clusters([3, 4], 10, 20, "f")
    with pytest.raises(ValueError, match="at most 10"):
        check_both_clusters((11, 4), 10, 20, "f")


def test_the_number_of_clusters_is_at_most_that_of_the_points(points):
    check_clusters(points, "kmeans", 160, "f")
    with pytest.raises(ValueError, match="'n_clusters' parameter of f must be .*at most 160. Got 161"):
        check_clusters(points, "kmeans", 161, "f")


def test_the_former_kinds_of_basis_are_warned_of():
    check_basis(None, "f")
    for former in ("svd", "skeleton"):
        with pytest.warns(FutureWarning, match="'basis' parameter of f has no effect any more"):
            check_basis(former, "f")
    with pytest.raises(ValueError, match="'svd', 'skeleton'"):
        check_basis("qr", "f")


def test_points_of_float32_hold_more_numbers_in_the_same_size(points):
    wide, narrow = (goal(X, memory="1MB").memory for X in (points, np.float32(points)))
    assert narrow == 2 * wide
