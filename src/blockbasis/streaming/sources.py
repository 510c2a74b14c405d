"""Tables that are read in pieces: arrays on disk, Parquet files, and iterables of chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from blockbasis._utils.tiling import ranges
from blockbasis.streaming.workspace import release

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Most floats, and most rows, of a piece that is read at once: 8 MB of float64, and as many basis functions.
_PIECE_FLOATS = 2**20
_PIECE_ROWS = 2**15
#: Packages whose arrays are read in pieces.
_PACKAGES = ("zarr", "h5py")
#: Arrays of at most so many rows are read into memory.
SAMPLE_ROWS = 100_000


class Piece(NamedTuple):
    """Consecutive rows: index of the first one, their values, the place they come from, and their index there."""

    start: int
    values: FloatArray
    place: str
    offset: int


class Rows(ABC):
    """Rows of a table that is read in pieces and never held as a whole.

    `blockbasis.factorize` and the estimators accept such an object in place of an array. A subclass has the attribute
    ``shape`` and the method `read`, which can be called several times.
    """

    #: Numbers of rows and of columns.
    shape: tuple[int, int]

    @abstractmethod
    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the rows from first to last: a place for messages, such as a file name, and a two-dimensional array."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def _step(self) -> int:
        """Largest number of rows of a piece."""
        return max(1, min(_PIECE_FLOATS // self.shape[1], _PIECE_ROWS))

    def pieces(self, *, name: str = "X", caller: str = "factorize") -> Iterator[Piece]:
        """Yield pieces of at most 32,768 rows and 8 MB; raise for other columns, and for entries that are not finite.

        Parameters
        ----------
        name, caller : str
            Parameter and function that a message names.
        """
        start, offsets = 0, dict[str, int]()
        for place, block in self.read():
            block = np.asarray(block)
            offset = offsets.get(place, 0)
            self._check_block(block, place, offset, name, caller)
            for rows in ranges(0, len(block), self._step):
                values = np.ascontiguousarray(block[rows], dtype=_floating(block.dtype))
                piece = Piece(start, values, place, offset + rows.start)
                _check_finite(piece, name, caller)
                yield piece
                start += len(values)
            offsets[place] = offset + len(block)
        if start != self.shape[0]:
            raise ValueError(
                f"The '{name}' parameter of {caller} must have the {self.shape[0]} rows that it announces. "
                f"Got {start} instead."
            )

    def take(self, rows: IntArray, *, name: str = "X", caller: str = "factorize") -> FloatArray:
        """Return the given rows, which are ascending, in one pass over the table."""
        found = [
            piece.values[
                rows[slice(*np.searchsorted(rows, (piece.start, piece.start + len(piece.values))))] - piece.start
            ]
            for piece in self.pieces(name=name, caller=caller)
        ]
        return np.concatenate(found)

    def _check_block(self, block: npt.NDArray[Any], place: str, offset: int, name: str, caller: str) -> None:
        where = _where(place, offset)
        if block.ndim != 2 or block.shape[1] != self.shape[1]:
            raise ValueError(
                f"The '{name}' parameter of {caller} must have {self.shape[1]} columns in all pieces. "
                f"Got shape {block.shape} {where} instead."
            )
        if block.dtype.kind not in "fiub":
            raise TypeError(
                f"The '{name}' parameter of {caller} must be an array of numbers. Got dtype {block.dtype} {where} "
                "instead."
            )


class ArrayRows(Rows):
    """Rows of an array that supports slices: `numpy.memmap`, an array of zarr, a data set of h5py.

    Parameters
    ----------
    array : array of shape (n, d) or (n,)
        An object with ``shape`` and ``dtype`` whose slices are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.streaming import ArrayRows
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> rows.take(np.array([0, 2]))
    array([[0., 1.],
           [4., 5.]])
    """

    def __init__(self, array: Any) -> None:
        shape = tuple(getattr(array, "shape", ()))
        if len(shape) not in (1, 2) or 0 in shape:
            raise ValueError(
                "The 'array' parameter of ArrayRows must be of shape (n_points, n_features) with at least one point. "
                f"Got {shape or type(array).__name__} instead."
            )
        self.array = array
        self.shape = (shape[0], 1 if len(shape) == 1 else shape[1])

    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield slices of the array."""
        for rows in ranges(0, self.shape[0], self._step):
            yield "", np.asarray(self.array[rows]).reshape(-1, self.shape[1])
            if isinstance(self.array, np.memmap) and self.array.mode != "c":  # changes of a copy would be lost
                release(self.array)  # what has been read would stay in the memory of the process


