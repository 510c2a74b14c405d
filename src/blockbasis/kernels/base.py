"""The base class of kernels."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.tiling import ranges
from blockbasis._utils.validation import check_matrix, check_points, check_right_hand_side
from blockbasis.kernels.linear_map import LinearMap

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Points per call when only k(x, x) is needed of a kernel function: a compromise between unused pairs and calls.
_DIAGONAL_CHUNK = 16
#: Rows and columns of a tile in which gradients are computed, 2 MB of float64.
_GRADIENT_TILE = 512
#: Rows of a strip in which a matrix is symmetrized in place.
_SYMMETRIC_STRIP = 1024


class Kernel(ABC):
    """A positive-definite function of two points.

    Sums, products and positive multiples of kernels are kernels, for example ``2.0 * Gaussian(1.0) + Laplacian(3.0)``.
    """

    #: A NumPy number times a kernel is a kernel, not an array of objects.
    __array_ufunc__ = None

    @abstractmethod
    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return k(x, y) for all rows x of ``X`` and y of ``Y``, without white noise; the arrays are not checked."""

    def __call__(self, X: Any, Y: Any = None) -> FloatArray:
        """Return the kernel matrix of ``X`` and ``Y``, or of ``X`` and itself.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            If None, ``X`` is used. The result is then exactly symmetric, with the white noise on its diagonal.

        Returns
        -------
        ndarray of shape (n, m)
        """
        caller = type(self).__name__
        X = check_points(X, name="X", caller=caller)
        if Y is not None:
            Y = check_points(Y, name="Y", caller=caller, n_features=X.shape[1])
            both = np.result_type(X, Y)
            return self.block(X.astype(both, copy=False), Y.astype(both, copy=False))
        K = self.block(X, X)
        for rows in ranges(0, len(K), _SYMMETRIC_STRIP):  # in place: a large matrix is not copied
            mean = (K[rows, rows.start :] + K[rows.start :, rows].T) / 2
            K[rows, rows.start :], K[rows.start :, rows] = mean, mean.T
        if self.at_zero is not None:
            np.fill_diagonal(K, self.at_zero + self.noise)
        elif self.noise:
            K[np.diag_indices_from(K)] += self.noise
        return K

    def diagonal(self, X: FloatArray) -> FloatArray:
        """Return k(x, x) for every row x of ``X``, with white noise; the array is not checked."""
        if self.at_zero is not None:
            return np.full(len(X), self.at_zero + self.noise, dtype=X.dtype)
        values = [np.diagonal(self.block(X[chunk], X[chunk])) for chunk in diagonal_chunks(len(X))]
        return np.asarray(np.concatenate(values) + X.dtype.type(self.noise))

    def gradient(self, X: Any, Y: Any, weights: Any) -> FloatArray:
        """Return the gradient of sum_j weights_j k(x_i, y_j) with respect to each x_i.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d)
        weights : array-like of shape (m,) or (m, n_targets)

        Returns
        -------
        ndarray of shape (n, d) or (n, d, n_targets)
            In float64. The gradient of k(x_i, y_j) is taken as zero if x_i and y_j are equal, also if k is not
            differentiable there.

        Notes
        -----
        The gradient is computed tile by tile with matrix products. The memory is that of the result and of a few tiles.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> x, y, step = np.array([[0.3]]), np.array([[1.0], [2.0]]), 1e-6
        >>> kernel, weights = bb.Gaussian(1.0), np.array([1.0, -2.0])
        >>> slope = (kernel(x + step, y) - kernel(x - step, y)) @ weights / (2 * step)
        >>> bool(np.allclose(kernel.gradient(x, y, weights)[0], slope))
        True
        """
        caller = f"{type(self).__name__}.gradient"
        X = check_points(X, name="X", caller=caller, dtype=np.float64)
        Y = check_points(Y, name="Y", caller=caller, n_features=X.shape[1], dtype=np.float64)
        W = check_right_hand_side(weights, len(Y), name="weights", caller=caller)
        core, map_, (X_mapped, Y_mapped) = self.core, self.map, _in_coordinates(self, X, Y)
        columns = W.reshape(len(Y), -1)
        result = np.empty((*X.shape, columns.shape[1]))
        for rows in ranges(0, len(X), _GRADIENT_TILE):
            gradient = np.zeros((rows.stop - rows.start, X_mapped.shape[1], columns.shape[1]))
            for tile in ranges(0, len(Y), _GRADIENT_TILE):
                gradient += core.block_gradient(X_mapped[rows], Y_mapped[tile], columns[tile], None)
            result[rows] = gradient if map_ is None else map_.transposed(gradient)
        return result if W.ndim == 2 else result[..., 0]

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        """Return sum_j factors_ij weights_jt times the gradient of k(x_i, y_j), of shape (n, d, t), for one tile.

        If ``factors`` is None, all factors are 1.
        """
        raise NotImplementedError(f"{self!r} has no gradient: {type(self).__name__} does not know its derivative.")

    # --- properties that a factorization uses ------------------------------------------------------------------------

    @property
    def at_zero(self) -> float | None:
        """Value of k(x, x) without white noise if it is the same for all x; otherwise None."""
        return None

    @property
    def noise(self) -> float:
        """Variance of the white noise, which is added to the diagonal of a symmetric matrix only."""
        return 0.0

    def without_noise(self) -> Kernel:
        """Return the kernel without its white noise."""
        return self

    @property
    def n_features(self) -> int | None:
        """Number of columns that the points must have; None if any number is allowed."""
        return None

    @property
    def map(self) -> LinearMap | None:
        """Linear map of the points to the coordinates of the kernel; None for the identity."""
        return None

    @property
    def core(self) -> Kernel:
        """The kernel, without white noise, as a function of mapped points: k(x, y) = core(map x, map y)."""
        return self.without_noise()

    def coordinates(self, X: FloatArray) -> FloatArray:
        """Return the points in the coordinates of the kernel, in which points are clustered; ``X`` if `map` is None.

        Raises
        ------
        ValueError
            If the points do not have the number of columns of the kernel.
        """
        if self.n_features is not None and X.shape[1] != self.n_features:
            raise ValueError(
                f"The points of {self!r} must have {self.n_features} columns. Got points of {X.shape[1]} instead."
            )
        return X if self.map is None else self.map(X)

    def bound(self, distances: FloatArray) -> FloatArray:
        """Return upper bounds of |k(x, y)| for points x and y with at least the given Euclidean distances."""
        return np.full(distances.shape, np.inf)

    def unit_maps(self) -> list[LinearMap | float] | None:
        """Return for each part the map to coordinates in which its length scale is 1; a number is a multiple of I.

        None is returned if the kernel is not a function of x - y.
        """
        return None

    def leaves(self) -> Iterator[Kernel]:
        """Yield the kernels of which a sum, a product or a multiple consists."""
        yield self

    # --- new kernels from old ----------------------------------------------------------------------------------------

    def with_metric(self, L: Any) -> Kernel:
        """Return the kernel k(L x, L y) of mapped points, whose distances are |L (x - y)|.

        Parameters
        ----------
        L : array-like of shape (m, d)
            Matrix of the map; if it has fewer rows than columns, the map is a projection. If the kernel has one length
            for each column, ``L`` must have one row for each length.

        Returns
        -------
        Kernel

        Examples
        --------
        >>> import blockbasis as bb
        >>> kernel = bb.Gaussian(1.0).with_metric([[2.0, 0.0], [0.0, 0.0]])
        >>> kernel
        Gaussian(bandwidth=1.0).with_metric([[2, 0], [0, 0]])
        >>> bool(kernel([[0.0, 5.0]], [[1.0, 9.0]]) == bb.Gaussian(1.0)([[0.0]], [[2.0]]))
        True
        """
        from blockbasis.kernels.metric import WithMetric  # that module builds on this one

        matrix = check_matrix(L, name="L", caller=f"{type(self).__name__}.with_metric", n_rows=self.n_features)
        return WithMetric(self, LinearMap(matrix))

    def to_sklearn(self) -> Any:
        """Return the kernel of scikit-learn that is equal to this kernel.

        Returns
        -------
        sklearn.gaussian_process.kernels.Kernel

        Raises
        ------
        ValueError
            If scikit-learn has no such kernel.

        Examples
        --------
        >>> import blockbasis as bb
        >>> (2.0 * bb.Matern(3.0, nu=2.5) + bb.White(0.1)).to_sklearn()
        1.41**2 * Matern(length_scale=3, nu=2.5) + WhiteKernel(noise_level=0.1)
        """
        from blockbasis.kernels.convert import to_sklearn

        return to_sklearn(self)

    def __add__(self, other: Any) -> Kernel:
        from blockbasis.kernels.combined import added

        operand = _operand(other)
        return NotImplemented if operand is None else added(self, operand)

    def __mul__(self, other: Any) -> Kernel:
        from blockbasis.kernels.combined import multiplied, scaled

        if isinstance(other, numbers.Real):
            return scaled(self, float(other))
        operand = _operand(other)
        return NotImplemented if operand is None else multiplied(self, operand)

    def __radd__(self, other: Any) -> Kernel:
        return self.__add__(other)

    def __rmul__(self, other: Any) -> Kernel:
        return self.__mul__(other)


