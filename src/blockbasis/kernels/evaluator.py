"""Kernel matrix that is not stored: its blocks are evaluated on demand, and the evaluated entries are counted."""

from __future__ import annotations

import copy
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.tiling import ranges
from blockbasis.kernels.base import Kernel, diagonal_chunks, is_users
from blockbasis.kernels.function import CallableKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Index, IntArray

#: Rows of a strip when all entries are evaluated.
_SYMMETRIC_TILE = 256
#: Limits of k(x, x): squared Frobenius norms must neither overflow nor underflow.
_SCALES = {np.dtype(np.float64): (1e-100, 1e100), np.dtype(np.float32): (1e-12, 1e12)}
#: Points at which a kernel function is checked, and points that show the scale of its values.
_CHECK_SAMPLE = 64
_SCALE_SAMPLE = 16


class Counter:
    """Counter that several threads may increase."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def add(self, amount: int) -> None:
        with self._lock:
            self._value += amount

    @property
    def value(self) -> int:
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return Counter, ()  # another process counts from zero


class KernelMatrix:
    """Kernel matrix K(rows, columns) whose blocks are evaluated on demand.

    `block` and `diagonal` count the entries that a factorization evaluates; tests of complexity use the count.

    The points are mapped into the coordinates of the kernel once. The attributes ``rows`` and ``columns`` hold the
    mapped points, and ``kernel`` is the kernel of mapped points, without white noise: see `Kernel.core`.

    Parameters
    ----------
    kernel : Kernel
        Its white noise is in the diagonal of a symmetric matrix.
    rows : ndarray of shape (n, d)
    columns : ndarray of shape (m, d), default=None
        None stands for ``rows``: the matrix is then symmetric, and its diagonal is exact.
    counter : Counter, default=None
        Counter of evaluated entries that several matrices share.
    """

    def __init__(
        self, kernel: Kernel, rows: FloatArray, columns: FloatArray | None = None, *, counter: Counter | None = None
    ) -> None:
        _check_scale(kernel, rows.dtype)
        self.kernel = kernel.core
        self.rows = kernel.coordinates(rows)
        self.columns = self.rows if columns is None else kernel.coordinates(columns)
        self.symmetric = columns is None
        self.noise = kernel.noise if self.symmetric else 0.0
        self.dtype: np.dtype[np.floating] = self.rows.dtype
        self._shiftable = self.kernel.unit_maps() is not None
        self._counter = Counter() if counter is None else counter
        self._transposed = False
        self._diagonals: dict[tuple[int, int], FloatArray] = {}
        self._diagonal_lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_diagonal_lock": None, "_diagonals": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _diagonal_lock=threading.Lock())

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.columns.shape[0]

    @property
    def entries(self) -> int:
        """Number of kernel entries that all matrices with the same counter have evaluated."""
        return self._counter.value

    @property
    def counter(self) -> Counter | None:
        """Counter of the entries; None where all of them are in the memory of this process, and stay there."""
        return self._counter

    @property
    def T(self) -> KernelMatrix:
        """Transpose with the same points and the same counter."""
        if self.symmetric:
            return self
        other = KernelMatrix(self.kernel, self.columns, self.rows, counter=self._counter)
        other._transposed = not self._transposed
        return other

    @cached_property
    def double(self) -> KernelMatrix:
        """Return the matrix with points and entries in float64, and the same counter."""
        if self.dtype == np.float64:
            return self
        columns = None if self.symmetric else self.columns.astype(np.float64)
        other = KernelMatrix(self.kernel, self.rows.astype(np.float64), columns, counter=self._counter)
        other._transposed, other.noise = self._transposed, self.noise
        return other

    @cached_property
    def single(self) -> KernelMatrix:
        """Return the matrix with entries in float32, and the same points and counter.

        The matrix itself is returned if squares of its entries would overflow or underflow in float32.
        """
        low, high = _SCALES[np.dtype(np.float32)]
        own = self.kernel.at_zero
        if own is None:  # a function: estimated from a few points
            own = float(np.abs(self.kernel.diagonal(self.rows[:_SCALE_SAMPLE])).max(initial=0.0))
        if self.dtype == np.float32 or not (own == 0 or low <= own + self.noise <= high):
            return self
        other = copy.copy(self)
        other.dtype, other.double = np.dtype(np.float32), self
        return other

    def block(self, rows: Index, columns: Index) -> FloatArray:
        """Return the entries of the given rows and columns, which are slices or index arrays."""
        X, Y = self.rows[rows], self.columns[columns]
        self._counter.add(X.shape[0] * Y.shape[0])
        if self.dtype != X.dtype and self._shiftable:  # float32 keeps the digits of points near the origin
            centre = X.mean(axis=0)
            X, Y = (X - centre).astype(self.dtype), (Y - centre).astype(self.dtype)
        values = self.kernel.block(Y, X).T if self._transposed else self.kernel.block(X, Y)
        values = values.astype(self.dtype, copy=False)
        own = self.kernel.at_zero
        if self.symmetric and (own is not None or self.noise):
            at = coincidences(rows, columns)
            values[at] = (values[at] if own is None else own) + self.noise
        return values

    def diagonal(self, rows: slice) -> FloatArray:
        """Return k(x, x) of the given points of a symmetric matrix as a read-only array, cached for each range."""
        if self.kernel.at_zero is not None:
            return np.full(rows.stop - rows.start, self.kernel.at_zero + self.noise, dtype=self.dtype)
        key = rows.start, rows.stop
        with self._diagonal_lock:  # held while evaluating: two threads that ask at once cost one evaluation
            if key not in self._diagonals:
                self._diagonals[key] = self._evaluated_diagonal(rows)
            return self._diagonals[key]

    def _evaluated_diagonal(self, rows: slice) -> FloatArray:
        points = self.rows[rows]
        self._counter.add(sum((chunk.stop - chunk.start) ** 2 for chunk in diagonal_chunks(len(points))))
        values: FloatArray = self.kernel.diagonal(points) + self.dtype.type(self.noise)
        values.setflags(write=False)
        return values

    def symmetric_dense(self) -> FloatArray:
        """Return all entries of a symmetric matrix; only those on and above the diagonal are evaluated."""
        n = self.shape[0]
        dense = np.empty((n, n), dtype=self.dtype)
        for rows in ranges(0, n, _SYMMETRIC_TILE):
            start = rows.start
            strip = self.block(rows, slice(start, n))
            own = strip[:, : rows.stop - start]
            own[...] = (own + own.T) / 2
            self._counter.add(-(own.size - len(own)) // 2)  # the block has two triangles
            dense[rows, start:] = strip
            dense[start:, rows] = strip.T
        return dense


def _check_scale(kernel: Kernel, dtype: np.dtype[np.floating]) -> None:
    """Raise a ValueError if squared values of the kernel overflow or underflow."""
    own = kernel.at_zero
    if own is not None:
        _check_values(kernel, own + kernel.noise, dtype)


def _check_values(kernel: Kernel, own: float, dtype: np.dtype[np.floating]) -> None:
    low, high = _SCALES[dtype]
    if own != 0 and not low <= own <= high:
        raise ValueError(
            f"A kernel of {dtype} must have k(x, x) between {low:g} and {high:g}. Got {own:g} for "
            f"{kernel!r} instead: multiply the kernel by a constant, and ridges and noise by the same constant."
        )


class CachedKernelMatrix(KernelMatrix):
    """Kernel matrix with stored entries; `block` copies entries and evaluates none.

    Parameters
    ----------
    kernel : Kernel
    rows : ndarray of shape (n, d)
        Points, in the order of the matrix.
    dense : ndarray of shape (n, n)
        All entries, in another order.
    order : ndarray of shape (n,)
        Position of each point of the matrix in ``dense``.
    counter : Counter
    """

    def __init__(self, kernel: Kernel, rows: FloatArray, dense: FloatArray, order: IntArray, counter: Counter) -> None:
        super().__init__(kernel, rows, counter=counter)
        self._dense, self._order = dense, order

    @property
    def counter(self) -> Counter | None:
        return None

    @cached_property
    def double(self) -> KernelMatrix:
        if self.dtype == np.float64:
            return self
        other = copy.copy(self)
        other.dtype = np.dtype(np.float64)
        return other

    def block(self, rows: Index, columns: Index) -> FloatArray:
        # The matrix is symmetric. Long pieces of few rows are copied several times faster than short pieces of many.
        own, others = self._order[rows], self._order[columns]
        return self._gathered(others, own).T if len(others) < len(own) else self._gathered(own, others)

    def _gathered(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return the stored entries of the given rows and columns of ``dense``."""
        block = np.empty((len(rows), len(columns)), dtype=self.dtype)
        for position, row in enumerate(rows.tolist()):
            block[position] = self._dense[row].take(columns)
        return block

    def diagonal(self, rows: slice) -> FloatArray:
        own = self._order[rows]
        return self._dense[own, own].astype(self.dtype, copy=False)


