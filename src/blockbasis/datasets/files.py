"""Readers of data files: CSV, NPZ, NPY, Parquet and LIBSVM."""

from __future__ import annotations

import os
import re
import zipfile
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.machine import available_memory
from blockbasis.datasets.cache import reading, reason
from blockbasis.datasets.csvfile import Contents, find_column, read_csv
from blockbasis.datasets.dataset import Dataset

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Largest number of column names in a description.
_NAMES_SHOWN = 100
#: Kinds of dtypes that hold real numbers.
_REAL = "fiub"
#: Suffix of the members of an npz archive.
_NPY = ".npy"
#: Name that pandas gives to an index without a name, which labels rows.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


def load_file(path: str | os.PathLike[str], *, target: str | int | None = None) -> Dataset:
    r"""Load points from a file, whose format is determined by its extension.

    ========================================  ======================================================================
    ``.csv``, ``.tsv``, ``.txt``, ``.data``   Text with one point per line. The delimiter (comma, semicolon, tab, bar
                                              or blanks) and the header are detected. A first column of row numbers
                                              without a name is omitted.
    ``.npz``                                  Array ``X``, or the only two-dimensional array; array ``y`` is the
                                              target.
    ``.npy``                                  A two-dimensional array.
    ``.parquet``                              Requires pyarrow: ``pip install blockbasis[data]``. An index of pandas
                                              without a name is omitted.
    ``.libsvm``, ``.svm``, ``.svmlight``      The labels are the target. The points are converted to a dense array.
    ========================================  ======================================================================

    Parameters
    ----------
    path : str or path-like
        Path of the file.
    target : str or int, default=None
        Column that becomes y, by name or by number; negative numbers count from the end. For ``.npz`` it may be the
        name of an array. The target may be text, as class names; all other columns must be numbers.

    Returns
    -------
    Dataset
        Data set with X in float64, or in float32 if the file has float32; y is None without a target. The columns are
        not rescaled; see `standardized`.

    Raises
    ------
    ValueError
        If the file is empty, has lines of different lengths, or has text, a missing value or an infinity. The message
        names the row and the column.
    MemoryError
        If the points of a LIBSVM file do not fit into memory as a dense array.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from blockbasis.datasets import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "shells.csv"
    ...     _ = path.write_text("length;height;sex\n0.4;0.1;M\n0.3;0.2;F\n")
    ...     shells = load_file(path, target="sex")
    >>> shells.X
    array([[0.4, 0.1],
           [0.3, 0.2]])
    >>> shells.y
    array(['M', 'F'], dtype='<U1')
    """
    path = _check_path(path)
    if target is not None and (isinstance(target, bool) or not isinstance(target, (str, int, np.integer))):
        raise TypeError(
            f"The 'target' parameter of load_file must be a name, a number or None. Got {target!r} instead."
        )
    X, y, columns = _READERS[path.suffix.lower()](path, target)
    _check_numbers(path, X, y, columns)
    X = np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    return Dataset(X, y, path.stem, _describe(X, columns), str(path))


def _describe(X: FloatArray, columns: Sequence[str | int]) -> str:
    names = [name for name in columns if isinstance(name, str)]
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return f"{X.shape[0]} points, {X.shape[1]} columns" + (f": {shown}." if names else ".")


def _check_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"The 'path' parameter of load_file must be a path to a file. Got {type(path).__name__} instead."
        )
    found = Path(path).expanduser()
    if not found.exists():
        raise FileNotFoundError(f"The 'path' parameter of load_file must be a file that exists. Got {found} instead.")
    if not found.is_file():
        raise IsADirectoryError(f"The 'path' parameter of load_file must be a file. Got {found} instead.")
    if found.suffix.lower() not in _READERS:
        raise ValueError(
            f"The 'path' parameter of load_file must end in one of {', '.join(_READERS)}. Got {found.name!r} instead."
        )
    if found.stat().st_size == 0:
        raise ValueError(f"{found} is empty.")
    return found


def _check_numbers(path: Path, X: FloatArray, y: FloatArray | None, columns: Sequence[str | int]) -> None:
    """Raise a ValueError that names the first NaN or infinity."""
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"{path} must be free of NaN and infinity. Got {X[row, column]} in row {row}, column {columns[column]!r} "
            "instead."
        )
    if y is not None and y.dtype.kind not in _REAL + "U":
        raise ValueError(f"{path} must hold numbers or text as the target. Got dtype {y.dtype} instead.")
    if y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
        row = np.flatnonzero(~np.isfinite(y))[0]
        raise ValueError(f"{path} must be free of NaN and infinity. Got {y[row]} in row {row} of the target instead.")


# --- readers of the formats ------------------------------------------------------------------------------------------


def _read_npy(path: Path, target: str | int | None) -> Contents:
    with reading(path, "npy file of numbers", ValueError) as stream:
        X = np.lib.format.read_array(stream, allow_pickle=False)
    return _split(path, _check_table(path, X), target)


