"""Output files of the commands: checks before the computation, and atomic replacement."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from blockbasis._utils.files import in_bytes, replacing

TABLES = (".csv", ".parquet")
ARRAYS = (".npy", ".csv")


def check_output(path: Path | None, *, force: bool, endings: Sequence[str] = (), option: str = "--out") -> None:
    """Raise an error, before the computation, if a file cannot be written or would be replaced without --force."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {' or '.join(endings)}. Give such a name with {option}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the path of a file with {option}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}. Create it, or give another {option}.")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists. Give --force to replace it, or another {option}.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"Nothing can be written to {path.parent}. Give a file in another folder with {option}.")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Context manager with a stream that replaces a file atomically; errors of the system name the file."""
    try:
        with replacing(path) as stream:
            yield stream
    except OSError as error:
        raise named(error, path) from None


def named(error: OSError, path: Path) -> OSError:
    """Return an error of the system with the name of the file that the user knows."""
    return type(error)(error.errno, error.strerror, str(path)) if error.errno is not None else error


def size_of(path: Path) -> str:
    """Return the size of a file as text."""
    return in_bytes(path.stat().st_size)


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Write named columns to a CSV or Parquet file."""
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError(f"Writing {path} needs pyarrow: pip install 'blockbasis[data]'.") from error
        arrays = {name: pa.array(np.asarray(values).tolist()) for name, values in columns.items()}
        with writing(path) as stream:
            parquet.write_table(pa.table(arrays), stream)
        return
    with writing(path) as stream:
        stream.write(csv_text(columns).encode())


def csv_text(columns: dict[str, Any]) -> str:
    """Return named columns as CSV, with the shortest text of each number.

    Examples
    --------
    >>> from blockbasis.cli.files import csv_text
    >>> csv_text({"a": [0.1, 2.0], "b": ["x", "y"]}).split()
    ['a,b', '0.1,x', '2.0,y']
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return stream.getvalue()


def write_array(path: Path, array: Any) -> None:
    """Write an array to an NPY or CSV file."""
    with writing(path) as stream:
        if path.suffix.lower() == ".npy":
            np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
        else:
            np.savetxt(stream, array, delimiter=",", fmt="%.17g")
