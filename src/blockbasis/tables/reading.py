"""Readers of tables with text, dates and missing values: CSV, Parquet, NPZ, NPY and LIBSVM files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.progress import advancing
from blockbasis.datasets.cache import reason
from blockbasis.datasets.csvfile import Layout, find_layout, is_missing, is_number, open_text, split_rows
from blockbasis.datasets.files import load_file
from blockbasis.tables.table import Column, Table

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

TEXT_FILES = (".csv", ".tsv", ".txt", ".data")
ARRAY_FILES = (".npz", ".npy", ".libsvm", ".svm", ".svmlight")
FORMATS = (*TEXT_FILES, ".parquet", *ARRAY_FILES)
#: Ways to read a column: as numbers (words are missing values), as text, or as dates.
KINDS = ("number", "text", "date")
#: Rows that are converted at a time.
_CHUNK = 20_000
#: Share of numbers among the values of a column above which words are errors, and below which the column is text.
_MOSTLY = 0.5
#: A number with separators of thousands, such as 3,003.
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")
#: Offset from UTC after a time.
_OFFSET = r"[-+](?:0\d|1[0-4]):[0-5]\d"
#: Text that is read as a date.
DATE = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[ T]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,6}})?)?(?:{_OFFSET})?)?Z?")


class CellError(ValueError):
    """Text where a column has numbers; ``correction`` says how to correct the file, and the message also its options.

    Parameters
    ----------
    problem : str
    correction : str
    options : str
        What a user may do without a correction, with options of ``blockbasis fit``.
    """

    def __init__(self, problem: str, correction: str, options: str) -> None:
        super().__init__(problem, correction, options)
        self.problem, self.correction, self._options = problem, correction, options

    def __str__(self) -> str:
        return f"{self.problem} {self.correction}, or take {self._options}."


def read_table(path: str | os.PathLike[str], *, kinds: Mapping[str, str] | None = None) -> Table:
    r"""Read a table from a file, whose format is determined by its extension.

    A column of a text file has numbers, dates (2024-05-31, or 2024-05-31 12:30+02:00, which becomes UTC) or
    text. Empty cells, ``NA``, ``?`` and
    similar marks are missing values. An unnamed first column of row numbers is omitted.

    Parameters
    ----------
    path : str or path-like
        CSV, Parquet, NPZ, NPY or LIBSVM file. The target of an NPZ or LIBSVM file is the column ``y``.
    kinds : mapping of str to {"number", "text", "date"}, default=None
        Columns of a text file that are read in a given way. Words in a column of numbers become missing values.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the file has no rows, has lines of different lengths, or has single words among numbers. The message names
        the line and the column.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from blockbasis.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "shells.csv"
    ...     _ = path.write_text("length,sex,found\n0.4,M,2024-05-31\n,F,2024-06-02\n")
    ...     shells = read_table(path)
    >>> shells.columns
    (array([0.4, nan]), array(['M', 'F'], dtype=object), array(['2024-05-31', '2024-06-02'], dtype='datetime64[D]'))
    """
    found = check_file(path)
    kinds = dict(kinds or {})
    if found.suffix.lower() in TEXT_FILES:
        table = _read_text(found, kinds)
    elif found.suffix.lower() == ".parquet":
        table = _read_parquet(found)
    else:
        table = _read_arrays(found)
    repeated = {name for name in table.names if table.names.count(name) > 1}
    if repeated:
        raise ValueError(f"{found} must have a different name for each column. Got {min(repeated)!r} twice instead.")
    return table


def check_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a table; raise an error if it cannot be read, before it is opened."""
    found = Path(path).expanduser()
    if not found.exists():
        raise FileNotFoundError(f"There is no file {found}.")
    if not found.is_file():
        raise IsADirectoryError(f"{found} is a folder. Give the path of a file.")
    if found.suffix.lower() not in FORMATS:
        raise ValueError(f"{found} has no known ending. It must be one of {', '.join(FORMATS)}.")
    if found.stat().st_size == 0:
        raise ValueError(f"{found} is empty.")
    return found


def read_names(path: str | os.PathLike[str]) -> Table | None:
    r"""Return a table without rows that has the names of the columns of a file, before its rows are read.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Table or None
        None if the file has no names, as the files of arrays.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from blockbasis.tables.reading import read_names
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "shells.csv"
    ...     _ = path.write_text("length,sex\n0.4,M\n")
    ...     read_names(path).names
    ('length', 'sex')
    """
    found = check_file(path)
    try:
        if found.suffix.lower() in TEXT_FILES:
            layout = find_layout(found, None)
            names = None if layout.names is None else tuple(map(str, layout.columns()))
        elif found.suffix.lower() == ".parquet":
            from pyarrow import parquet

            names = tuple(parquet.read_schema(found).names)
        else:
            names = None
    except (ImportError, OSError, ValueError):  # reading the rows says what is wrong
        return None
    return None if names is None else Table(names, tuple(np.empty(0) for _ in names), str(found))


