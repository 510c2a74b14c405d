"""Tables from what users have: a path, a data frame of pandas, or a `Table`."""

from __future__ import annotations

import datetime as dt
import math
import numbers
import os
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from blockbasis.datasets.csvfile import is_missing, is_number
from blockbasis.tables.reading import DATE, dates_of, finite, read_table
from blockbasis.tables.table import Column, Table

_NAME = "the data frame"
#: Types of numbers among objects.
_NUMBERS = (numbers.Real, Decimal)


def as_table(
    source: Any, *, kinds: Mapping[str, str] | None = None, needed: Collection[str] | None = None, caller: str
) -> Table:
    """Return a table from a path, a data frame or a table; missing text becomes None.

    Parameters
    ----------
    source : str, path-like, pandas.DataFrame or Table
    kinds : mapping of str to str, default=None
        What becomes of columns of a text file or a data frame, as in `learn_encoder` or in `read_table`.
    needed : collection of str, default=None
        Columns of a data frame to convert; others are left empty, as are dropped columns. None stands for all.
    caller : str
        What the message of an error calls the function.

    Returns
    -------
    Table

    Raises
    ------
    TypeError
        If ``source`` is something else.
    """
    if isinstance(source, (str, os.PathLike)):
        return read_table(source, kinds=reading_kinds(kinds))
    if isinstance(source, Table):
        columns = tuple(_without_nan(np.asarray(column)) for column in source.columns)
        return replace(source, names=tuple(map(str, source.names)), columns=columns)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return _from_frame(source, pandas, kinds or {}, needed)
    raise TypeError(
        f"The 'table' parameter of {caller} must be the path of a file, a pandas DataFrame or a Table. Got "
        f"{type(source).__name__} instead."
    )


def reading_kinds(kinds: Mapping[str, str] | None) -> dict[str, str]:
    """Return how the columns of a text file are read: categories and dropped columns as text."""
    return {name: kind if kind in ("number", "date") else "text" for name, kind in (kinds or {}).items()}


def _without_nan(column: Column) -> Column:
    """Return a column of objects with None in place of NaN; others as they are."""
    if column.dtype.kind != "O":
        return column
    return np.array([None if value is None or value != value else value for value in column], dtype=object)


def _from_frame(frame: Any, pandas: Any, kinds: Mapping[str, str], needed: Collection[str] | None) -> Table:
    names = tuple(map(str, frame.columns))
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{_NAME} must have a different name for each column. Got {min(repeated)!r} twice instead.")
    if not len(frame):
        raise ValueError(f"{_NAME} has no rows.")
    columns: list[Column] = []
    for j, name in enumerate(names):
        if kinds.get(name) == "drop" or (needed is not None and name not in needed):
            columns.append(np.full(len(frame), None, dtype=object))
        else:
            columns.append(_column(name, frame.iloc[:, j], pandas, reading_kinds(kinds).get(name)))
    return Table(names, tuple(columns), _NAME)


def _column(name: str, series: Any, pandas: Any, kind: str | None) -> Column:
    """Return a column of a data frame as numbers, dates, or text with None for missing values."""
    types = pandas.api.types
    if types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype):
        return finite(_NAME, name, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_datetime64_any_dtype(series.dtype):
        return _moments(series)
    gaps = series.isna().to_numpy()
    values = [None if gap else value for value, gap in zip(series.astype(object), gaps, strict=True)]
    if kind == "number":
        return finite(_NAME, name, np.array([_number(value) for value in values]))
    return _from_objects(name, values, kind)


def _moments(series: Any) -> Column:
    """Return the dates of a series in UTC."""
    zone = getattr(series.dtype, "tz", None) or getattr(getattr(series.dtype, "pyarrow_dtype", None), "tz", None)
    naive = series if zone is None else series.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(naive.astype("datetime64[us]").to_numpy())


def _from_objects(name: str, values: list[Any], kind: str | None) -> Column:
    """Return a column from Python objects and None, as `read_table` would read their text."""
    known = [value for value in values if value is not None]
    words = (str, bool, np.bool_)
    some_words = kind == "text" and any(isinstance(value, words) for value in known)
    if all(isinstance(value, (*words, *_NUMBERS) if some_words else words) for value in known):
        texts = [None if value is None else _text(value) for value in values]
        given = [text for text in texts if text is not None]
        if kind == "date" or (kind is None and given and all(DATE.fullmatch(text) for text in given)):
            return dates_of(_NAME, name, texts).astype("datetime64[us]")
        return np.array(texts, dtype=object)
    if all(isinstance(value, _NUMBERS) for value in known):
        return finite(_NAME, name, np.array([_number(value) for value in values]))
    if all(isinstance(value, dt.date) for value in known):
        return np.array(["NaT" if value is None else _without_zone(value) for value in values], dtype="datetime64[us]")
    wrong = next(v for v in known if not isinstance(v, str))
    raise ValueError(
        f"{_NAME} must hold numbers, text or dates in column {name!r}, and not a mixture. Got {wrong!r} of type "
        f"{type(wrong).__name__} instead."
    )


def _text(value: Any) -> str | None:
    """Return the text of a value as a file has it; None for a mark of missing values."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, _NUMBERS):
        whole = isinstance(value, numbers.Integral) or float(value).is_integer()
        return str(math.floor(value)) if whole else str(value)
    return None if is_missing(value) else str(value.strip())


def _number(value: Any) -> float:
    """Return a number or the number of a text; NaN for words and dates."""
    if isinstance(value, str):
        return float(value) if is_number(value) else np.nan
    return float(value) if isinstance(value, _NUMBERS) else np.nan


def _without_zone(value: dt.date) -> dt.date:
    """Return a date, or a time in UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
