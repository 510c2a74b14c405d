"""Save and load factorizations and estimators as versioned files without pickle.

`save` replaces a file atomically. `load` detects truncated and altered files by their digest, and forged files by
checks of the shapes and values of all arrays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.sparse import csr_array

from blockbasis._utils.files import replacing
from blockbasis._utils.typing import FloatArray
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.kernels.description import describe_kernel as describe_kernel
from blockbasis.kernels.description import restored_kernel
from blockbasis.operators.archive import FORMAT as FORMAT
from blockbasis.operators.archive import VERSION as VERSION
from blockbasis.operators.archive import StorageError as StorageError
from blockbasis.operators.archive import read_archive, write_archive
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import Cutoff, InnerMatrix, Panel
from blockbasis.operators.row_blocks import RowBlocks
from blockbasis.operators.structure import (
    check_basis_size,
    check_extensions,
    check_inner,
    check_partition,
    check_row_blocks,
    integers,
    numbers,
    require,
)
from blockbasis.partition import Partition

#: Number of points at which the values of a user's kernel function are saved.
_PROBES = 4
#: Relative difference of kernel values up to which two functions count as the same.
_VALUE_RTOL = 1e-5


class MismatchError(ValueError):
    """Error of a kernel given to `load` that the file does not need, or that differs from the saved one."""


class Storable(Protocol):
    """Interface of the classes that `storable` registers for `save` and `load`."""

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Return JSON-serializable metadata and named arrays, from which `restored` creates an equal object."""

    @classmethod
    def restored(cls, meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> Any:
        """Return the saved object; ``kernel`` is the user's function that `load` got, or None."""


S = TypeVar("S", bound=Storable)
R = TypeVar("R", Cutoff, ErrorEstimate)

_STORABLE: dict[str, type[Storable]] = {}


def storable(cls: type[S]) -> type[S]:
    """Register a class, under its name, for `save` and `load`; a class decorator."""
    _STORABLE[cls.__name__] = cls
    return cls


def save(A: Any, path: str | os.PathLike[str]) -> None:
    """Write a factorization or a fitted estimator to one file.

    The file is replaced atomically: after a crash ``path`` has its previous contents. A user's kernel function is not
    saved; it must be given to `load`.

    Parameters
    ----------
    A : BlockBasis, CrossBlockBasis, or a fitted estimator of the package
        Object to save.
    path : str or path-like
        Path of the file.

    Raises
    ------
    TypeError
        If A is of another type.

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
    with replacing(path) as stream:
        write_archive(stream, meta, arrays)


def load(path: str | os.PathLike[str], *, kernel: Any = None) -> Any:
    """Read a factorization or an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path-like
        Path of the file.
    kernel : Kernel or callable, default=None
        The user's kernel function, if the object was created with one. An estimator requires it; a factorization
        requires it for `BlockBasis.extend` only. It must be None for other files.

    Returns
    -------
    BlockBasis, CrossBlockBasis or estimator
        The saved object.

    Raises
    ------
    StorageError
        If the file holds no such object, is truncated or altered, or has a newer version.
    ValueError
        If ``kernel`` is given for a file that does not need it, or differs from the saved function.

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
    if kernel is not None:
        as_kernel(kernel, caller="load")
    meta, arrays = read_archive(path)
    try:
        return _restore(meta, arrays, kernel)
    except MismatchError:
        raise
    except StorageError as error:
        raise StorageError(f"{os.fspath(path)} cannot be restored: {error}.") from error
    except Exception as error:  # noqa: BLE001 (invalid metadata raise many errors)
        raise StorageError(f"{os.fspath(path)} cannot be restored: {type(error).__name__}, {error}.") from error


# --- metadata and arrays of factorizations ---------------------------------------------------------------------------


def _describe(A: Any) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    if isinstance(A, BlockBasis):
        meta, arrays = describe_symmetric(A)
    else:
        meta, arrays = _describe_cross(A) if isinstance(A, CrossBlockBasis) else A.describe()
    return {"kind": type(A).__name__, **meta}, arrays


def _restore(meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> Any:
    kind = meta["kind"]
    if kind in _STORABLE:
        return _STORABLE[kind].restored(meta, arrays, kernel)
    require(kind in (BlockBasis.__name__, CrossBlockBasis.__name__), "the kind", f"a known class, and is {kind!r}")
    if kind == BlockBasis.__name__:
        return restore_symmetric(meta, arrays, kernel)
    if kernel is not None:
        raise MismatchError(useless_kernel("a CrossBlockBasis, which evaluates no kernel", kernel))
    return _restore_cross(meta, arrays)


def describe_symmetric(A: BlockBasis) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the metadata and the arrays of a factorization."""
    arrays = {**basis_arrays(A.basis), **_inner_arrays(A.inner), **_extension_arrays(A.extensions)}
    if A.diagonal_part is not None:
        arrays["diagonal"] = A.diagonal_part
    meta = {
        "kernel": describe_kernel(A.kernel),
        "diagonal": A.diagonal_part is not None,
        "entries": asdict(A.entries),
        "cutoff": None if A.cutoff is None else asdict(A.cutoff),
        "error_estimate": None if A.error_estimate is None else asdict(A.error_estimate),
    }
    if A.kernel is not None and meta["kernel"] is None:
        meta["function"] = function_record(A.kernel, A.extensions[0].points)
    return meta, arrays


def restore_symmetric(meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> BlockBasis:
    """Return the saved factorization; ``kernel`` is a user's function or None."""
    basis = restore_basis(arrays)
    inner = _restore_inner(arrays, basis.partition.n_clusters, symmetric=True)
    check_inner(inner, basis, basis)
    extensions = _restore_extensions(arrays, basis)
    check_extensions(extensions, basis)
    require(
        meta.get("diagonal", "diagonal" in arrays) is ("diagonal" in arrays),
        "diagonal",
        "present if and only if the metadata say so",
    )
    if "diagonal" in arrays:
        numbers(arrays["diagonal"], "diagonal", (basis.partition.n_points,))
    own = restore_kernel(meta["kernel"], kernel)
    if kernel is not None and "function" in meta:
        check_function(meta["function"], own, extensions[0].points)
    return BlockBasis(
        kernel=own,
        basis=basis,
        inner=inner,
        diagonal_part=arrays.get("diagonal"),
        extensions=extensions,
        entries=_restore_entries(meta["entries"]),
        cutoff=_restore_record(Cutoff, meta["cutoff"]),
        error_estimate=_restore_record(ErrorEstimate, meta["error_estimate"]),
    )


def _restore_entries(saved: dict[str, Any]) -> Entries:
    require(all(type(count) is int and count >= 0 for count in saved.values()), "entries", "counts")
    return Entries(**saved)


def _restore_record(cls: type[R], saved: dict[str, Any] | None) -> R | None:
    """Return a saved dataclass of nonnegative numbers, or None."""
    if saved is None:
        return None
    for name, value in saved.items():
        require(isinstance(value, (bool, int, float)) and value >= 0, name, f"a number of at least 0, and is {value!r}")
    return cls(**saved)


def _describe_cross(B: CrossBlockBasis) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    bases = {**basis_arrays(B.row_basis, "rows."), **basis_arrays(B.column_basis, "columns.")}
    meta = {
        "symmetric": B.inner.symmetric,
        "entries": None if B.entries is None else asdict(B.entries),
        "error_estimate": None if B.error_estimate is None else asdict(B.error_estimate),
    }
    return meta, {**bases, **_inner_arrays(B.inner), **_near_arrays(B.near), **_single_arrays(B.single)}


def _restore_cross(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> CrossBlockBasis:
    rows, columns = restore_basis(arrays, "rows."), restore_basis(arrays, "columns.")
    inner = _restore_inner(arrays, rows.partition.n_clusters, symmetric=meta["symmetric"])
    check_inner(inner, rows, columns)
    entries = None if meta["entries"] is None else _restore_entries(meta["entries"])
    estimate = _restore_record(ErrorEstimate, meta.get("error_estimate"))
    near = _restore_near(arrays, rows, columns)
    return CrossBlockBasis(rows, inner, columns, entries, estimate, near, _restore_single(arrays, rows, columns))


def _near_arrays(near: RowBlocks | None) -> dict[str, FloatArray]:
    if near is None:
        return {}
    return {
        "near.sizes": np.array([len(rows) for rows in near.rows]),
        "near.rows": np.concatenate(near.rows),
        "near.values": np.concatenate([block.ravel() for block in near.blocks]),
    }


def _restore_near(arrays: dict[str, FloatArray], rows: BlockDiagonal, columns: BlockDiagonal) -> RowBlocks | None:
    if not any(name.startswith("near.") for name in arrays):
        return None
    sizes = integers(arrays["near.sizes"], "near.sizes", (len(columns.ranks),))
    parts = _parts(integers(arrays["near.rows"], "near.rows", (None,)), sizes, "near.rows")
    shapes = list(zip(sizes.tolist(), columns.ranks.tolist(), strict=True))
    near = RowBlocks(rows.partition.n_points, parts, _reshaped(arrays, "near.values", shapes))
    check_row_blocks(near, columns.dtype)
    return near


def _single_arrays(single: csr_array | None) -> dict[str, FloatArray]:
    if single is None:
        return {}
    return {
        "single.starts": single.indptr.astype(np.int64),
        "single.columns": single.indices.astype(np.int64),
        "single.values": single.data,
    }


def _restore_single(arrays: dict[str, FloatArray], rows: BlockDiagonal, columns: BlockDiagonal) -> csr_array | None:
    if not any(name.startswith("single.") for name in arrays):
        return None
    shape = rows.partition.n_points, columns.partition.n_points
    starts = integers(arrays["single.starts"], "single.starts", (shape[0] + 1,))
    values = numbers(arrays["single.values"], "single.values", (None,), columns.dtype)
    rising = starts[0] == 0 and starts[-1] == len(values) and (np.diff(starts) >= 0).all()
    require(rising, "single.starts", f"ascending from 0 to {len(values)}")
    indices = integers(arrays["single.columns"], "single.columns", values.shape)
    require(indices.max(initial=-1) < shape[1], "single.columns", f"below {shape[1]}")
    return csr_array((values, indices, starts), shape=shape)


def basis_arrays(basis: BlockDiagonal, prefix: str = "") -> dict[str, FloatArray]:
    """Arrays of a basis and of its partition, by name."""
    partition = {f"{prefix}partition.{f.name}": getattr(basis.partition, f.name) for f in fields(Partition)}
    return {**partition, f"{prefix}basis.ranks": basis.ranks, f"{prefix}basis.values": basis.values}


def restore_basis(arrays: dict[str, FloatArray], prefix: str = "") -> BlockDiagonal:
    """Return the basis that `basis_arrays` has described, after a check of its arrays."""
    partition = Partition(*(arrays[f"{prefix}partition.{f.name}"] for f in fields(Partition)))
    check_partition(partition, prefix)
    for f in fields(Partition):
        getattr(partition, f.name).setflags(write=False)
    if f"{prefix}basis.values" not in arrays:  # version 1
        return BlockDiagonal.from_blocks(partition, _numbered(arrays, f"{prefix}basis", partition.n_clusters))
    values = numbers(arrays[f"{prefix}basis.values"], f"{prefix}basis.values", (None,))
    check_basis_size(arrays[f"{prefix}basis.ranks"], partition, len(values), prefix)
    return BlockDiagonal(partition, arrays[f"{prefix}basis.ranks"], values)


def _inner_arrays(inner: InnerMatrix) -> dict[str, FloatArray]:
    arrays = {
        "inner.row_offsets": inner.row_offsets,
        "inner.column_offsets": inner.column_offsets,
        "inner.counts": np.array([len(panel.columns) for panel in inner.panels]),
        "inner.kept": np.concatenate([panel.columns for panel in inner.panels]),
        "inner.values": np.concatenate([panel.values.ravel() for panel in inner.panels]),
    }
    if not inner.trimmed:
        return arrays
    return arrays | {
        "inner.rows": np.array([panel.row for panel in inner.panels]),
        "inner.heights": np.array([panel.height for panel in inner.panels]),
        "inner.widths": np.concatenate([panel.widths for panel in inner.panels]),
    }


def _restore_inner(arrays: dict[str, FloatArray], n_rows: int, *, symmetric: bool) -> InnerMatrix:
    row_offsets, column_offsets = arrays["inner.row_offsets"], arrays["inner.column_offsets"]
    if "inner.values" not in arrays:  # version 1
        kept, panels = _numbered(arrays, "inner.kept", n_rows), _numbered(arrays, "inner.panel", n_rows)
        return InnerMatrix.of_whole_blocks(row_offsets, column_offsets, kept, panels, symmetric=symmetric)
    ranks, widths = np.diff(row_offsets), np.diff(column_offsets)
    columns = integers(arrays["inner.kept"], "inner.kept", (None,))
    require(columns.max(initial=-1) < len(widths), "inner.kept", f"below {len(widths)}")
    if "inner.rows" not in arrays:  # whole blocks, one panel for each row of blocks
        arrays = {**arrays, "inner.rows": np.arange(n_rows), "inner.heights": ranks, "inner.widths": widths[columns]}
    rows = integers(arrays["inner.rows"], "inner.rows", (None,))
    require(rows.max(initial=-1) < n_rows, "inner.rows", f"below {n_rows}")
    heights, counts = (integers(arrays[f"inner.{name}"], f"inner.{name}", rows.shape) for name in ("heights", "counts"))
    kept = _parts(columns, counts, "inner.kept")
    own = _parts(integers(arrays["inner.widths"], "inner.widths", columns.shape), counts, "inner.widths")
    shapes = [(int(height), int(each.sum())) for height, each in zip(heights, own, strict=True)]
    values = _reshaped(arrays, "inner.values", shapes)
    parts = tuple(Panel(int(row), *each) for row, *each in zip(rows, kept, own, values, strict=True))
    return InnerMatrix(row_offsets, column_offsets, parts, symmetric)


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
        sizes = integers(arrays["extension.sizes"], "extension.sizes", (len(basis.ranks),))
        points = _parts(arrays["extension.points"], sizes, "extension.points")
        shapes = list(zip(sizes.tolist(), basis.ranks.tolist(), strict=True))
        coefficients = _reshaped(arrays, "extension.coefficients", shapes)
    return tuple(Extension(own, weights) for own, weights in zip(points, coefficients, strict=True))


def _numbered(arrays: dict[str, FloatArray], name: str, count: int) -> tuple[FloatArray, ...]:
    return tuple(arrays[f"{name}.{i}"] for i in range(count))


def _parts(array: FloatArray, sizes: FloatArray, name: str) -> tuple[FloatArray, ...]:
    """Split an array into consecutive parts of the given sizes."""
    require(array.ndim > 0 and sum(sizes.tolist()) == len(array), name, "as long as its parts")
    return tuple(np.split(array, np.cumsum(sizes)[:-1]))


def _reshaped(arrays: dict[str, FloatArray], name: str, shapes: Sequence[tuple[int, int]]) -> tuple[FloatArray, ...]:
    """Split a flat array into consecutive matrices of the given shapes."""
    values = numbers(arrays[name], name, (None,))
    parts = _parts(values, np.array([height * width for height, width in shapes]), name)
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def restore_kernel(saved: dict[str, Any] | None, given: Any) -> Kernel | None:
    """Return the saved kernel, or the given kernel if none was saved."""
    if saved is None:
        return None if given is None else as_kernel(given, caller="load")
    kernel = restored_kernel(saved)
    if given is not None:
        raise MismatchError(useless_kernel(f"a factorization with its kernel, {kernel}", given))
    return kernel


def useless_kernel(holds: str, given: Any) -> str:
    """Return the error message about a kernel that the file does not need."""
    return (
        "The 'kernel' parameter of load must be left out unless the saved object was made with a user's kernel "
        f"function: this file holds {holds}. Got {given!r} instead."
    )


# --- kernel functions of the user ------------------------------------------------------------------------------------


def function_record(kernel: Kernel, points: FloatArray) -> dict[str, Any]:
    """Return the name of a kernel function and some of its values, by which `load` recognizes the function."""
    return {"name": _name_of(kernel), "values": _probed(kernel, points)}


def check_function(record: dict[str, Any], kernel: Kernel | None, points: FloatArray) -> None:
    """Raise a MismatchError unless a kernel given to `load` has the values of the saved kernel."""
    assert kernel is not None
    expected, found = np.array(record["values"], dtype=np.float64), np.array(_probed(kernel, points))
    if not (expected.shape == found.shape and np.allclose(found, expected, rtol=_VALUE_RTOL, atol=0)):
        raise MismatchError(
            f"The 'kernel' parameter of load must be the function that the file was saved with, {record['name']}. Got "
            f"{_name_of(kernel)}, which has different values, instead."
        )


def _probed(kernel: Kernel, points: FloatArray) -> list[list[float]]:
    some = points[:_PROBES]
    values: list[list[float]] = kernel.core.block(some, some).astype(np.float64).tolist()
    return values


def _name_of(kernel: Kernel) -> str:
    function = kernel.function if isinstance(kernel, CallableKernel) else kernel
    return str(getattr(function, "__qualname__", type(function).__qualname__))