def _read_npz(path: Path, target: str | int | None) -> Contents:
    label = "y" if target is None else target
    with reading(path, "npz file of numbers", ValueError) as stream, zipfile.ZipFile(stream) as archive:
        names = [member.removesuffix(_NPY) for member in archive.namelist() if member.endswith(_NPY)]
        tables = ["X"] if "X" in names else [name for name in names if _is_table(archive, name)]
        # Other arrays are not read; they may be of any dtype.
        wanted = [name for name in names if name in (*tables[:1], label)]
        arrays: dict[str | int, FloatArray] = {name: _read_array(archive, name) for name in wanted}
    if len(tables) != 1:
        raise ValueError(
            f"{path} must hold an array X, or a single array of numbers in two dimensions. Got {', '.join(names)} "
            "instead."
        )
    X = _check_table(path, arrays[tables[0]])
    if isinstance(target, (int, np.integer)):
        return _split(path, X, target)
    if label not in arrays and target is not None:
        raise ValueError(
            f"The 'target' parameter of load_file must name an array of {path}, which has {', '.join(names)}. "
            f"Got {target!r} instead."
        )
    y = arrays.get(label)
    if y is not None and y.shape != X.shape[:1]:
        raise ValueError(f"{path} must hold one target for each of the {len(X)} points. Got shape {y.shape} instead.")
    return X, y, range(X.shape[1])


def _is_table(archive: zipfile.ZipFile, name: str) -> bool:
    """Return whether an array is numeric and two-dimensional, from its header."""
    with archive.open(name + _NPY) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    return len(shape) == 2 and dtype.kind in _REAL


def _read_array(archive: zipfile.ZipFile, name: str) -> FloatArray:
    with archive.open(name + _NPY) as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _check_table(path: Path, X: FloatArray) -> FloatArray:
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{path} must hold points by columns, at least one of each. Got shape {X.shape} instead.")
    if X.dtype.kind not in _REAL:
        raise ValueError(f"{path} must hold real numbers. Got dtype {X.dtype} instead.")
    return X


def _split(path: Path, X: FloatArray, target: str | int | None) -> Contents:
    """Split a table without column names into points and target."""
    if target is None:
        return X, None, range(X.shape[1])
    place = find_column(path, target, range(X.shape[1]))
    rest = [j for j in range(X.shape[1]) if j != place]
    return _check_table(path, X[:, rest]), X[:, place], rest


def _read_parquet(path: Path, target: str | int | None) -> Contents:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"load_file needs pyarrow to read {path}: pip install pyarrow, or pip install blockbasis[data]."
        ) from error
    try:
        # parquet.read_table cannot read columns of the same name.
        table = parquet.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise ValueError(f"{path} is not a complete Parquet file: {reason(error)}") from error
    table = table.select([j for j, name in enumerate(table.column_names) if not _UNNAMED_INDEX.fullmatch(name)])
    place = None if target is None else find_column(path, target, table.column_names)
    rest = [j for j in range(table.num_columns) if j != place]
    if not rest or table.num_rows == 0:
        raise ValueError(
            f"{path} must hold points by columns, at least one of each. Got {table.num_rows} rows and {len(rest)} "
            "columns beside the target instead."
        )
    columns = [table.column_names[j] for j in rest]
    for name, j in zip(columns, rest, strict=True):
        kind = table.schema.field(j).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(
                f"{path} must hold numbers in every column except the target. Got {kind} in column {name!r} instead."
            )
    X = np.column_stack([table.column(j).to_numpy() for j in rest])
    if X.dtype.kind == "O":  # Booleans with missing values
        X = X.astype(np.float64)
    y = None if place is None else _arrow_target(path, table.column(place))
    return X, y, columns


def _arrow_target(path: Path, column: Any) -> FloatArray:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(f"{path} must have a target in every row. Got none in row {row} instead.")
    y = column.to_numpy()
    return np.asarray(y.astype(str) if all(isinstance(value, str) for value in y) else y)


def _read_libsvm(path: Path, target: str | int | None) -> Contents:
    if target is not None:
        raise ValueError(
            f"The 'target' parameter of load_file must be None for a LIBSVM file, whose labels are the target. "
            f"Got {target!r} instead."
        )
    from sklearn.datasets import load_svmlight_file  # takes 0.1 s to import

    try:
        with path.open("rb") as stream:
            if stream.read(len(BOM_UTF8)) != BOM_UTF8:
                stream.seek(0)
            X, y = load_svmlight_file(stream)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a LIBSVM file, lines of 'label index:value ...': {reason(error)}") from error
    needed, available = 8 * X.shape[0] * X.shape[1], available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"{path} must have points that fit into memory as a dense array, {available / 1e9:.3g} GB. Got "
            f"{X.shape[0]} points and indices up to {X.shape[1]}, {needed / 1e9:.3g} GB, instead."
        )
    return _check_table(path, X.toarray()), y, range(X.shape[1])


_READERS: dict[str, Callable[[Path, str | int | None], Contents]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data"), read_csv),
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".parquet": _read_parquet,
    **dict.fromkeys((".libsvm", ".svm", ".svmlight"), _read_libsvm),
}
