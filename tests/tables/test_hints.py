from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table
from blockbasis.tables.hints import class_hints, column_hints


def hints(column, **kinds):
    return column_hints(Table(("a",), (np.asarray(column),)), kinds)


@pytest.mark.parametrize(
    ("column", "hinted"),
    [
        (np.arange(30.0), True),
        (1000 + 2 * np.arange(30.0), True),
        (np.arange(30.0)[::-1], False),
        (np.arange(30.0) / 2, False),
        (np.r_[np.nan, np.arange(30.0)], False),
        (np.repeat(np.arange(30.0), 2), False),
        (np.arange(20.0), False),
    ],
)
def test_ascending_whole_numbers_may_be_identifiers(column, hinted):
    assert bool(hints(column)) is hinted
    assert hints(column, a="number") == []


@pytest.mark.parametrize(
    ("texts", "hinted"),
    [
        (["02.01.2024", None, "03.01.2024"], True),
        (["1/2/24", "13/12/23"], True),
        (["02.01.2024 12:30"], True),
        (["02.01.2024", "north"], False),
        (["1.2.3.4"], False),
        ([None], False),
    ],
)
def test_dates_in_other_formats(texts, hinted):
    assert bool(hints(np.array(texts, dtype=object))) is hinted


def test_small_classes():
    assert class_hints(np.repeat(["a", "b"], 10)) == []
    assert class_hints(np.repeat(["a", "b", "c"], [30, 3, 1])) == [
        "few rows of the classes b (3), c (1): their errors are uncertain"
    ]
    assert "and 4 more" in class_hints(np.arange(9))[0]
