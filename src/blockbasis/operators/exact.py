"""Exact kernel matrices as operators: evaluated tile by tile in every product, never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import check_n_jobs, map_threads, single_threaded
from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_dtype, check_points
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.product import Product

#: Side of a tile: small enough that it stays in a core's cache between its evaluation and its product.
_TILE = 512
#: Threads take strips of tiles, long enough to be worth a thread and too few for many rounds.
_STRIP = 4096
_MAX_STRIPS = 32
#: Points on which a user's kernel function is asked whether it is symmetric.
_SYMMETRY_SAMPLE = 64

Visitor = Callable[[slice, slice, FloatArray], None]


class ExactKernel(Product):
    """K(X, X) as it is: a product evaluates the entries on and above the diagonal, in memory linear in n.

    A `scipy.sparse.linalg.LinearOperator`. One product with many vectors costs little more than with one: the time
    goes into the kernel's entries. The result is bit-identical for every ``n_jobs``.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        A function must be symmetric.
    dtype : {numpy.float32, numpy.float64}, default=None
        Precision of the entries and of the products; None is that of ``X``.
    n_jobs : int, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> K = bb.ExactKernel(X, bb.Gaussian(1.0))
    >>> v = np.ones(1000)
    >>> bool(np.allclose(K @ v, bb.Gaussian(1.0)(X) @ v))
    True
    """

    def __init__(self, X: Any, kernel: Any, *, dtype: npt.DTypeLike | None = None, n_jobs: int | None = None) -> None:
        caller = "ExactKernel"
        X = check_points(X, name="X", caller=caller, dtype=check_dtype(dtype, name="dtype", caller=caller))
        self.kernel = as_kernel(kernel, caller=caller)
        self._matrix = KernelMatrix(self.kernel, X)
        self._n_jobs = check_n_jobs(n_jobs, caller=caller)
        super().__init__(X.dtype, self._matrix.shape)
        if isinstance(self.kernel, CallableKernel):
            some = X[:: max(1, len(X) // _SYMMETRY_SAMPLE)][:_SYMMETRY_SAMPLE]
            self.kernel.check_symmetric(self.kernel.block(some, some))

    def _apply(self, V: FloatArray) -> FloatArray:
        result = np.zeros((self.shape[0], V.shape[1]), dtype=self.dtype)

        def add(rows: slice, columns: slice, tile: FloatArray) -> None:
            result[rows] += tile @ V[columns]
            if rows != columns:
                result[columns] += tile.T @ V[rows]

        self._visit(add)
        return result

    def _adjoint(self) -> ExactKernel:
        return self

    def _transpose(self) -> ExactKernel:
        return self

    def todense(self) -> FloatArray:
        """The matrix as an array, exactly symmetric: for small n and for tests."""
        dense = np.empty(self.shape, dtype=self.dtype)

        def fill(rows: slice, columns: slice, tile: FloatArray) -> None:
            dense[columns, rows] = tile.T
            dense[rows, columns] = (tile + tile.T) / 2 if rows == columns else tile

        self._visit(fill)
        return dense

    def diagonal(self) -> FloatArray:
        """k(x, x) of every point."""
        return self._matrix.diagonal(slice(0, self.shape[0]))

    def frobenius_norm(self) -> float:
        """Root of the sum of all squared entries."""
        energies = np.zeros(self.shape[0])

        def add(rows: slice, columns: slice, tile: FloatArray) -> None:
            squares = np.einsum("ij,ij->i", tile, tile, dtype=np.float64)
            energies[rows] += squares if rows == columns else 2 * squares

        self._visit(add)
        return math.sqrt(energies.sum())

    def _visit(self, use: Visitor) -> None:
        """Call ``use(rows, columns, tile)`` for the tiles on and above the diagonal.

        Calls that run at the same time share neither rows nor columns, and those that do keep their order.
        """
        strips = _ranges(0, self.shape[0], max(_STRIP, math.ceil(self.shape[0] / _MAX_STRIPS)))

        def visit_strips(first: slice, second: slice) -> None:
            for rows in _ranges(first.start, first.stop, _TILE):
                for columns in _ranges(second.start, second.stop, _TILE):
                    if columns.start >= rows.start:
                        use(rows, columns, self._matrix.block(rows, columns))

        with single_threaded():
            for pairs in _rounds(len(strips)):
                map_threads(visit_strips, [(strips[i], strips[j]) for i, j in pairs], self._n_jobs)

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"ExactKernel({n} x {n}, {self.kernel!r}, {self.dtype})"


class ExactCrossKernel(Product):
    """K(Y, X) as it is: a product evaluates all entries tile by tile, in memory linear in the points.

    Predictions of a kernel method at new points are one product, ``ExactCrossKernel(X_new, X, kernel) @ coefficients``.
    A `scipy.sparse.linalg.LinearOperator`; the result is bit-identical for every ``n_jobs``.

    Parameters
    ----------
    Y : array-like of shape (m, d)
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    dtype : {numpy.float32, numpy.float64}, default=None
        Precision of the entries and of the products; None is that of ``X``.
    n_jobs : int, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(size=(1000, 3)), rng.normal(size=(10, 3))
    >>> coefficients = rng.normal(size=1000)
    >>> predicted = bb.ExactCrossKernel(X_new, X, bb.Gaussian(1.0)) @ coefficients
    >>> bool(np.allclose(predicted, bb.Gaussian(1.0)(X_new, X) @ coefficients))
    True
    """

    def __init__(
        self, Y: Any, X: Any, kernel: Any, *, dtype: npt.DTypeLike | None = None, n_jobs: int | None = None
    ) -> None:
        caller = "ExactCrossKernel"
        X = check_points(X, name="X", caller=caller, dtype=check_dtype(dtype, name="dtype", caller=caller))
        Y = check_points(Y, name="Y", caller=caller, n_features=X.shape[1], dtype=X.dtype)
        kernel = as_kernel(kernel, caller=caller)
        self._take(kernel, KernelMatrix(kernel, Y, X), check_n_jobs(n_jobs, caller=caller))

    def _take(self, kernel: Kernel, matrix: KernelMatrix, n_jobs: int) -> None:
        self.kernel, self._matrix, self._n_jobs = kernel, matrix, n_jobs
        super().__init__(matrix.dtype, matrix.shape)

    def _apply(self, V: FloatArray) -> FloatArray:
        result = np.zeros((self.shape[0], V.shape[1]), dtype=self.dtype)

        def fill(rows: slice) -> None:
            for columns in _ranges(0, self.shape[1], _TILE):
                result[rows] += self._matrix.block(rows, columns) @ V[columns]

        with single_threaded():
            map_threads(fill, [(rows,) for rows in _ranges(0, self.shape[0], _TILE)], self._n_jobs)
        return result

    def _adjoint(self) -> ExactCrossKernel:
        return self._transpose()

    def _transpose(self) -> ExactCrossKernel:
        other = object.__new__(ExactCrossKernel)
        other._take(self.kernel, self._matrix.T, self._n_jobs)
        return other

    def __repr__(self) -> str:
        return f"ExactCrossKernel({self.shape[0]} x {self.shape[1]}, {self.kernel!r}, {self.dtype})"


def _ranges(start: int, stop: int, step: int) -> list[slice]:
    return [slice(a, min(a + step, stop)) for a in range(start, stop, step)]


def _rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Every pair i <= j once, in rounds in which no number occurs twice: a round holds those of one i + j."""
    for total in range(count):
        partners = [(i, (total - i) % count) for i in range(count)]
        yield [(i, j) for i, j in partners if i <= j]
