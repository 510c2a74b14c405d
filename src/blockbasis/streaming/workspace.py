"""Large arrays in a temporary file instead of memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from blockbasis.operators.block_diagonal import BlockDiagonal

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis


def workspace_array(
    directory: str | PathLike[str] | None, size: int, dtype: npt.DTypeLike, *, caller: str = "factorize"
) -> FloatArray:
    """Return an array of ``size`` entries, in memory (None) or in a temporary file of a directory.

    The file has no name where the system allows it, so that nothing is left of it after a crash. It disappears with the
    array.
    """
    if directory is None or size == 0:
        return np.empty(size, dtype=dtype)
    path = check_workspace(directory, caller=caller)
    n_bytes = size * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(dir=path) as file:  # the map keeps the file open
        try:
            _reserve(file.fileno(), n_bytes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"The workspace {path!r} has no room for {n_bytes / 1e9:.3g} GB: give another directory, or a larger "
                "tolerance.",
            ) from error
        return np.memmap(file, dtype=dtype, mode="r+", shape=(size,))


def moved(A: BlockBasis, directory: str | PathLike[str]) -> BlockBasis:
    """Return a factorization with U in a temporary file of a directory."""
    U = A.basis
    values = workspace_array(directory, len(U.values), U.dtype)
    values[...] = U.values
    release(values)
    return replace(A, basis=BlockDiagonal(U.partition, U.ranks, values).freeze())


def check_workspace(directory: str | PathLike[str], *, caller: str) -> str:
    """Return the path of a directory; raise a ValueError if there is none."""
    path = os.fspath(directory)
    if not os.path.isdir(path):
        raise ValueError(f"The 'workspace' parameter of {caller} must be an existing directory. Got {path!r} instead.")
    return path


def release(array: Any) -> None:
    """Remove the pages of an array in a file from the resident memory of the process; the data stay in the file."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    if array is not None and hasattr(array, "madvise"):
        array.madvise(mmap.MADV_DONTNEED)


def _reserve(descriptor: int, n_bytes: int) -> None:
    """Allocate the blocks of a file now: a full disk would otherwise end the process at a later write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, n_bytes)
    else:
        os.truncate(descriptor, n_bytes)
