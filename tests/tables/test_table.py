from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table
from blockbasis.tables.table import listed, missing


@pytest.fixture
def table():
    return Table(("a", "b", "c"), tuple(np.arange(6.0).reshape(3, 2)), "t.csv")


def test_a_column_is_found_by_name_and_by_number(table):
    assert table.column("b").tolist() == table.column("1").tolist() == table.column("-2").tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", ["d", "3", "-4", ""])
def test_an_absent_column_is_named_with_those_there_are(table, name):
    with pytest.raises(ValueError, match=r"t.csv has no column .*Its columns are a, b, c"):
        table.column(name)


def test_a_name_like_another_is_suggested():
    table = Table(("height", "width"), (np.zeros(1), np.zeros(1)))
    with pytest.raises(ValueError, match=r"Did you mean height\?"):
        table.place("heights")


def test_rows_and_columns_are_left_out(table):
    assert table.without("b").names == ("a", "c")
    assert table.rows(np.array([True, False])).column("c").tolist() == [4.0]
    assert table.n_rows == 2


def test_missing_values_of_each_kind():
    assert missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert missing(np.array(["x", None], dtype=object)).tolist() == [False, True]
    assert missing(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]")).tolist() == [False, True]


def test_many_names_are_shortened():
    assert listed([str(i) for i in range(15)]).endswith("11 and 3 more")