def check_function(matrix: KernelMatrix, rng: np.random.Generator, *, semidefinite: bool) -> None:
    """Raise a ValueError if a user's kernel is not symmetric or not positive semi-definite at a sample of points."""
    if not any(isinstance(leaf, CallableKernel) or is_users(leaf) for leaf in matrix.kernel.leaves()):
        return
    n = matrix.shape[0]
    sample = np.sort(rng.choice(n, min(_CHECK_SAMPLE, n), replace=False))
    block = matrix.block(sample, sample)
    _check_values(matrix.kernel, float(np.abs(np.diagonal(block)).max(initial=0.0)), matrix.dtype)
    CallableKernel.check_symmetric(block)
    if semidefinite:
        CallableKernel.check_semidefinite(block)


def coincidences(rows: Index, columns: Index) -> tuple[IntArray, IntArray]:
    """Return the positions (rows, columns) of the entries of a block whose row and column are the same point."""
    if isinstance(rows, slice):
        own = indices(columns)
        inside = np.flatnonzero((own >= rows.start) & (own < rows.stop))
        return own[inside] - rows.start, inside
    own = indices(columns)
    if not len(rows):
        return own[:0], own[:0]
    order = np.argsort(rows)  # the rows are distinct
    position = np.minimum(np.searchsorted(rows, own, sorter=order), len(rows) - 1)
    candidates = order[position]
    inside = np.flatnonzero(rows[candidates] == own)
    return candidates[inside], inside


def indices(index: Index) -> IntArray:
    """Return a slice with both ends, or an index array, as an index array."""
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index
