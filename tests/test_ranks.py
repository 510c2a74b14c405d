from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blockbasis.ranks import Market, both_sides, gains, residual, worthwhile
from blockbasis.settling import Spectrum


def spectrum(values, tail=0.0, own_share=0.0):
    values = np.asarray(values, dtype=float)
    return Spectrum(values, tail, own_share, float(values.sum()) + tail, np.zeros(len(values)))


@pytest.fixture
def market():
    """One cluster decays fast, one slowly."""
    fast, slow = 0.1 ** np.arange(12), 0.7 ** np.arange(12)
    return Market(100, np.array([40, 60]), np.ones(2), [spectrum(fast), spectrum(slow)], True)


def test_own_block_counts_once():
    assert both_sides(spectrum([1.0], own_share=1.0)) == 1
    assert both_sides(spectrum([1.0], own_share=0.25)) == 1.75


def test_worthwhile_counts_directions_above_their_cost():
    s = spectrum([8.0, 4.0, 2.0, 1.0])
    assert [worthwhile(s, cost) for cost in (0, 3.9, 4, 4.1, 100)] == [4, 3, 3, 2, 1]


def test_residual_is_what_is_left_on_both_sides():
    assert residual(spectrum([8.0, 4.0, 2.0], tail=1.0), 1) == 14
    assert residual(spectrum([8.0, 4.0, 2.0], tail=1.0, own_share=1.0), 3) == 1


def test_what_a_diagonal_part_takes_over_is_no_gain():
    """Four isolated points, kept whole: with a direction less there is an error, with none there is none."""
    isolated = replace(spectrum(np.ones(4), own_share=1.0), regained=np.array([4.0, 3 * 0.75**2 + 0.1875, 1.0, 0.25]))
    assert residual(isolated, 0) == 0 < residual(isolated, 3)
    assert worthwhile(isolated, 1e-6) == 1


def test_gains_add_up_to_the_residual_at_the_corners_of_its_hull():
    regained = np.array([5.0, 4.5, 2.0, 1.5, 0.5, 0.0])
    s = replace(spectrum([8.0, 4.0, 2.0, 1.5, 1.0, 0.5], own_share=1.0), regained=regained)
    gained = gains(s)
    assert (np.diff(gained) <= 0).all()
    assert gained.sum() == pytest.approx(residual(s, 0))
    corners = np.flatnonzero(np.diff(gained) < 0) + 1
    assert len(corners) > 1
    for rank in corners:
        assert gained[rank:].sum() == pytest.approx(residual(s, int(rank)))
        for other in range(7):  # no other rank is worth it at a cost between the slopes
            cost = (gained[rank - 1] + gained[rank]) / 2
            assert residual(s, int(rank)) + cost * rank <= residual(s, other) + cost * other + 1e-12


def test_what_a_definite_c_discards_is_none_of_a_cluster_built_whole():
    discarding = replace(spectrum(0.5 ** np.arange(8)), discarded=1.0)
    beside = Market(16, np.array([8, 8]), np.array([1.0, 1.0]), [discarding, discarding], True)
    built = replace(beside, whole=True)
    for ranks, discarded in (([6, 6], 2.0), ([6, 7], 1.0), ([8, 8], 0.0)):  # above three quarters a cluster is whole
        assert beside.error(np.array(ranks)) - built.error(np.array(ranks)) == pytest.approx(2.0 - discarded)
    assert beside.price_within(lambda ranks: beside.error(ranks) <= 0.1) is None
    price = built.price_within(lambda ranks: built.error(ranks) <= 0.1)
    assert price is not None and (built.ranks(price) > 6).all()


def test_slow_decay_takes_more_of_the_memory(market):
    fast, slow = market.ranks(1e-5)
    assert 1 <= fast < slow


def test_ranks_fall_with_the_price(market):
    totals = [market.ranks(price).sum() for price in np.logspace(-12, 1, 40)]
    assert all(a >= b for a, b in zip(totals[:-1], totals[1:], strict=True))
    assert totals[-1] == 2


def test_stored_counts_bases_symmetric_inner_and_diagonal(market):
    assert market.stored(np.array([2, 3])) == 2 * 40 + 3 * 60 + 5 * 6 / 2 + 100


@pytest.mark.parametrize("budget", [205, 300, 500, 900, 2000, 10**6])
def test_a_budget_is_kept_and_used(market, budget):
    ranks = market.affordable(budget)
    assert market.stored(ranks) <= budget
    for i in range(2):
        more = ranks + np.eye(2, dtype=int)[i]
        assert market.stored(more) > budget or more[i] > 12


def test_no_other_split_of_a_budget_leaves_less_error(market):
    """The price rule against every pair of ranks: greedy choice loses a direction or two at the most."""
    budget = 700
    every = [np.array([a, b]) for a in range(1, 13) for b in range(1, 13)]
    best = min(market.error(ranks) for ranks in every if market.stored(ranks) <= budget)
    assert market.error(market.affordable(budget)) <= 1.5 * best


@pytest.mark.parametrize("allowed", [1.0, 0.3, 0.1, 0.04])
def test_price_within_is_the_highest_that_does(market, allowed):
    price = market.price_within(lambda ranks: market.error(ranks) <= allowed)
    assert market.error(market.ranks(price)) <= allowed
    assert market.error(market.ranks(price * 1.3)) > allowed or market.ranks(price).sum() == 2


def test_no_price_when_the_spectra_end_too_early(market):
    assert market.price_within(lambda ranks: False) is None


def test_known_clusters_stand_for_others():
    one = Market(100, np.array([10]), np.array([10.0]), [spectrum([4.0, 1.0], tail=0.5)], False)
    assert one.norm == 55
    assert one.total(np.array([2])) == 20
    assert one.stored(np.array([2])) == 200 + 20 * 21 / 2
    assert one.error(np.array([2])) == 10


def test_largest_direction_left_out():
    two = Market(20, np.array([10, 10]), np.ones(2), [spectrum([4.0, 1.0]), spectrum([9.0, 3.0, 2.0])], False)
    assert two.largest(np.array([1, 1])) == 2.0 + 6.0
    assert two.largest(np.array([0, 2])) == 8.0 + 4.0
    assert two.largest(np.array([2, 3])) == 0.0
