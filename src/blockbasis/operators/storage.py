"""Save and load factorizations and estimators as versioned files without pickle.

`save` replaces a file atomically. `load` detects truncated and altered files by their digest, and forged files by
checks of the shapes and values of all arrays.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from blockbasis._utils.files import replacing
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.kernels.base import is_users
from blockbasis.kernels.description import describe_kernel as describe_kernel
from blockbasis.kernels.description import restored_kernel
from blockbasis.operators.archive import FORMAT as FORMAT
from blockbasis.operators.archive import VERSION as VERSION
from blockbasis.operators.archive import StorageError as StorageError
from blockbasis.operators.archive import read_archive, write_archive
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.inner import Cutoff
from blockbasis.operators.stored_arrays import basis_arrays as basis_arrays
from blockbasis.operators.stored_arrays import (
    extension_arrays,
    inner_arrays,
    near_arrays,
    restore_extensions,
    restore_inner,
    restore_near,
    restore_single,
    single_arrays,
)
from blockbasis.operators.stored_arrays import restore_basis as restore_basis
from blockbasis.operators.structure import check_extensions, check_inner, numbers, require

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

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

    The file is replaced atomically: after a crash ``path`` has its previous contents. A user's kernel function, or
    the class of a user's kernel, is not saved; it must be given to `load`.

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
        The user's kernel function, or a kernel of the user's class, if the object was created with one. An estimator
        requires it; a factorization requires it for `BlockBasis.extend` only. It must be None for other files. The
        bandwidths of an estimator's kernel are those of the file.

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
    arrays = {**basis_arrays(A.basis), **inner_arrays(A.inner), **extension_arrays(A.extensions)}
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
    inner = restore_inner(arrays, basis.partition.n_clusters, symmetric=True)
    check_inner(inner, basis, basis)
    extensions = restore_extensions(arrays, basis)
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
    return meta, {**bases, **inner_arrays(B.inner), **near_arrays(B.near), **single_arrays(B.single)}


def _restore_cross(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> CrossBlockBasis:
    rows, columns = restore_basis(arrays, "rows."), restore_basis(arrays, "columns.")
    inner = restore_inner(arrays, rows.partition.n_clusters, symmetric=meta["symmetric"])
    check_inner(inner, rows, columns)
    entries = None if meta["entries"] is None else _restore_entries(meta["entries"])
    estimate = _restore_record(ErrorEstimate, meta.get("error_estimate"))
    near = restore_near(arrays, rows, columns)
    return CrossBlockBasis(rows, inner, columns, entries, estimate, near, restore_single(arrays, rows, columns))


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
    kernel = next((leaf for leaf in kernel.leaves() if is_users(leaf)), kernel)
    function = kernel.function if isinstance(kernel, CallableKernel) else kernel
    return str(getattr(function, "__qualname__", type(function).__qualname__))
