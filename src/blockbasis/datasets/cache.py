"""Cache of data sets: its directory, its files and their checksums."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from blockbasis._utils.files import replacing

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Environment variables with the directories of the user's data sets and of the cache.
DATA_HOME = "BLOCKBASIS_DATA"
CACHE_HOME = "BLOCKBASIS_CACHE"
#: Number of rows that are converted to bytes at a time, which bounds the memory of a checksum.
_CHUNK = 65_536


class DatasetError(OSError):
    """Error of a data set that is missing and cannot be downloaded, or of a file with other contents than expected."""


def cache_directory() -> Path:
    """Return the directory of downloaded data sets.

    Returns
    -------
    Path
        Value of the environment variable ``BLOCKBASIS_CACHE``, or a folder in the cache directory of the platform. The
        directory may not exist.

    Examples
    --------
    >>> from blockbasis.datasets import cache_directory
    >>> cache_directory().is_absolute()
    True
    """
    named = os.environ.get(CACHE_HOME)
    if named:
        return Path(named).expanduser().absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "blockbasis" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "blockbasis"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires relative paths to be ignored.
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "blockbasis"


def data_digest(X: FloatArray, y: FloatArray, *, chunk: int = _CHUNK) -> str:
    """Return the SHA-256 checksum of X and y as little-endian float64, independent of their dtypes."""
    total = hashlib.sha256()
    for array in (X, y):
        total.update(f"{array.shape}".encode())
        for start in range(0, len(array), chunk):
            # Adding zero converts negative zeros to positive zeros.
            total.update((array[start : start + chunk].astype("<f8", order="C") + 0).tobytes())
    return total.hexdigest()


def reason(error: Exception) -> str:
    """Return the message of an error with a final period, to be appended to another message."""
    return f"{str(error).rstrip('.') or type(error).__name__}."


@contextmanager
def reading(path: Path, what: str, failure: type[Exception]) -> Iterator[BinaryIO]:
    """Context manager with the stream of a file; errors inside are raised as ``failure`` with the expected ``what``."""
    try:
        # numpy.load leaves a file open that is not an archive, but not a stream.
        with path.open("rb") as stream:
            yield stream
    except Exception as error:  # noqa: BLE001 (zipfile, zlib, tokenize and numpy raise many errors for damaged bytes)
        raise failure(f"{path} is not a complete {what}: {reason(error)}") from error


def read_arrays(path: Path) -> tuple[FloatArray, FloatArray]:
    """Read X and y from an npz file.

    Raises
    ------
    DatasetError
        If the file is not a complete archive with both arrays.
    """
    what = "npz file with arrays X and y"
    with reading(path, what, DatasetError) as stream, np.load(stream, allow_pickle=False) as archive:
        X, y = archive["X"], archive["y"]
    if X.ndim != 2 or y.shape != X.shape[:1] or X.dtype.kind not in "fiub" or y.dtype.kind not in "fiub":
        raise DatasetError(
            f"{path} must hold X, points by columns, and y, one number for each point. Got X of shape {X.shape} and "
            f"{X.dtype}, y of shape {y.shape} and {y.dtype} instead."
        )
    return X, y


def write_arrays(path: Path, X: FloatArray, y: FloatArray) -> None:
    """Write X and y to an npz file atomically; integers are stored as int16 if they fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        np.savez_compressed(stream, X=_compact(X), y=_compact(y))


def _compact(array: FloatArray) -> FloatArray:
    limits = np.iinfo(np.int16)
    if array.min() < limits.min or array.max() > limits.max:
        return array
    short = array.astype(np.int16)
    return short if (short == array).all() else array
