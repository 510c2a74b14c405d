"""The verdict says no when the figures do."""

from __future__ import annotations

import numpy as np
import pytest

from blockbasis.experiments.figures import alternating


def test_the_best_bandwidth_must_follow_the_size_of_the_clusters(verdict):
    def parts(best):
        sizes = dict(zip((4, 9, 20, 36, 64, 100), (0.12, 0.08, 0.05, 0.04, 0.03, 0.02), strict=True))
        return [({"clusters": k}, [{"sigma": s, "h": best(s), "accuracy": 1.0}]) for k, s in sizes.items()]

    assert verdict("alternating", parts(lambda sigma: 3 * sigma)).holds
    assert verdict("alternating", parts(lambda sigma: 3 * sigma)).mark == "holds"  # rows of an earlier version
    assert not verdict("alternating", parts(lambda sigma: 3 * sigma**2)).holds
    assert not verdict("alternating", parts(lambda sigma: 1 + np.sin(300 * sigma))).holds
    # A single point far from all others is no line.
    assert not verdict("alternating", parts(lambda sigma: (9 if sigma == 0.12 else 3) * sigma)).holds
    assert not verdict("alternating", parts(lambda sigma: 5 if sigma == 0.12 else 1 + np.sin(300 * sigma))).holds


@pytest.mark.parametrize(("power", "power_exactly"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_best_bandwidth_is_also_judged_by_the_papers_own_words(verdict, power, power_exactly):
    sizes = dict(zip((4, 9, 20, 36, 64, 100), (0.12, 0.08, 0.05, 0.04, 0.03, 0.02), strict=True))
    best = {s: {"sigma": s, "h": 3 * s**power, "h_of_the_highest": 2 * s**power_exactly} for s in sizes.values()}
    found = verdict("alternating", [({"clusters": k}, [best[s]]) for k, s in sizes.items()])
    words = {1: "holds", 2: "does not hold"}
    assert found.holds == (power == 1)
    assert found.mark == f"{words[power]}; {words[power_exactly]} by the paper's own h*"
    told = "By the paper's own words, the highest accuracy and the largest bandwidth among equals, the claim"
    assert f"{told} {words[power_exactly]}: the mean of h* is then" in found.sentence


def test_the_largest_bandwidth_among_equals_is_the_best(monkeypatch):
    """Accuracies of 900 tests: some are equal to the highest, one is within its standard error."""

    def accuracies(X, y, X_test, y_test, bandwidths):
        return np.array([{0.125: 0.9, 0.25: 0.9, 0.5: 0.895}.get(round(h, 9), 0.5) for h in bandwidths])

    monkeypatch.setattr(alternating, "accuracies", accuracies)
    nothing = np.empty(900)
    assert alternating._best(nothing, nothing, nothing, nothing) == {
        "h": pytest.approx(0.5),
        "h_of_the_highest": pytest.approx(0.25),
        "accuracy": 0.9,
    }
