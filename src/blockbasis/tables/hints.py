"""Hints about columns and classes of a table that a user may want to treat in another way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from blockbasis.tables.table import Column, Table, missing

#: Fewest rows for which ascending whole numbers are taken for identifiers.
_ROWS = 20
#: Texts such as 02.01.2024 or 1/2/24.
_OTHER_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})(?:[ T].*)?")
#: Texts of a column of which all must look like a date.
_TEXTS = 20
#: Rows of a class below which its error is uncertain.
_FEW_ROWS = 10
#: Most classes that are named.
_NAMED = 5


def column_hints(table: Table, kinds: Mapping[str, str]) -> list[str]:
    """Return a line for each column that may be identifiers, or dates in a format that is read as text.

    Columns in ``kinds``, whose encoding the user has chosen, have no hint.
    """
    hints = []
    for name, column in zip(table.names, table.columns, strict=True):
        if name in kinds:
            continue
        if _counts_rows(column):
            hints.append(
                f"{name}: a different whole number in each row, in order; --column '{name}=drop' leaves it out"
            )
        elif (date := _other_date(column)) is not None:
            hints.append(f"{name}: {date!r} is read as text; dates are read in the form 2024-05-31")
    return hints


def class_hints(y: Any) -> list[str]:
    """Return a line about the classes with few rows, if there are any."""
    classes, counts = np.unique(y, return_counts=True)
    few = [f"{name} ({count})" for name, count in zip(classes, counts, strict=True) if count < _FEW_ROWS]
    if not few:
        return []
    more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
    return [f"few rows of the classes {', '.join(few[:_NAMED])}{more}: their errors are uncertain"]


def _counts_rows(column: Column) -> bool:
    if column.dtype.kind != "f" or len(column) <= _ROWS:
        return False
    return bool((column % 1 == 0).all() and (np.diff(column) > 0).all())


def _other_date(column: Column) -> str | None:
    """Return the first text of a column whose texts look like dates in another format than ISO 8601."""
    if column.dtype.kind != "O":
        return None
    texts = [str(text) for text in column[~missing(column)][:_TEXTS]]
    return texts[0] if texts and all(_OTHER_DATE.fullmatch(text) for text in texts) else None
