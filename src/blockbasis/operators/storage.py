"""Save and load: one file, versioned, without pickle, written whole or not at all.

The file is a zip archive of ``meta.json`` and plain ``.npy`` arrays. The metadata holds the format's version, what the
arrays are, and a digest over all of them, so that a truncated or altered file is refused and not half-read.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Protocol, TypeVar

import numpy as np

from blockbasis._files import replacing
from blockbasis._typing import FloatArray
from blockbasis.kernels import Kernel, as_kernel
from blockbasis.kernels.description import describe_kernel as describe_kernel
from blockbasis.kernels.description import restored_kernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import Cutoff, InnerMatrix
from blockbasis.partition import Partition

FORMAT = "blockbasis"
#: Version 1 had one array for each block of U, each panel of C and each extension; version 2 has one for all of them.
VERSION = 2
_META = "meta.json"


class StorageError(ValueError):
    """A file that cannot be read as a factorization or an estimator."""


class Storable(Protocol):
    """What `save` takes besides factorizations: a class marked with `storable`."""

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """JSON-ready metadata and named arrays, from which `restored` makes an equal object."""

    @classmethod
    def restored(cls, meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> Any:
        """The object again; ``kernel`` is a user's own function, given to `load`."""


S = TypeVar("S", bound=Storable)

_STORABLE: dict[str, type[Storable]] = {}


def storable(cls: type[S]) -> type[S]:
    """Class decorator: `save` and `load` know the class by its name."""
    _STORABLE[cls.__name__] = cls
    return cls


