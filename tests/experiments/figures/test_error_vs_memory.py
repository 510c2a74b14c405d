"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments import EXPERIMENTS, Part, Result


def test_ours_must_be_below_all_others_and_steadier_than_meka(check_errors_at_budgets):
    check_errors_at_budgets("error-vs-memory")


def test_the_papers_own_algorithm_is_told_beside(verdict, memory):
    assert "is below every method that the paper compares with in 1 of 1, and below RPCholesky and CLRA too in 1" in (
        verdict("error-vs-memory", memory()).sentence
    )
    parts = memory()
    next(rows for settings, rows in parts if settings["method"] == "clra")[0]["error"] = 0.01
    assert (
        "compares with in 1 of 1, and below RPCholesky and CLRA too in 0" in verdict("error-vs-memory", parts).sentence
    )


def test_a_claim_of_which_a_part_is_missing_holds_where_measured(memory):
    parts = tuple(Part(settings, 0.0, 1.0, tuple(rows)) for settings, rows in memory())
    partial = Result(EXPERIMENTS["error-vs-memory"], parts, ("emg",)).verdict()
    assert partial.holds
    assert partial.mark == "holds where measured"


def test_a_run_that_overflows_is_no_success(verdict, memory):
    parts = memory()
    parts[0][1][0]["error"] = None
    assert not verdict("error-vs-memory", parts).holds
    parts = memory()
    parts[1][1][0]["error"] = None
    assert "worse than zero in 1 of 2 runs" in verdict("error-vs-memory", parts).sentence
