"""Where data sets are kept, how they are written there, and how it is known that they are what they should be."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from blockbasis._utils.files import replacing
from blockbasis._utils.typing import FloatArray

#: Names of the environment variables.
DATA_HOME = "BLOCKBASIS_DATA"
CACHE_HOME = "BLOCKBASIS_CACHE"
#: Rows that are turned into bytes at a time.
_CHUNK = 65_536


class DatasetError(OSError):
    """A data set that is not at hand and cannot be had, or a file that is not the data set it should be."""


def cache_directory() -> Path:
    """Directory of what was downloaded: ``BLOCKBASIS_CACHE``, or the platform's place for caches.

    Returns
    -------
    Path
        It need not exist.

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
    # The XDG rules have relative paths ignored.
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "blockbasis"


def digest(X: FloatArray, y: FloatArray) -> str:
    """SHA-256 of the values as float64 in little-endian bytes, whatever the types they are stored in."""
    total = hashlib.sha256()
    for array in (X, y):
        total.update(f"{array.shape}".encode())
        for start in range(0, len(array), _CHUNK):
            # Adding zero makes one zero of the two signed ones.
            total.update((array[start : start + _CHUNK].astype("<f8", order="C") + 0).tobytes())
    return total.hexdigest()


def reason(error: Exception) -> str:
    """What an error says, as the end of a sentence of our own."""
    return f"{str(error).rstrip('.') or type(error).__name__}."


@contextmanager
def reading(path: Path, what: str, failure: type[Exception]) -> Iterator[BinaryIO]:
    """A stream of a file of NumPy's; whatever goes wrong with its bytes is a ``failure`` to be ``what`` they should."""
    try:
        # A stream of our own, because numpy leaves its file open when it is no archive.
        with path.open("rb") as stream:
            yield stream
    except Exception as error:  # noqa: BLE001 (whatever zipfile, zlib, tokenize and numpy make of bytes that are damaged)
        raise failure(f"{path} is not a whole {what}: {reason(error)}") from error


def read_arrays(path: Path) -> tuple[FloatArray, FloatArray]:
    """X and y of an npz file.

    Raises
    ------
    DatasetError
        When the file is not a whole archive with both.
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
    """Write X and y to an npz file, whole or not at all; whole numbers take two bytes where they fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        np.savez_compressed(stream, X=_compact(X), y=_compact(y))


def _compact(array: FloatArray) -> FloatArray:
    limits = np.iinfo(np.int16)
    if array.min() < limits.min or array.max() > limits.max:
        return array
    short = array.astype(np.int16)
    return short if (short == array).all() else array
