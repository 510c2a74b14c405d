"""The verdict says no when the figures do."""

from __future__ import annotations


def test_regression_must_reach_the_exact_solution_and_beat_the_others(verdict, regression):
    assert verdict("regression", regression()).holds
    assert not verdict("regression", regression(ours=0.52)).holds
    assert not verdict("regression", regression(other=0.4)).holds


def test_regression_tells_of_those_with_their_own_kernels_and_of_unfinished_solutions(verdict, regression):
    parts = regression()
    told = verdict("regression", parts).sentence
    assert "KernelRidge is below Nyström in 1 of 1 cases" in told
    assert "they have 1.000 and 1.200 of the exact" in told
    assert "MINRES converged in all 12 systems" in told
    next(rows for settings, rows in parts if settings["method"] == "meka")[0]["converged"] = False
    assert "MINRES converged in 11 of 12 systems" in verdict("regression", parts).sentence


def test_the_papers_own_algorithm_is_told_beside(verdict, regression):
    found = verdict("regression", regression())
    assert "The paper's own algorithm is below in 0." in found.sentence
    assert found.mark == "holds for our default"