def _operand(other: Any) -> Kernel | None:
    """Return the other operand of a sum or a product as a kernel; None if it is neither a kernel nor a function.

    A kernel of scikit-learn is converted, and a function becomes a `CallableKernel`.
    """
    from blockbasis.kernels.convert import from_sklearn, is_sklearn
    from blockbasis.kernels.function import CallableKernel

    if isinstance(other, Kernel):
        return other
    if is_sklearn(other):
        return from_sklearn(other)
    return CallableKernel(other) if callable(other) and not isinstance(other, type) else None


def is_users(kernel: Kernel) -> bool:
    """Return whether the class of a kernel is one of a user, and not of the package."""
    return not type(kernel).__module__.startswith("blockbasis.")


def diagonal_chunks(count: int) -> list[slice]:
    """Return ranges of points; the values k(x, x) of each range are evaluated in one call."""
    return ranges(0, count, _DIAGONAL_CHUNK)


def mapped_block(kernel: Kernel, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Map the points, and return the block of the kernel of mapped points."""
    return kernel.core.block(*_in_coordinates(kernel, X, Y))


def mapped_gradient(
    kernel: Kernel, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
) -> FloatArray:
    """Map the points, and return the gradients of the kernel of mapped points in the coordinates of the points."""
    gradients = kernel.core.block_gradient(*_in_coordinates(kernel, X, Y), weights, factors)
    return gradients if kernel.map is None else kernel.map.transposed(gradients)


def _in_coordinates(kernel: Kernel, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Map both sets of points.

    If k is a function of x - y, the points are centred first, which reduces the rounding errors of the map.
    """
    if kernel.unit_maps() is None:
        return kernel.coordinates(X), kernel.coordinates(Y)
    centre = X.mean(axis=0)
    return kernel.coordinates(X - centre), kernel.coordinates(Y - centre)