class ChunkRows(Rows):
    """Rows of an iterable of chunks, such as a list of arrays or an object that opens one file after the other.

    Parameters
    ----------
    chunks : iterable of array-like of shape (m, d)
        It is iterated several times: a generator, which can be iterated once, is refused.
    n_rows : int
        Number of rows of all chunks together.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.streaming import ChunkRows
    >>> rows = ChunkRows([np.zeros((2, 3)), np.ones((4, 3))], n_rows=6)
    >>> rows.shape
    (6, 3)
    """

    def __init__(self, chunks: Iterable[Any], n_rows: int) -> None:
        if iter(chunks) is chunks:
            raise TypeError(
                "The 'chunks' parameter of ChunkRows must be an iterable that can be iterated several times, such as a "
                f"list. Got a {type(chunks).__name__} instead: pass its chunks to partial_fit one by one."
            )
        first = next((np.asarray(chunk) for chunk in chunks), None)
        if first is None or first.ndim != 2:
            got = "no chunk" if first is None else f"a chunk of shape {first.shape}"
            raise ValueError(
                f"The 'chunks' parameter of ChunkRows must be of two-dimensional arrays. Got {got} instead."
            )
        self.chunks = chunks
        self.shape = (int(n_rows), first.shape[1])

    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the chunks."""
        for number, chunk in enumerate(self.chunks):
            yield f"chunk {number}", np.asarray(chunk)


class ParquetRows(Rows):
    """Rows of a Parquet file, or of all Parquet files of a directory, one row group after the other.

    It needs pyarrow, which ``pip install 'blockbasis[data]'`` installs.

    Parameters
    ----------
    path : path-like, pyarrow.dataset.Dataset
        A file, a directory whose files are read in the order of their names, or a data set.
    columns : str or sequence of str, default=None
        Columns to read; None is all of them.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from blockbasis.streaming import ParquetRows
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0.0, 1.0]}).to_parquet(f"{directory}/0.parquet")
    ...     X, y = ParquetRows(directory, columns=["a", "b"]), ParquetRows(directory, columns="y")
    ...     X.shape, y.shape
    ((2, 2), (2, 1))
    """

    def __init__(self, path: str | PathLike[str] | Any, columns: str | Sequence[str] | None = None) -> None:
        try:
            from pyarrow import dataset
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: pip install 'blockbasis[data]'.") from error
        self._dataset = path if isinstance(path, dataset.Dataset) else _opened(_parquet_files(path))
        names = self._dataset.schema.names
        chosen = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        missing = [column for column in chosen if column not in names]
        if missing:
            raise ValueError(f"The table has no column {missing[0]!r}. Its columns are {', '.join(names)}.")
        self.columns = tuple(chosen)
        self.shape = (self._dataset.count_rows(), len(chosen))
        if 0 in self.shape:
            raise ValueError(f"The Parquet files must have at least one row and one column. Got shape {self.shape}.")

    def read(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield row groups."""
        for fragment in self._dataset.get_fragments():
            if not hasattr(fragment, "split_by_row_group"):
                raise TypeError("A data set of pyarrow must consist of Parquet files. Give other tables as an array.")
            place = f"file {Path(fragment.path).name}"
            missing = [column for column in self.columns if column not in fragment.physical_schema.names]
            if missing:
                raise ValueError(f"The {place} has no column {missing[0]!r}, which the other files have.")
            for column in self.columns:
                if not _is_number(kind := fragment.physical_schema.field(column).type):
                    raise TypeError(f"Column {column!r} must hold numbers. Got {kind} in {place} instead.")
            for group in fragment.split_by_row_group():
                table = group.to_table(schema=fragment.physical_schema, columns=list(self.columns))
                yield place, np.column_stack([table[column].to_numpy() for column in self.columns])


def is_streamed(X: Any) -> bool:
    """Return whether an object is read in pieces.

    `Rows` and data sets of pyarrow are; memory maps and arrays of zarr or h5py where they have more than 100,000 rows.
    """
    if isinstance(X, Rows) or hasattr(X, "get_fragments"):
        return True
    on_disk = isinstance(X, np.memmap) or type(X).__module__.partition(".")[0] in _PACKAGES
    return on_disk and len(X.shape) > 0 and X.shape[0] > SAMPLE_ROWS


def as_rows(X: Any, *, n_features: int | None = None, caller: str = "factorize") -> Rows:
    """Return the rows of an object that `is_streamed` accepts, or of an array.

    Parameters
    ----------
    X : object
    n_features : int or None
        Number of columns that the rows must have.
    caller : str
        Estimator that a message names.
    """
    rows = X if isinstance(X, Rows) else ParquetRows(X) if hasattr(X, "get_fragments") else ArrayRows(X)
    if n_features is not None and rows.shape[1] != n_features:
        raise ValueError(f"X has {rows.shape[1]} features, but {caller} is expecting {n_features} features as input.")
    return rows


def _parquet_files(path: str | PathLike[str]) -> list[str]:
    """Return the Parquet files of a path, in the order of their names."""
    given = Path(path)
    if not given.exists():
        raise FileNotFoundError(f"There is no file or directory {given}.")
    found = sorted(given.glob("*.parquet")) if given.is_dir() else [given]
    if not found:
        raise ValueError(f"The directory {given} has no file whose name ends with .parquet.")
    return [str(file) for file in found]


def _opened(files: list[str]) -> Any:
    """Return the data set of Parquet files; raise a ValueError that names a file which cannot be read."""
    from pyarrow import ArrowInvalid, dataset, parquet

    try:
        opened = dataset.dataset(files)
        opened.count_rows()
    except ArrowInvalid as error:
        for file in files:
            try:
                parquet.read_metadata(file)
            except ArrowInvalid as cause:
                raise ValueError(f"{file} is not a Parquet file, or is truncated: {cause}") from error
        raise
    return opened


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _check_finite(piece: Piece, name: str, caller: str) -> None:
    finite = np.isfinite(piece.values).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ValueError(
            f"The '{name}' parameter of {caller} must be free of NaN and infinity. "
            f"Got one {_where(piece.place, piece.offset + bad)} instead."
        )


def _where(place: str, row: int) -> str:
    return f"in {place}, row {row}" if place else f"in row {row}"
