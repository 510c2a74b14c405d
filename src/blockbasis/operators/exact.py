"""Exact kernel matrices as linear operators, whose products evaluate the entries without storing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import check_n_jobs, map_threads, single_threaded
from blockbasis._utils.tiling import ranges
from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_dtype, check_points
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.product import RealOperator, require_dense

#: Number of rows and columns of a tile: 2 MiB in float64, so that a tile stays in the cache of a core between its
#: evaluation and its product.
_TILE = 512
#: Smallest number of rows of a strip of tiles, the task of a thread: smaller tasks do not pay for the thread.
_STRIP = 4096
#: Largest number of strips: the number of synchronized rounds equals the number of strips.
_MAX_STRIPS = 32
#: Number of points at which the symmetry of a user's kernel function is checked.
_SYMMETRY_SAMPLE = 64

TileFunction = Callable[[slice, slice, FloatArray], None]


class _TiledKernelOperator(RealOperator):
    """Kernel matrix whose products evaluate the entries tile by tile."""

    def _set_matrix(self, kernel: Kernel, matrix: KernelMatrix, n_jobs: int) -> None:
        self.kernel, self._matrix, self._n_jobs = kernel, matrix, n_jobs
        super().__init__(matrix.dtype, matrix.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {self.kernel!r}, {self.dtype})"


class ExactKernel(_TiledKernelOperator):
    """The exact kernel matrix K(X, X) as a `scipy.sparse.linalg.LinearOperator`, without storing it.

    A product evaluates the entries on and above the diagonal tile by tile and takes memory linear in n.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        A function must be symmetric.
    dtype : {numpy.float32, numpy.float64}, default=None
        Dtype of the entries and of the products; None selects the dtype of ``X``.
    n_jobs : int, default=None
        Number of threads; None selects one for each core.

    Notes
    -----
    The evaluation of the kernel takes most of the time. A product with many vectors takes little longer than a product
    with one vector. The result is bit-identical for every ``n_jobs``.

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
        kernel = as_kernel(kernel, caller=caller)
        self._set_matrix(kernel, KernelMatrix(kernel, X), check_n_jobs(n_jobs, caller=caller))
        if isinstance(kernel, CallableKernel):
            sample = X[:: max(1, len(X) // _SYMMETRY_SAMPLE)][:_SYMMETRY_SAMPLE]
            kernel.check_symmetric(kernel.block(sample, sample))

    def _apply(self, V: FloatArray) -> FloatArray:
        result = np.zeros((self.shape[0], V.shape[1]), dtype=self.dtype)

        def add(rows: slice, columns: slice, tile: FloatArray) -> None:
            result[rows] += tile @ V[columns]
            if rows != columns:
                result[columns] += tile.T @ V[rows]

        self._for_each_tile(add)
        return result

    def _adjoint(self) -> ExactKernel:
        return self

    def _transpose(self) -> ExactKernel:
        return self

    def todense(self) -> FloatArray:
        """Return the matrix as an exactly symmetric array, which takes O(n²) memory."""
        require_dense(self.shape, self.dtype)
        dense = np.empty(self.shape, dtype=self.dtype)

        def fill(rows: slice, columns: slice, tile: FloatArray) -> None:
            dense[columns, rows] = tile.T
            dense[rows, columns] = (tile + tile.T) / 2 if rows == columns else tile

        self._for_each_tile(fill)
        return dense

    def diagonal(self) -> FloatArray:
        """Return k(x, x) of every point x."""
        return self._matrix.diagonal(slice(0, self.shape[0]))

    def frobenius_norm(self) -> float:
        """Return the Frobenius norm, from one evaluation of all entries."""
        energies = np.zeros(self.shape[0])

        def add(rows: slice, columns: slice, tile: FloatArray) -> None:
            squares = np.einsum("ij,ij->i", tile, tile, dtype=np.float64)
            energies[rows] += squares if rows == columns else 2 * squares

        self._for_each_tile(add)
        return math.sqrt(energies.sum())

    def _for_each_tile(self, function: TileFunction) -> None:
        """Call ``function(rows, columns, tile)`` for every tile on and above the diagonal.

        Concurrent calls have disjoint rows and columns. Calls with common rows or columns have a fixed order, so that
        sums are bit-identical for every number of threads.
        """
        strips = ranges(0, self.shape[0], max(_STRIP, math.ceil(self.shape[0] / _MAX_STRIPS)))

        def visit_strips(first: slice, second: slice) -> None:
            for rows in ranges(first.start, first.stop, _TILE):
                for columns in ranges(second.start, second.stop, _TILE):
                    if columns.start >= rows.start:
                        function(rows, columns, self._matrix.block(rows, columns))

        with single_threaded():
            for pairs in _rounds(len(strips)):
                map_threads(visit_strips, [(strips[i], strips[j]) for i, j in pairs], self._n_jobs)


class ExactCrossKernel(_TiledKernelOperator):
    """The exact kernel matrix K(Y, X) as a `scipy.sparse.linalg.LinearOperator`, without storing it.

    A product evaluates all entries tile by tile and takes memory linear in m + n. The predictions of a kernel method
    at new points are the product ``ExactCrossKernel(X_new, X, kernel) @ coefficients``. The result is bit-identical for
    every ``n_jobs``.

    Parameters
    ----------
    Y : array-like of shape (m, d)
        Points of the rows.
    X : array-like of shape (n, d)
        Points of the columns.
    kernel : Kernel or callable
    dtype : {numpy.float32, numpy.float64}, default=None
        Dtype of the entries and of the products; None selects the dtype of ``X``.
    n_jobs : int, default=None
        Number of threads; None selects one for each core.

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
        self._set_matrix(kernel, KernelMatrix(kernel, Y, X), check_n_jobs(n_jobs, caller=caller))

    def _apply(self, V: FloatArray) -> FloatArray:
        result = np.zeros((self.shape[0], V.shape[1]), dtype=self.dtype)

        def fill(rows: slice) -> None:
            for columns in ranges(0, self.shape[1], _TILE):
                result[rows] += self._matrix.block(rows, columns) @ V[columns]

        with single_threaded():
            map_threads(fill, [(rows,) for rows in ranges(0, self.shape[0], _TILE)], self._n_jobs)
        return result

    def _adjoint(self) -> ExactCrossKernel:
        return self._transpose()

    def _transpose(self) -> ExactCrossKernel:
        other = object.__new__(ExactCrossKernel)
        other._set_matrix(self.kernel, self._matrix.T, self._n_jobs)
        return other


def _rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield every pair i <= j once, in rounds of pairs without a common index: those with the same i + j mod count."""
    for total in range(count):
        partners = [(i, (total - i) % count) for i in range(count)]
        yield [(i, j) for i, j in partners if i <= j]
