"""Reader of delimited text files: detection of the delimiter and the header, and error messages with line numbers."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np

from blockbasis._utils.typing import FloatArray
from blockbasis.datasets.cache import reason

#: Candidates for the delimiter; None is any number of blanks.
_DELIMITERS = (",", ";", "\t", "|", None)
#: Number of lines from which the layout is detected.
_SAMPLE = 50
_MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
#: Marks of missing numbers that may be class labels beside other words, as "-" beside "+".
_DASHES = frozenset({"-", "."})

Row = Sequence[str]
#: Contents of a file: X, y or None, and the names or numbers of the columns of X.
Contents = tuple[FloatArray, FloatArray | None, Sequence[str | int]]


@dataclass(frozen=True)
class Layout:
    """Layout of a text file.

    Parameters
    ----------
    delimiter : str or None
        Separator of the fields; None is any number of blanks.
    names : tuple of str or None
        Names of the columns; None if the file has no header.
    width : int
        Number of fields in a line.
    """

    delimiter: str | None
    names: tuple[str, ...] | None
    width: int

    def columns(self) -> Sequence[str | int]:
        return range(self.width) if self.names is None else self.names


def read_csv(path: Path, target: str | int | None) -> Contents:
    """Read a text file with one point per line.

    Parameters
    ----------
    path : Path
    target : str, int or None
        Column that becomes y, the only column that may hold text.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or None
    columns : sequence of str or int
        Names of the columns of X, or their numbers in the file.
    """
    try:
        layout = find_layout(path, target)
        place = None if target is None else find_column(path, target, layout.columns())
        if place is not None and layout.width == 1:
            raise ValueError(f"{path} must have a column beside the target. Got one column instead.")
        labels: dict[str, int] = {}
        values = _read_values(path, layout, place, labels)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8. Got {error} instead.") from error
    y = None if place is None else _decode(values[:, place].astype(np.intp), labels)
    kept = [j for j in range(layout.width) if j != place]
    if len(kept) > 1 and kept[0] == 0 and are_row_numbers(layout, values):
        kept = kept[1:]
    return values[:, kept] if len(kept) < layout.width else values, y, [layout.columns()[j] for j in kept]


def find_column(path: Path, target: str | int, columns: Sequence[str | int]) -> int:
    """Return the index of the target among all columns, by name or by number."""
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


def find_layout(path: Path, target: str | int | None) -> Layout:
    """Detect the delimiter and the header of a text file; a target that is a name implies a header."""
    with open_text(path) as stream:
        lines = list(itertools.islice((line for line in stream if line.strip()), _SAMPLE))
    if not lines:
        raise ValueError(f"{path} is empty.")
    lines[0] = lines[0].removeprefix("#")  # numpy.savetxt writes it before the header
    delimiter = max(_DELIMITERS, key=lambda candidate: _delimiter_score(list(split_rows(lines, candidate))))
    first, *rest = split_rows(lines, delimiter)
    named = isinstance(target, str)
    if not _is_header(first, rest) and not (named and any(map(_is_word, first))):
        if named:
            raise ValueError(
                f"The 'target' parameter of load_file must be the number of a column of {path}, whose first line has "
                f"no names. Got {target!r} instead."
            )
        return Layout(delimiter, None, len(first))
    if not rest:
        raise ValueError(f"{path} has a header and no rows.")
    return Layout(delimiter, tuple(name.strip() for name in first), len(first))


def _delimiter_score(rows: Sequence[Row]) -> tuple[bool, int, int]:
    """Return the score of a delimiter: lines of equal length, number of numeric fields, number of fields."""
    widths = {len(row) for row in rows}
    return widths != {1} and len(widths) == 1, sum(is_number(cell) for row in rows for cell in row), len(rows[0])


def _is_header(first: Row, rest: Sequence[Row]) -> bool:
    """Return whether the first line is a header: words above numbers, only words, or the column numbers of pandas."""
    above_numbers = [
        cell
        for j, cell in enumerate(first)
        if _is_word(cell) and any(is_number(row[j]) for row in rest if j < len(row))
    ]
    if any(map(is_number, first)) and not all(map(_is_name, above_numbers)):
        return False  # a point with a malformed number
    return bool(above_numbers) or all(map(_is_word, first)) or (bool(rest) and _is_numbering(first))


def _is_numbering(first: Row) -> bool:
    """Return whether the line is 0, 1, 2, ..., the default names of pandas; two fields may as well be a point."""
    names = [cell.strip() for cell in first]
    names = names[1:] if names[0] == "" else names  # above the column of row numbers
    return len(names) > 2 and names == [str(j) for j in range(len(names))]


def are_row_numbers(layout: Layout, values: FloatArray) -> bool:
    """Return whether the first column has no name and distinct integers in any order, as row labels."""
    labels = values[:, 0]
    return layout.columns()[0] == "" and len(np.unique(labels)) == len(labels) and bool((labels % 1 == 0).all())


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, which may be infinite or NaN."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python accepts underscores between digits


def is_missing(cell: str) -> bool:
    """Return whether a cell marks a missing value."""
    return cell.strip().lower() in _MISSING | _DASHES


def _is_word(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def _is_name(word: str) -> bool:
    first = word.strip()[0]
    return first.isalpha() or first == "_"


def open_text(path: Path) -> TextIO:
    """Open a text file in UTF-8, with or without a byte order mark."""
    return path.open(encoding="utf-8-sig", newline="")


def split_rows(lines: Sequence[str] | TextIO, delimiter: str | None) -> Iterator[Row]:
    """Split lines into their fields."""
    if delimiter is None:
        return (line.split() for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


# --- values ----------------------------------------------------------------------------------------------------------


def _read_values(path: Path, layout: Layout, place: int | None, labels: dict[str, int]) -> FloatArray:
    """Return all columns as numbers; a target is replaced by the index of its label, which is added to ``labels``."""

    def number(text: str) -> int:
        return labels.setdefault(text.strip(), len(labels))

    with open_text(path) as stream:
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
            _raise_for_first_error(path, layout, place, error)
    if values.shape[1] != layout.width:
        _raise_for_first_error(path, layout, place, ValueError(f"lines have {values.shape[1]} fields"))
    gaps = _gaps(labels)
    if gaps or not np.isfinite(values).all():
        _raise_for_first_error(path, layout, place, ValueError("values are missing or not finite"), gaps)
    return values


def _gaps(labels: Collection[str]) -> set[str]:
    """Return the labels that mark missing targets."""
    missing = _MISSING if any(map(_is_word, labels)) else _MISSING | _DASHES
    return {label for label in labels if label.lower() in missing}


def _decode(codes: FloatArray, labels: dict[str, int]) -> FloatArray:
    """Return the values of the target: numbers if all labels are numeric, otherwise text."""
    numeric = all(is_number(label) for label in labels)
    return np.array([float(label) for label in labels] if numeric else list(labels))[codes]


# --- error messages --------------------------------------------------------------------------------------------------


def _raise_for_first_error(
    path: Path, layout: Layout, place: int | None, error: ValueError, gaps: Collection[str] = ()
) -> NoReturn:
    """Raise a ValueError that names the first invalid line.

    ``error`` is the original error, which is reported if no line is found; ``gaps`` are the labels of missing targets.
    """
    columns = layout.columns()
    with open_text(path) as stream:
        numbered = ((k, line) for k, line in enumerate(stream, start=1) if line.strip())
        header = "" if layout.names is None else next(numbered)[1]
        for k, line in numbered:
            row = next(split_rows([line], layout.delimiter))
            if len(row) != layout.width:
                raise ValueError(
                    f"{path} must have {layout.width} fields in every line, as in the first. Got {len(row)} in line "
                    f"{k} instead.{_hint_at_comments(header, line)}"
                ) from error
            for j, cell in enumerate(row):
                must = (
                    _violated_requirement(cell)
                    if j != place
                    else "have a target in every line"
                    if cell.strip() in gaps
                    else None
                )
                if must is not None:
                    raise ValueError(
                        f"{path} must {must}. Got {cell!r} in line {k}, column {columns[j]!r} instead."
                        f"{_hint_at_commas(cell)}"
                    ) from error
    raise ValueError(f"{path} cannot be read as a table of numbers: {reason(error)}") from error


def _violated_requirement(cell: str) -> str | None:
    """Return the requirement that a cell violates; None if it is a finite number."""
    if is_missing(cell):
        return "have no missing values"
    if not is_number(cell):
        return "hold numbers in every column except the target"
    return None if math.isfinite(float(cell)) else "be free of infinity"


def _hint_at_comments(header: str, line: str) -> str:
    if not header.startswith("#") and not line.startswith("#"):
        return ""
    return " Lines of comments must be removed: a first line that begins with '#' is read as the header."


def _hint_at_commas(cell: str) -> str:
    """Return a hint about decimal commas for a cell such as 1,5 or 5;2, the parts of two numbers."""
    if not {",", ";"} & set(cell) or not all(is_number(part.replace(",", ".", 1)) for part in cell.split(";")):
        return ""
    return " If these are decimal commas, replace them by points."
