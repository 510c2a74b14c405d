"""Directories of Parquet files: tables that are read one row group after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.streaming.sources import SAMPLE_ROWS, ArrayRows
from blockbasis.tables.encoding import encode
from blockbasis.tables.reading import table_of_arrow
from blockbasis.tables.table import Table, missing

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.streaming.functions import BasisFunctions
    from blockbasis.tables.model import TableModel

#: Adds up what a function gives for each file, here or on workers.
Summed = Callable[[Callable[..., RidgeSums], list[tuple[Any, ...]]], RidgeSums]


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a directory, in the order of their names; raise a ValueError if there are none."""
    found = sorted(folder.glob("*.parquet"))
    if not found:
        raise ValueError(f"The directory {folder} has no file whose name ends with .parquet.")
    return found


def pieces(path: Path) -> Iterator[Table]:
    """Yield the row groups of a Parquet file as tables."""
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            if file.metadata.row_group(group).num_rows:
                yield table_of_arrow(file.read_row_group(group), path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'blockbasis[data]'.") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a complete Parquet file: {str(error).splitlines()[0]}") from error


def _n_rows(path: Path) -> int:
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def count_rows(folder: Path) -> int:
    """Return the number of rows of the files of a directory."""
    return sum(map(_n_rows, parquet_files(folder)))


def sample_table(folder: Path, seed: int) -> tuple[Table, list[IntArray]]:
    """Return at most 100,000 random rows of a directory, and their indices in each of its files, ascending."""
    files = parquet_files(folder)
    lengths = [_n_rows(path) for path in files]
    n = sum(lengths)
    if not n:
        raise ValueError(f"The files of {folder} have no rows.")
    drawn = np.arange(n)
    if n > SAMPLE_ROWS:
        drawn = np.sort(np.random.default_rng(seed).choice(n, SAMPLE_ROWS, replace=False))
    starts = np.cumsum([0, *lengths])
    within = np.searchsorted(drawn, starts)
    chosen = [drawn[within[i] : within[i + 1]] - starts[i] for i in range(len(files))]
    parts = [part for path, rows in zip(files, chosen, strict=True) for part in _rows_of(path, rows)]
    first = parts[0]
    for part in parts:
        if part.names != first.names:
            raise ValueError(f"{part.source} must have the columns of {first.source}: {', '.join(first.names)}.")
        for name, own, other in zip(first.names, part.columns, first.columns, strict=True):
            if own.dtype.kind != other.dtype.kind:
                raise ValueError(f"{part.source} must have numbers, text or dates in {name!r}, as {first.source} has.")
    columns = tuple(np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True))
    return replace(first, columns=columns, source=str(folder)), chosen


def _rows_of(path: Path, rows: IntArray) -> Iterator[Table]:
    start = 0
    for piece in pieces(path):
        own = rows[(rows >= start) & (rows < start + piece.n_rows)] - start
        if len(own):
            yield piece.rows(own)
        start += piece.n_rows


def learn_others(model: TableModel, folder: Path, sampled: list[IntArray], summed: Summed) -> TableModel:
    """Return the model after it has learnt the rows of a directory that were neither fitted nor tested before.

    Parameters
    ----------
    model : TableModel
        Fitted to rows of the directory.
    folder : Path
    sampled : list of ndarray
        Indices of the rows of each file that are left out.
    summed : callable
        Adds up what a function gives for each file.
    """
    files, estimator = parquet_files(folder), model.estimator
    if sum(map(len, sampled)) == sum(map(_n_rows, files)):
        return model
    estimator.begin_stream()
    lean = replace(model, estimator=estimator.without_state())
    functions = estimator.stream_.functions.lean()
    tasks = [(lean, functions, path.resolve(), rows) for path, rows in zip(files, sampled, strict=True)]
    sums = summed(_sums_of_file, tasks)
    estimator.add_sums(sums)
    return replace(model, rows=model.rows + sums.n_rows)


def _sums_of_file(model: TableModel, functions: BasisFunctions, path: Path, left_out: IntArray) -> RidgeSums:
    """Return the sums over the rows of a file, without some of them and without those that have no target."""
    estimator, start = model.estimator, 0
    sums: RidgeSums | None = None
    for piece in pieces(path):
        own = np.ones(piece.n_rows, dtype=bool)
        own[left_out[(left_out >= start) & (left_out < start + piece.n_rows)] - start] = False
        start += piece.n_rows
        column = piece.column(model.target)
        own &= ~missing(column)
        if own.any():
            X, _ = encode(model.encoder, piece.rows(own).without(model.target))
            y = column[own].astype(str) if column.dtype.kind == "O" else column[own]
            Y, weights = estimator._columns(y, None, caller="fit")
            more: RidgeSums = estimator._sums(functions, ArrayRows(X), Y, weights)
            sums = more if sums is None else sums.plus(more)
    return RidgeSums.zero(functions.ranks, _n_targets(estimator)) if sums is None else sums


def _n_targets(estimator: Any) -> int:
    classes: FloatArray = getattr(estimator, "classes_", np.zeros(2))
    return 1 if len(classes) == 2 else len(classes)
