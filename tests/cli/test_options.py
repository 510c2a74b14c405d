from __future__ import annotations

import pytest

pytest.importorskip("typer")

import typer

from blockbasis.cli import options


def test_a_budget_is_a_size_or_floats_per_point():
    assert options.budget(None, 100) is None
    assert options.budget("20", 100) == 2000
    assert options.budget("50MB", 100) == "50MB"


def test_kinds_of_columns():
    assert options.column_kinds(["a=b=drop", "c=ordinal"]) == {"a=b": "drop", "c": "ordinal"}
    assert options.column_kinds(None) == {}


def test_one_goal():
    assert options.one_goal(None, None) == {"tol": 0.01}
    assert options.one_goal(None, "20") == {}
    with pytest.raises(typer.BadParameter, match="exclude each other"):
        options.one_goal(0.1, "20")


def test_a_target_by_number():
    assert [options.target_number(each) for each in (None, "-1", "price")] == [None, -1, "price"]