# --- arrays ----------------------------------------------------------------------------------------------------------


def _read_arrays(path: Path) -> Table:
    data = load_file(path)
    names = tuple(map(str, range(data.X.shape[1])))
    columns: list[Column] = list(np.asarray(data.X.T, dtype=np.float64))
    if data.y is None:
        return Table(names, tuple(columns), str(path), named=False)
    y = np.asarray(data.y)
    columns.append(y.astype(object) if y.dtype.kind == "U" else y.astype(np.float64))
    return Table((*names, "y"), tuple(columns), str(path), named=False)


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'blockbasis[data]'.") from error
    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a complete Parquet file: {reason(error)}") from error
    return table_of_arrow(table, path)


def table_of_arrow(table: Any, path: Path) -> Table:
    """Return a table of pyarrow as a table; messages name the path."""
    import pyarrow as pa

    places = [j for j, name in enumerate(table.column_names) if not re.fullmatch(r"__index_level_\d+__", name)]
    if not places or table.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    names = tuple(table.column_names[j] for j in places)
    columns = tuple(_arrow_column(path, name, table.column(j), pa.types) for name, j in zip(names, places, strict=True))
    return Table(names, columns, str(path))


def _arrow_column(path: Path, name: str, column: Any, types: Any) -> Column:
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind):
        return np.array([None if v is None else str(v) for v in column.to_pylist()], dtype=object)
    if types.is_string(kind) or types.is_large_string(kind):
        return np.array([None if v is None or is_missing(v) else v.strip() for v in column.to_pylist()], dtype=object)
    if types.is_timestamp(kind) or types.is_date(kind):
        return np.asarray(column.to_numpy()).astype("datetime64[us]")
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return finite(path, name, np.asarray(column.to_numpy(), dtype=np.float64))
    raise ValueError(f"{path} must hold numbers, text or dates. Got {kind} in column {name!r} instead.")


def finite(path: Path | str, name: str, values: FloatArray) -> FloatArray:
    """Return the values of a column; raise a ValueError if one is infinite."""
    bad = np.flatnonzero(np.isinf(values))
    if len(bad):
        raise ValueError(f"{path} must be free of infinity. Got {values[bad[0]]} in row {bad[0]}, column {name!r}.")
    return values


# --- text ------------------------------------------------------------------------------------------------------------


@dataclass
class _Found:
    """What has been read of a column: values of the chunks, counts of the cells, and the first word with its line."""

    chunks: list[FloatArray] = field(default_factory=list)
    numbers: int = 0
    words: int = 0
    dates: int = 0
    commas: int = 0
    thousands: int = 0
    first: tuple[int, str] = (0, "")

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        try:
            values = np.array(cells, dtype=np.float64)
            plain = not any("_" in cell for cell in cells)
        except ValueError:
            plain = False
        if plain and np.isfinite(values).all():
            self.numbers += len(values)
        else:
            values = np.array([self._value(cell.strip(), line) for cell, line in zip(cells, lines, strict=True)])
        self.chunks.append(values)

    def _value(self, cell: str, line: int) -> float:
        if is_missing(cell):
            return np.nan
        if is_number(cell):
            self.numbers += 1
            return float(cell)
        if not self.words:
            self.first = (line, cell)
        self.words += 1
        self.dates += DATE.fullmatch(cell) is not None
        separated = _THOUSANDS.fullmatch(cell) is not None
        self.thousands += separated
        self.commas += separated or (cell.count(",") == 1 and is_number(cell.replace(",", ".")))
        return np.nan


def _read_text(path: Path, kinds: Mapping[str, str]) -> Table:
    try:
        layout = find_layout(path, None)
        names = tuple(map(str, layout.columns()))
        found = [_Found() for _ in names]
        for cells, lines in _chunks(path, layout):
            for each, column in zip(found, zip(*cells, strict=True), strict=True):
                each.add(column, lines)
        chosen = [kinds.get(name) or _kind(path, name, each) for name, each in zip(names, found, strict=True)]
        texts = _cells(path, layout, [j for j, kind in enumerate(chosen) if kind != "number"])
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8.") from error
    columns: list[Column] = []
    for j, (name, kind) in enumerate(zip(names, chosen, strict=True)):
        if kind == "number":
            columns.append(finite(path, name, np.concatenate(found[j].chunks)))
        else:
            columns.append(dates_of(path, name, texts[j]) if kind == "date" else np.array(texts[j], dtype=object))
        found[j].chunks.clear()
    first = 1 if len(names) > 1 and _are_row_numbers(names[0], columns[0]) else 0
    return Table(names[first:], tuple(columns[first:]), str(path), named=layout.names is not None)


