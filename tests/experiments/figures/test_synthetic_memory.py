"""The verdict says no when the figures do."""

from __future__ import annotations


def test_ours_must_be_below_all_others_and_steadier_than_meka(check_errors_at_budgets):
    check_errors_at_budgets("synthetic-memory")
