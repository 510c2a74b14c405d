from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from blockbasis.tables.sources import as_table, reading_kinds

pandas = pytest.importorskip("pandas")


def column(values, **settings):
    return as_table(pandas.DataFrame({"a": pandas.Series(values, **settings)}), caller="f").columns[0]


@pytest.mark.parametrize(
    ("values", "settings", "expected"),
    [
        ([1, 2], {}, [1.0, 2.0]),
        ([1, None], {"dtype": "Int64"}, [1.0, np.nan]),
        ([1, 2.5, None], {"dtype": object}, [1.0, 2.5, np.nan]),
        (["x ", None, "?"], {}, ["x", None, None]),
        (["x", np.nan], {"dtype": "category"}, ["x", None]),
        ([True, False], {}, ["True", "False"]),
        ([True, None], {"dtype": "boolean"}, ["True", None]),
        ([None, None], {"dtype": object}, [None, None]),
    ],
)
def test_numbers_and_text(values, settings, expected):
    found = column(values, **settings)
    np.testing.assert_array_equal(found, np.array(expected, dtype=found.dtype))


@pytest.mark.parametrize(
    "values",
    [
        pandas.to_datetime(["2024-05-31", None]),
        pandas.to_datetime(["2024-05-31", None]).tz_localize("UTC"),
        ["2024-05-31", None],
        pandas.to_datetime(["2024-05-31 01:00", None]).tz_localize("Europe/Paris") + dt.timedelta(hours=1),
        ["2024-05-31 01:00:00+01:00", "?"],
        ["2024-05-30 22:30-01:30", None],
        [dt.date(2024, 5, 31), None],
        [dt.datetime(2024, 5, 31, tzinfo=dt.UTC), None],
        [dt.datetime(2024, 5, 31, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), None],
    ],
)
@pytest.mark.filterwarnings("error")
def test_dates(values):
    found = column(values)
    assert found.dtype.kind == "M"
    assert found[0] == np.datetime64("2024-05-31") and np.isnat(found[1])


@pytest.mark.parametrize("kind", ["date32[day][pyarrow]", "timestamp[ms][pyarrow]", "timestamp[us, tz=UTC][pyarrow]"])
def test_dates_of_pyarrow(kind):
    pytest.importorskip("pyarrow")
    dates = pandas.Series(pandas.to_datetime(["2024-05-31", None], utc="UTC" in kind or None))
    found = as_table(pandas.DataFrame({"a": dates.astype(kind)}), caller="f").columns[0]
    assert found.dtype == np.dtype("datetime64[us]")
    assert found[0] == np.datetime64("2024-05-31") and np.isnat(found[1])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["1", "2", "bad", None], "number", [1.0, 2.0, np.nan, np.nan]),
        ([1, "2", "bad", True], "number", [1.0, 2.0, np.nan, 1.0]),
        ([1, "x", 2.5, False, "?"], "one-hot", ["1", "x", "2.5", "False", None]),
        (["2024-05-31", None], "ordinal", ["2024-05-31", None]),
        ([[1], [2]], "drop", [None, None]),
        ([Decimal("1.5"), None], None, [1.5, np.nan]),
    ],
)
def test_kinds_of_columns_of_a_data_frame(values, kind, expected):
    frame = pandas.DataFrame({"a": pandas.Series(values, dtype=object)})
    found = as_table(frame, kinds={"a": kind} if kind else None, caller="f").columns[0]
    np.testing.assert_array_equal(found, np.array(expected, dtype=found.dtype))


def test_kind_date_of_a_data_frame():
    frame = pandas.DataFrame({"a": ["2024-05-31", "?"]})
    assert np.isnat(as_table(frame, kinds={"a": "date"}, caller="f").columns[0]).tolist() == [False, True]
    with pytest.raises(ValueError, match="must hold dates such as 2024-05-31 in column 'a'. Got 'bad'"):
        as_table(pandas.DataFrame({"a": ["2024-05-31", "bad"]}), kinds={"a": "date"}, caller="f")


def test_columns_that_are_not_needed_are_not_converted():
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [[1], [2]], "c": [np.inf, 1.0]})
    table = as_table(frame, needed=["a"], caller="f")
    assert table.names == ("a", "b", "c") and table.column("a").tolist() == [1.0, 2.0]
    assert table.column("b").tolist() == table.column("c").tolist() == [None, None]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pandas.DataFrame({"a": [1, "x"]}), "column 'a', and not a mixture. Got 1 of type int"),
        (pandas.DataFrame({"a": [[1], [2]]}), "Got \\[1\\] of type list"),
        (pandas.DataFrame({"a": [1.0, np.inf]}), "free of infinity"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "a different name for each column"),
        (pandas.DataFrame({"a": ["2024-05-32"]}), "the data frame has an impossible date in column 'a'"),
        (pandas.DataFrame({"a": []}), "has no rows"),
    ],
)
def test_frames_that_cannot_be_read(frame, message):
    with pytest.raises(ValueError, match=message):
        as_table(frame, caller="f")


def test_columns_with_an_encoding_are_read_as_text():
    assert reading_kinds({"a": "one-hot", "b": "date", "c": "drop"}) == {"a": "text", "b": "date", "c": "text"}