def _kind(path: Path, name: str, found: _Found) -> str:
    """Return the kind of a column; raise a ValueError for words among numbers."""
    if not found.words:
        return "number"
    line, cell = found.first
    if found.commas == found.words:
        what, correction = "decimal commas", "Replace them by points"
        if found.thousands == found.words:
            what = "commas in the numbers"
            correction = "Omit separators of thousands, and replace decimal commas by points"
        problem = f"{path} has {what} in column {name!r}, such as {cell} in line {line}."
        raise CellError(problem, correction, f"the column as text (--column '{name}=one-hot')")
    if not found.numbers:
        return "date" if found.dates == found.words else "text"
    if found.numbers > _MOSTLY * (found.numbers + found.words):
        raise CellError(
            f"{path} has the text {cell!r} among the numbers of column {name!r}, in line {line}.",
            "Correct it",
            f"such cells as missing (--column '{name}=number') or the column as text (--column '{name}=one-hot')",
        )
    return "text"


def _are_row_numbers(name: str, column: Column) -> bool:
    if name or column.dtype.kind != "f":
        return False
    return bool((column % 1 == 0).all()) and len(np.unique(column)) == len(column)


def dates_of(source: Path | str, name: str, cells: Sequence[str | None]) -> Column:
    """Return the dates of a column of text, in UTC; raise a ValueError if one is malformed or impossible."""
    for cell in cells:
        if cell is not None and not DATE.fullmatch(cell):
            raise ValueError(f"{source} must hold dates such as 2024-05-31 in column {name!r}. Got {cell!r} instead.")
    try:
        return np.array(["NaT" if cell is None else in_utc(cell) for cell in cells], dtype="datetime64")
    except ValueError as error:
        raise ValueError(f"{source} has an impossible date in column {name!r}: {reason(error)}") from error


def in_utc(cell: str) -> str:
    """Return the text of a date without its offset from UTC.

    Examples
    --------
    >>> from blockbasis.tables.reading import in_utc
    >>> in_utc("2024-05-31 00:30:00+01:00"), in_utc("2024-05-31")
    ('2024-05-30T23:30:00', '2024-05-31')
    """
    cell = cell.removesuffix("Z")
    found = re.search(rf"{_OFFSET}$", cell[len("2024-05-31") :])
    if found is None:
        return cell
    sign, hours, minutes = found[0][0], int(found[0][1:3]), int(found[0][4:])
    offset = np.timedelta64(60 * hours + minutes, "m")
    moment = np.datetime64(cell.removesuffix(found[0]))
    return str(moment - offset if sign == "+" else moment + offset)


def _chunks(path: Path, layout: Layout) -> Iterator[tuple[list[Sequence[str]], list[int]]]:
    """Yield rows and their line numbers, some thousand at a time; raise a ValueError for a line of another length."""
    advance = advancing(path.stat().st_size)
    with open_text(path) as stream:
        numbered = ((k, line) for k, line in enumerate(stream, start=1) if line.strip())
        if layout.names is not None:
            next(numbered)
        while some := list(itertools.islice(numbered, _CHUNK)):
            lines = [k for k, _ in some]
            rows = list(split_rows([line for _, line in some], layout.delimiter))
            for k, row in zip(lines, rows, strict=False):
                if len(row) != layout.width:
                    raise ValueError(
                        f"{path} must have {layout.width} fields in every line, as in the first. Got {len(row)} in "
                        f"line {k} instead."
                    )
            if len(rows) != len(lines):
                raise ValueError(f"{path} must have each row on a line of its own. Got a quoted line break instead.")
            yield rows, lines
            advance(f"reading {path.name}", sum(len(line) for _, line in some))


def _cells(path: Path, layout: Layout, places: Sequence[int]) -> dict[int, list[str | None]]:
    """Return the cells of some columns as text, with None for missing values."""
    cells: dict[int, list[str | None]] = {j: [] for j in places}
    if places:
        for rows, _ in _chunks(path, layout):
            for j in places:
                cells[j] += [None if is_missing(row[j]) else row[j].strip() for row in rows]
    return cells