def save(A: Any, path: str | os.PathLike[str]) -> None:
    """Write a factorization or a fitted estimator to one file.

    The file appears at ``path`` in one step: a crash leaves whatever was there before. A kernel that is a user's own
    function is not written; `load` takes it again.

    Parameters
    ----------
    A : BlockBasis, CrossBlockBasis, or a fitted estimator of the package
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
    if not isinstance(A, (BlockBasis, CrossBlockBasis)) and _STORABLE.get(type(A).__name__) is not type(A):
        raise TypeError(
            "The 'A' parameter of save must be a BlockBasis, a CrossBlockBasis or an estimator of the package. "
            f"Got {type(A).__name__} instead."
        )
    meta, arrays = _describe(A)
    meta["digest"] = _digest(meta, arrays)
    with replacing(path) as stream:
        _write_archive(stream, meta, arrays)


def load(path: str | os.PathLike[str], *, kernel: Any = None) -> Any:
    """Read a factorization or an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path-like
    kernel : Kernel or callable, default=None
        The user's own function: when a factorization was made with one and is to be extended, and always for an
        estimator that was. Refused for a file that needs none.

    Returns
    -------
    BlockBasis, CrossBlockBasis or estimator
        As it was saved.

    Raises
    ------
    StorageError
        When the file holds none of these, is truncated or altered, or comes from a newer version.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.bbf"
    ...     bb.save(bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0), path)
    ...     A = bb.load(path)
    >>> A.kernel
    Gaussian(bandwidth=1.0)
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
    with archive.open(f"{name}.npy") as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _digest(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()


# --- what a factorization is made of ---------------------------------------------------------------------------------


def _describe(A: Any) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    if isinstance(A, BlockBasis):
        meta, arrays = describe_symmetric(A)
    else:
        meta, arrays = _describe_cross(A) if isinstance(A, CrossBlockBasis) else A.describe()
    common = {"format": FORMAT, "version": VERSION, "kind": type(A).__name__, "arrays": list(arrays)}
    return {**common, **meta}, arrays


def _restore(meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> Any:
    if meta["kind"] == BlockBasis.__name__:
        return restore_symmetric(meta, arrays, kernel)
    if meta["kind"] in _STORABLE:
        return _STORABLE[meta["kind"]].restored(meta, arrays, kernel)
    if kernel is not None:
        raise ValueError(useless_kernel("a CrossBlockBasis, which evaluates no kernel", kernel))
    return _restore_cross(meta, arrays)


def describe_symmetric(A: BlockBasis) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Metadata and arrays of a factorization."""
    arrays = {**_basis_arrays(A.basis), **_inner_arrays(A.inner), **_extension_arrays(A.extensions)}
    if A.diagonal_part is not None:
        arrays["diagonal"] = A.diagonal_part
    meta = {
        "kernel": describe_kernel(A.kernel),
        "entries": asdict(A.entries),
        "cutoff": None if A.cutoff is None else asdict(A.cutoff),
        "error_estimate": None if A.error_estimate is None else asdict(A.error_estimate),
    }
    return meta, arrays


def restore_symmetric(meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> BlockBasis:
    """The factorization again; ``kernel`` is a user's own function, or None."""
    basis = _restore_basis(arrays)
    return BlockBasis(
        kernel=restore_kernel(meta["kernel"], kernel),
        basis=basis,
        inner=_restore_inner(arrays, basis.partition.n_clusters, symmetric=True),
        diagonal_part=arrays.get("diagonal"),
        extensions=_restore_extensions(arrays, basis),
        entries=Entries(**meta["entries"]),
        cutoff=None if meta["cutoff"] is None else Cutoff(**meta["cutoff"]),
        error_estimate=None if meta["error_estimate"] is None else ErrorEstimate(**meta["error_estimate"]),
    )


def _describe_cross(B: CrossBlockBasis) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    bases = {**_basis_arrays(B.row_basis, "rows."), **_basis_arrays(B.column_basis, "columns.")}
    meta = {"symmetric": B.inner.symmetric, "entries": None if B.entries is None else asdict(B.entries)}
    return meta, {**bases, **_inner_arrays(B.inner)}


def _restore_cross(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> CrossBlockBasis:
    rows, columns = _restore_basis(arrays, "rows."), _restore_basis(arrays, "columns.")
    inner = _restore_inner(arrays, rows.partition.n_clusters, symmetric=meta["symmetric"])
    return CrossBlockBasis(rows, inner, columns, None if meta["entries"] is None else Entries(**meta["entries"]))


def _basis_arrays(basis: BlockDiagonal, prefix: str = "") -> dict[str, FloatArray]:
    partition = {f"{prefix}partition.{f.name}": getattr(basis.partition, f.name) for f in fields(Partition)}
    return {**partition, f"{prefix}basis.ranks": basis.ranks, f"{prefix}basis.values": basis.values}


def _restore_basis(arrays: dict[str, FloatArray], prefix: str = "") -> BlockDiagonal:
    partition = Partition(*(arrays[f"{prefix}partition.{f.name}"] for f in fields(Partition)))
    for f in fields(Partition):
        getattr(partition, f.name).setflags(write=False)
    if f"{prefix}basis.values" not in arrays:  # version 1
        return BlockDiagonal.from_blocks(partition, _numbered(arrays, f"{prefix}basis", partition.n_clusters))
    return BlockDiagonal(partition, arrays[f"{prefix}basis.ranks"], arrays[f"{prefix}basis.values"])


def _inner_arrays(inner: InnerMatrix) -> dict[str, FloatArray]:
    return {
        "inner.row_offsets": inner.row_offsets,
        "inner.column_offsets": inner.column_offsets,
        "inner.counts": np.array([len(kept) for kept in inner.kept]),
        "inner.kept": np.concatenate(inner.kept),
        "inner.values": np.concatenate([panel.ravel() for panel in inner.panels]),
    }


def _restore_inner(arrays: dict[str, FloatArray], n_rows: int, *, symmetric: bool) -> InnerMatrix:
    row_offsets, column_offsets = arrays["inner.row_offsets"], arrays["inner.column_offsets"]
    if "inner.values" not in arrays:  # version 1
        kept = _numbered(arrays, "inner.kept", n_rows)
        return InnerMatrix(row_offsets, column_offsets, kept, _numbered(arrays, "inner.panel", n_rows), symmetric)
    kept = _parts(arrays["inner.kept"], arrays["inner.counts"])
    heights, widths = np.diff(row_offsets), np.diff(column_offsets)
    shapes = [(int(height), int(widths[own].sum())) for height, own in zip(heights, kept, strict=True)]
    return InnerMatrix(row_offsets, column_offsets, kept, _reshaped(arrays["inner.values"], shapes), symmetric)


def _extension_arrays(extensions: Sequence[Extension]) -> dict[str, FloatArray]:
    return {
        "extension.sizes": np.array([len(extension.points) for extension in extensions]),
        "extension.points": np.concatenate([extension.points for extension in extensions]),
        "extension.coefficients": np.concatenate([extension.coefficients.ravel() for extension in extensions]),
    }


def _restore_extensions(arrays: dict[str, FloatArray], basis: BlockDiagonal) -> tuple[Extension, ...]:
    if "extension.sizes" not in arrays:  # version 1
        k = basis.partition.n_clusters
        points, coefficients = (_numbered(arrays, f"extension.{name}", k) for name in ("points", "coefficients"))
    else:
        sizes = arrays["extension.sizes"]
        points = _parts(arrays["extension.points"], sizes)
        shapes = list(zip(sizes.tolist(), basis.ranks.tolist(), strict=True))
        coefficients = _reshaped(arrays["extension.coefficients"], shapes)
    return tuple(Extension(own, weights) for own, weights in zip(points, coefficients, strict=True))


def _numbered(arrays: dict[str, FloatArray], name: str, count: int) -> tuple[FloatArray, ...]:
    return tuple(arrays[f"{name}.{i}"] for i in range(count))


def _parts(array: FloatArray, sizes: FloatArray) -> tuple[FloatArray, ...]:
    """Consecutive rows of an array, in parts of the given sizes."""
    return tuple(np.split(array, np.cumsum(sizes)[:-1]))


def _reshaped(values: FloatArray, shapes: Sequence[tuple[int, int]]) -> tuple[FloatArray, ...]:
    """Consecutive parts of a flat array, each as a matrix."""
    parts = _parts(values, np.array([height * width for height, width in shapes]))
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def restore_kernel(saved: dict[str, Any] | None, given: Any) -> Kernel | None:
    """The kernel that was saved, or the one given where none was."""
    if saved is None:
        return None if given is None else as_kernel(given, caller="load")
    kernel = restored_kernel(saved)
    if given is not None:
        raise ValueError(useless_kernel(f"a factorization with its kernel, {kernel}", given))
    return kernel


def useless_kernel(holds: str, given: Any) -> str:
    """Complaint about a kernel that a file does not need."""
    return (
        "The 'kernel' parameter of load must be left out, except for what was made with a user's own function: this "
        f"file holds {holds}. Got {given!r} instead."
    )
