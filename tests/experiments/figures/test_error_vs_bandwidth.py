"""The verdict says no when the figures do."""

from __future__ import annotations


def test_the_gap_to_low_rank_must_be_there_and_widen(verdict, bandwidths):
    assert verdict("error-vs-bandwidth", bandwidths(0.1, 0.5)).holds
    assert not verdict("error-vs-bandwidth", bandwidths(0.5, 0.1)).holds
    assert not verdict("error-vs-bandwidth", bandwidths(-0.01, 0.5)).holds


def test_the_papers_own_algorithm_is_told_beside(verdict, bandwidths):
    found = verdict("error-vs-bandwidth", bandwidths(0.1, 0.5))
    assert "The paper's own algorithm is below them in 0 of 2 cases" in found.sentence
    assert found.mark == "holds for our default"
