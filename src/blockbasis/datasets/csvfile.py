"""Numbers in text files: what separates them, whether they are named, and what is wrong when they cannot be read."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np

from blockbasis._typing import FloatArray

#: None stands for any number of blanks.
_DELIMITERS = (",", ";", "\t", "|", None)
#: Lines looked at to find out the layout.
_SAMPLE = 50
_MISSING = frozenset({"", "?", "na", "n/a", "null", "none"})

Row = Sequence[str]
#: What a file holds: X, y or None, and the names (or else numbers) of the columns of X.
Contents = tuple[FloatArray, FloatArray | None, Sequence[str | int]]


@dataclass(frozen=True)
class _Layout:
    """How a file is to be read.

    Parameters
    ----------
    delimiter : str or None
    names : tuple of str or None
        The header's; None without one.
    width : int
        Fields in a line.
    """

    delimiter: str | None
    names: tuple[str, ...] | None
    width: int

    def columns(self) -> Sequence[str | int]:
        return range(self.width) if self.names is None else self.names


def read_csv(path: Path, target: str | int | None) -> Contents:
    """Read a text file with a point to a line.

    Parameters
    ----------
    path : Path
    target : str, int or None
        Column that becomes y; the only one that may hold text.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or None
    columns : sequence of str or int
        Names of the columns of X, or their numbers in the file.
    """
    try:
        layout = _find_layout(path, named=isinstance(target, str))
        place = None if target is None else find_column(path, target, layout.columns())
        if place is not None and layout.width == 1:
            raise ValueError(f"{path} must have a column beside the target. Got one column instead.")
        labels: dict[str, int] = {}
        values = _read_values(path, layout, place, labels)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8. Got {error} instead.") from error
    y = None if place is None else _decode(path, values[:, place].astype(np.intp), labels)
    kept = [j for j in range(layout.width) if j != place]
    if len(kept) > 1 and kept[0] == 0 and _are_row_numbers(layout, values):
        kept = kept[1:]
    return values[:, kept] if len(kept) < layout.width else values, y, [layout.columns()[j] for j in kept]


def find_column(path: Path, target: str | int, columns: Sequence[str | int]) -> int:
    """Place of the target among all columns, by name or by number."""
    if isinstance(target, str):
        if list(columns).count(target) != 1:
            raise ValueError(
                f"The 'target' parameter of load_file must name one column of {path}, which has "
                f"{', '.join(map(repr, columns))}. Got {target!r} instead."
            )
        return list(columns).index(target)
    if not -len(columns) <= target < len(columns):
        raise ValueError(
            f"The 'target' parameter of load_file must be the number of one of the {len(columns)} columns of {path}. "
            f"Got {target} instead."
        )
    return int(target) % len(columns)


# --- layout ----------------------------------------------------------------------------------------------------------


def _find_layout(path: Path, *, named: bool) -> _Layout:
    with _open(path) as stream:
        lines = list(itertools.islice((line for line in stream if line.strip()), _SAMPLE))
    if not lines:
        raise ValueError(f"{path} is empty.")
    lines[0] = lines[0].removeprefix("#")  # before the header that numpy.savetxt writes
    delimiter = max(_DELIMITERS, key=lambda candidate: _fit(list(_rows(lines, candidate))))
    first, *rest = _rows(lines, delimiter)
    if not named and not _is_header(first, rest):
        return _Layout(delimiter, None, len(first))
    if not rest:
        raise ValueError(f"{path} has a header and no points.")
    return _Layout(delimiter, tuple(name.strip() for name in first), len(first))


def _fit(rows: Sequence[Row]) -> tuple[bool, int, int]:
    """How well a delimiter cuts lines: into as many fields each, into numbers, into many."""
    widths = {len(row) for row in rows}
    return widths != {1} and len(widths) == 1, sum(_is_number(cell) for row in rows for cell in row), len(rows[0])


def _is_header(first: Row, rest: Sequence[Row]) -> bool:
    """Whether the first line names columns: text above numbers, nothing but text, or pandas' numbers of columns."""
    text = [not _is_number(cell) and not _is_missing(cell) for cell in first]
    above = (any(_is_number(row[j]) for row in rest if j < len(row)) for j, is_text in enumerate(text) if is_text)
    return any(above) or all(text) or (bool(rest) and _is_numbering(first))


def _is_numbering(first: Row) -> bool:
    """0, 1, 2 and so on, as pandas names columns that have no name; of two columns, it may as well be a point."""
    names = [cell.strip() for cell in first]
    names = names[1:] if names[0] == "" else names  # above the row numbers
    return len(names) > 2 and names == [str(j) for j in range(len(names))]


def _are_row_numbers(layout: _Layout, values: FloatArray) -> bool:
    """Whether the first column is pandas' index, which has no name: a place in the file is no coordinate."""
    return layout.columns()[0] == "" and bool(np.array_equal(values[:, 0], np.arange(len(values))))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python allows between digits and no file means as a number


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")


def _rows(lines: Sequence[str] | TextIO, delimiter: str | None) -> Iterator[Row]:
    if delimiter is None:
        return (line.split() for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


# --- values ----------------------------------------------------------------------------------------------------------


def _read_values(path: Path, layout: _Layout, place: int | None, labels: dict[str, int]) -> FloatArray:
    """All columns as numbers; the target's are numbers of its ``labels``, which are filled in."""

    def number(text: str) -> int:
        return labels.setdefault(text.strip(), len(labels))

    with _open(path) as stream:
        lines = (line for line in stream if line.strip())
        if layout.names is not None:
            next(lines)
        try:
            values = np.loadtxt(
                lines,
                delimiter=layout.delimiter,
                comments=None,
                quotechar='"',
                converters=None if place is None else {place: number},
                ndmin=2,
            )
        except ValueError as error:
            _explain(path, layout, place, error)
    if values.shape[1] != layout.width:
        _explain(path, layout, place, ValueError(f"lines have {values.shape[1]} fields"))
    return values


def _decode(path: Path, codes: FloatArray, labels: dict[str, int]) -> FloatArray:
    """The target's values: numbers where all of them are, else text."""
    for label, code in labels.items():
        if _is_missing(label):
            row = int(np.flatnonzero(codes == code)[0])
            raise ValueError(f"{path} must have a target in every line. Got {label!r} in row {row} instead.")
    numeric = all(_is_number(label) for label in labels)
    return np.array([float(label) for label in labels] if numeric else list(labels))[codes]


def _explain(path: Path, layout: _Layout, place: int | None, error: ValueError) -> NoReturn:
    """Say which line could not be read and why; ``error`` is what is known if none is found."""
    columns = layout.columns()
    with _open(path) as stream:
        numbered = ((k, line) for k, line in enumerate(stream, start=1) if line.strip())
        for k, line in itertools.islice(numbered, 0 if layout.names is None else 1, None):
            row = next(_rows([line], layout.delimiter))
            if len(row) != layout.width:
                raise ValueError(
                    f"{path} must have {layout.width} fields in every line, as in the first. Got {len(row)} in line "
                    f"{k} instead."
                ) from error
            for j, cell in enumerate(row):
                if j == place or _is_number(cell):
                    continue
                where = f"line {k}, column {columns[j]!r}"
                if _is_missing(cell):
                    raise ValueError(f"{path} must have no missing values. Got {cell!r} in {where} instead.") from error
                raise ValueError(
                    f"{path} must hold numbers in every column except the target. Got {cell!r} in {where} instead."
                ) from error
    raise ValueError(f"{path} cannot be read as a table of numbers: {error}.") from error
