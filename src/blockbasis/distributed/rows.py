"""Points of a dask collection: blocks of rows on the workers, read as `blockbasis.streaming.Rows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import distributed
import numpy as np
import numpy.typing as npt

from blockbasis._utils.tiling import offsets
from blockbasis.distributed.client import gathered, submitted
from blockbasis.streaming.sources import ArrayRows, ParquetRows, Rows

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray


class BlockRows(ArrayRows):
    """Rows of one block, which messages name.

    Parameters
    ----------
    array : ndarray of shape (m, d)
    place : str
    """

    def __init__(self, array: Any, place: str) -> None:
        super().__init__(np.asarray(array))
        self.place = place

    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield slices of the block."""
        for _, values in super().read():
            yield self.place, values


class DaskRows(Rows):
    """Rows of a dask array or of the columns of a dask data frame.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
    client : distributed.Client
    columns : sequence of str or None
        Columns of a data frame, None for all.
    name, caller : str
        Parameter and function that a message names.

    Attributes
    ----------
    blocks : list of futures or delayed objects
        Futures where the array is persisted: tasks then run where the points are.
    lengths : ndarray of ints
        Rows of each block. Blocks without rows are left out.
    """

    def __init__(
        self, X: Any, client: Any, *, columns: Sequence[str] | None = None, name: str = "X", caller: str = "factorize"
    ) -> None:
        array = as_array(X, columns, name=name, caller=caller)
        self.client = client
        blocks, lengths = _blocks(array), np.array(array.chunks[0])
        if np.isnan(lengths.astype(np.float64)).any():
            blocks = submitted(client, "read", np.asarray, blocks)
            lengths = np.array(gathered(client, submitted(client, "count", len, blocks)))
        self.blocks = [block for block, length in zip(blocks, lengths.tolist(), strict=True) if length]
        self.lengths: IntArray = lengths[lengths > 0].astype(np.intp)
        self.shape = (int(self.lengths.sum()), array.shape[1])
        if 0 in self.shape:
            raise ValueError(
                f"The '{name}' parameter of {caller} must have at least one row and one column. Got shape {self.shape}."
            )

    @property
    def places(self) -> list[str]:
        """Names of the blocks in messages."""
        return [f"block {i}" for i in range(len(self.blocks))]

    def take(self, rows: IntArray, *, name: str = "X", caller: str = "factorize") -> FloatArray:
        """Return the given rows, which are ascending; only they travel."""
        return self.picked(rows, _checked, name, caller)

    def picked(self, rows: IntArray, function: Any, *arguments: Any) -> npt.NDArray[Any]:
        """Return ``function(block, rows, place, *arguments)`` of the blocks that hold some of the rows."""
        starts = offsets(self.lengths)
        within = np.searchsorted(rows, starts)
        own = [rows[within[i] : within[i + 1]] - starts[i] for i in range(len(self.blocks))]
        used = [i for i in range(len(own)) if len(own[i])]
        columns = [[self.blocks[i] for i in used], [own[i] for i in used], [self.places[i] for i in used]]
        same = [[value] * len(used) for value in arguments]
        found = submitted(self.client, "sample", function, *columns, *same, near=columns[0])
        return np.concatenate(gathered(self.client, found))

    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the blocks, one after the other."""
        for block, place in zip(self.blocks, self.places, strict=True):
            yield place, gathered(self.client, submitted(self.client, "read", np.asarray, [block]))[0]


def _blocks(array: Any) -> list[Any]:
    graph, delayed = array.__dask_graph__(), array.to_delayed().ravel().tolist()
    values = [graph.get(block.key) for block in delayed]
    return [
        value if isinstance(value, distributed.Future) else block for value, block in zip(values, delayed, strict=True)
    ]


def parquet_array(files: Sequence[Path], columns: Sequence[str]) -> Any:
    """Return a dask array of columns of Parquet files, with a block for each file."""
    lengths = [len(ParquetRows(path)) for path in files]
    read = dask.delayed(_file, pure=False)
    blocks = [
        da.from_delayed(read(path, tuple(columns)), (length, len(columns)), np.float64)
        for path, length in zip(files, lengths, strict=True)
    ]
    return da.concatenate(blocks)


def _file(path: Path, columns: tuple[str, ...]) -> FloatArray:
    return np.concatenate([values for _, values in ParquetRows(path, columns).read()]).astype(np.float64, copy=False)


def as_array(X: Any, columns: Sequence[str] | None, *, name: str, caller: str) -> Any:
    """Return a dask array of blocks of whole rows; a data frame's columns are taken by name."""
    if hasattr(X, "to_dask_array"):
        if columns is not None and hasattr(X, "columns"):
            missing = [column for column in columns if column not in X.columns]
            if missing:
                raise ValueError(f"The '{name}' parameter of {caller} must have the column {missing[0]!r}.")
            X = X[list(columns)]
        X = X.to_dask_array()
    if not hasattr(X, "to_delayed") or not hasattr(X, "chunks"):
        raise TypeError(
            f"The '{name}' parameter of {caller} must be a dask array or a dask data frame. Got {type(X).__name__} "
            "instead: pass other points to blockbasis itself."
        )
    if X.ndim == 1:
        X = X[:, np.newaxis]
    if X.ndim != 2:
        raise ValueError(f"The '{name}' parameter of {caller} must have two dimensions. Got {X.ndim} instead.")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def unchecked(block: Any, rows: IntArray, place: str) -> npt.NDArray[Any]:
    """Return rows of a block of any dtype."""
    return np.asarray(block)[rows]


def _checked(block: Any, rows: IntArray, place: str, name: str, caller: str) -> FloatArray:
    return BlockRows(block, place).take(rows, name=name, caller=caller)
