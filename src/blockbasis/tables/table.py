"""A table of named columns of numbers, text or dates, with missing values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

#: A column: float64 with NaN for missing values, objects (str or None), or datetime64 with NaT.
Column = npt.NDArray[Any]
#: Names that a message lists at most.
_LISTED = 12


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Named columns of equal length.

    Parameters
    ----------
    names : tuple of str
        Names of the columns; their numbers, as text, if the source has no names.
    columns : tuple of ndarray of shape (n_rows,)
        Numbers in float64 with NaN for missing values, text as objects with None, or dates as datetime64 with NaT.
    source : str, default="the table"
        What messages call the table, usually the path of a file.
    named : bool, default=True
        Whether the names are those of the source.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table
    >>> table = Table(("size", "sex"), (np.array([1.0, np.nan]), np.array(["M", None], dtype=object)))
    >>> table.n_rows, table.column("sex").tolist()
    (2, ['M', None])
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    source: str = "the table"
    named: bool = True

    def __repr__(self) -> str:
        return f"Table({self.source}, {self.n_rows} rows, {len(self.names)} columns: {listed(self.names)})"

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    def place(self, name: str) -> int:
        """Return the index of a column, by name, or by number, which may be negative; raise a ValueError if absent."""
        if name in self.names:
            return self.names.index(name)
        try:
            return range(len(self.names))[int(name)]
        except (ValueError, IndexError):
            raise ValueError(f"{self.source} has no column {name!r}.{_hint(name, self.names)}") from None

    def column(self, name: str) -> Column:
        """Return a column, by name or by number."""
        return self.columns[self.place(name)]

    def without(self, name: str) -> Table:
        """Return the table without a column."""
        place = self.place(name)
        names = self.names[:place] + self.names[place + 1 :]
        return replace(self, names=names, columns=self.columns[:place] + self.columns[place + 1 :])

    def rows(self, chosen: npt.NDArray[Any]) -> Table:
        """Return the table with the rows that a mask or an array of indices chooses."""
        return replace(self, columns=tuple(column[chosen] for column in self.columns))


def missing(column: Column) -> npt.NDArray[np.bool_]:
    """Return a mask of the missing values of a column."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind == "M":
        return np.isnat(column)
    return np.array([value is None for value in column], dtype=bool)


def listed(names: Sequence[str]) -> str:
    """Return names separated by commas, the first dozen of many."""
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _hint(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else f" Its columns are {listed(names)}."
