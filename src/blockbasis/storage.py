"""Save and load: one file, versioned, without pickle, written whole or not at all.

The file is a zip archive of ``meta.json`` and plain ``.npy`` arrays. The metadata holds the format's version, what the
arrays are, and a digest over all of them, so that a truncated or altered file is refused and not half-read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from blockbasis._typing import FloatArray
from blockbasis.accuracy import ErrorEstimate
from blockbasis.basis import BlockDiagonal, Extension
from blockbasis.inner import Cutoff, InnerMatrix
from blockbasis.kernels import RADIAL_KERNELS, Kernel, RadialKernel, as_kernel, kernel_parameters
from blockbasis.operator import BlockBasis, Entries
from blockbasis.partition import Partition

FORMAT = "blockbasis"
VERSION = 1
_META = "meta.json"


class StorageError(ValueError):
    """A file that cannot be read as a factorization."""


def save(A: BlockBasis, path: str | os.PathLike[str]) -> None:
    """Write a factorization to one file.

    The file appears at ``path`` in one step: a crash leaves whatever was there before. A kernel that is a user's own
    function is not written; `load` takes it again.

    Parameters
    ----------
    A : BlockBasis
    path : str or path-like

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.bbf"
    ...     bb.save(A, path)
    ...     B = bb.load(path)
    >>> bool((A.todense() == B.todense()).all())
    True
    """
    if not isinstance(A, BlockBasis):
        raise TypeError(f"The 'A' parameter of save must be a BlockBasis. Got {type(A).__name__} instead.")
    meta, arrays = _describe(A)
    meta["digest"] = _digest(meta, arrays)
    target = Path(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            _write_archive(stream, meta, arrays)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str], *, kernel: Any = None) -> BlockBasis:
    """Read a factorization that `save` wrote.

    Parameters
    ----------
    path : str or path-like
    kernel : Kernel or callable, default=None
        The user's own function, when the factorization was made with one and is to be extended.

    Returns
    -------
    BlockBasis

    Raises
    ------
    StorageError
        When the file is not a factorization, is truncated or altered, or comes from a newer version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            meta = json.loads(archive.read(_META))
            _check_format(meta, path)
            arrays = {name: _read_array(archive, name) for name in meta["arrays"]}
    except (FileNotFoundError, IsADirectoryError, PermissionError, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever zipfile, json and numpy make of bytes that are not ours)
        raise StorageError(f"{os.fspath(path)} is not a whole blockbasis file: {error}.") from error
    if meta.get("digest") != _digest({key: value for key, value in meta.items() if key != "digest"}, arrays):
        raise StorageError(f"{os.fspath(path)} was altered after it was written: its digest does not fit.")
    return _restore(meta, arrays, kernel)


def _check_format(meta: Any, path: Any) -> None:
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise StorageError(f"{os.fspath(path)} is not a blockbasis file.")
    if not isinstance(meta.get("version"), int) or meta["version"] > VERSION:
        raise StorageError(
            f"{os.fspath(path)} has format version {meta.get('version')}; this blockbasis reads up to {VERSION}. "
            "Install a newer blockbasis."
        )


# --- the archive -----------------------------------------------------------------------------------------------------


def _write_archive(stream: Any, meta: dict[str, Any], arrays: dict[str, FloatArray]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_META, json.dumps(meta))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _read_array(archive: zipfile.ZipFile, name: str) -> FloatArray:
    return np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)


def _digest(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()


# --- what a factorization is made of ---------------------------------------------------------------------------------


def _describe(A: BlockBasis) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    partition, inner = A.partition, A.inner
    arrays: dict[str, FloatArray] = {f"partition.{f.name}": getattr(partition, f.name) for f in fields(partition)}
    arrays["inner.offsets"] = inner.row_offsets
    for i in range(A.n_clusters):
        arrays[f"basis.{i}"] = A.bases[i]
        arrays[f"inner.kept.{i}"] = inner.kept[i]
        arrays[f"inner.panel.{i}"] = inner.panels[i]
        arrays[f"extension.points.{i}"] = A.extensions[i].points
        arrays[f"extension.coefficients.{i}"] = A.extensions[i].coefficients
    if A.diagonal_part is not None:
        arrays["diagonal"] = A.diagonal_part
    kernel = None
    if isinstance(A.kernel, RadialKernel) and RADIAL_KERNELS.get(type(A.kernel).__name__) is type(A.kernel):
        kernel = {"name": type(A.kernel).__name__, "parameters": kernel_parameters(A.kernel)}
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "arrays": list(arrays),
        "n_clusters": A.n_clusters,
        "kernel": kernel,
        "entries": asdict(A.entries),
        "cutoff": None if A.cutoff is None else asdict(A.cutoff),
        "error_estimate": None if A.error_estimate is None else asdict(A.error_estimate),
    }
    return meta, arrays


def _restore(meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> BlockBasis:
    clusters = range(meta["n_clusters"])
    partition = Partition(*(arrays[f"partition.{f.name}"] for f in fields(Partition)))
    for f in fields(Partition):
        getattr(partition, f.name).setflags(write=False)
    offsets = arrays["inner.offsets"]
    return BlockBasis(
        kernel=_restore_kernel(meta["kernel"], kernel),
        basis=BlockDiagonal(partition, tuple(arrays[f"basis.{i}"] for i in clusters)),
        inner=InnerMatrix(
            offsets,
            offsets,
            tuple(arrays[f"inner.kept.{i}"] for i in clusters),
            tuple(arrays[f"inner.panel.{i}"] for i in clusters),
            symmetric=True,
        ),
        diagonal_part=arrays.get("diagonal"),
        extensions=tuple(
            Extension(arrays[f"extension.points.{i}"], arrays[f"extension.coefficients.{i}"]) for i in clusters
        ),
        entries=Entries(**meta["entries"]),
        cutoff=None if meta["cutoff"] is None else Cutoff(**meta["cutoff"]),
        error_estimate=None if meta["error_estimate"] is None else ErrorEstimate(**meta["error_estimate"]),
    )


def _restore_kernel(saved: dict[str, Any] | None, given: Any) -> Kernel | None:
    if saved is not None:
        return RADIAL_KERNELS[saved["name"]](**saved["parameters"])
    return None if given is None else as_kernel(given, caller="load")
