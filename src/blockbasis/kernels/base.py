"""What a kernel is, and what the rest of the package asks of one."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_lengths, check_matrix, check_points, check_right_hand_side
from blockbasis.kernels.distances import ENTRY_ERROR, product_factors, squared_distances, squares_of_differences
from blockbasis.kernels.linear_map import LinearMap

#: Points per call when only k(x, x) is wanted of a kernel that does not know it: few wasted pairs against few calls.
_DIAGONAL_CHUNK = 16
#: Rows and columns of a tile in which gradients are computed.
_GRADIENT_TILE = 512
#: Entries that stay in a core's cache.
_CACHED = 2**17
#: A block of more than ``_WIDE`` columns is evaluated ``_NARROW`` columns at a time: strips of few rows are slow.
_WIDE = 4096
_NARROW = 1024
#: Lengths that a kernel shows, at most.
_SHOWN = 6


class Kernel(ABC):
    """A positive-definite function of two points.

    Kernels add, multiply and scale: ``2.0 * Gaussian(1.0) + Laplacian(3.0)`` is a kernel.
    """

    #: A NumPy number times a kernel is a kernel, not an array of objects.
    __array_ufunc__ = None

    @abstractmethod
    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Kernel of every row of ``X`` with every row of ``Y``; the arrays are trusted, not checked.

        There is no white noise in it.
        """

    def __call__(self, X: Any, Y: Any = None) -> FloatArray:
        """Kernel matrix of ``X`` with ``Y``, or with itself.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            None stands for ``X``; the result is then exactly symmetric, and has the white noise in its diagonal.

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
        for rows in _ranges(len(K), _NARROW):  # in place: large matrices are not held twice
            mean = (K[rows, rows.start :] + K[rows.start :, rows].T) / 2
            K[rows, rows.start :], K[rows.start :, rows] = mean, mean.T
        if self.at_zero is not None:
            np.fill_diagonal(K, self.at_zero + self.noise)
        elif self.noise:
            K[np.diag_indices_from(K)] += self.noise
        return K

    def diagonal(self, X: FloatArray) -> FloatArray:
        """k(x, x) of every row of ``X``, white noise included; the array is trusted, not checked."""
        if self.at_zero is not None:
            return np.full(len(X), self.at_zero + self.noise, dtype=X.dtype)
        values = [np.diagonal(self.block(X[chunk], X[chunk])) for chunk in diagonal_chunks(len(X))]
        return np.asarray(np.concatenate(values) + X.dtype.type(self.noise))

    def gradient(self, X: Any, Y: Any, weights: Any) -> FloatArray:
        """Gradient with respect to each x_i of the function sum_j weights_j k(x_i, y_j).

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d)
        weights : array-like of shape (m,) or (m, n_targets)

        Returns
        -------
        ndarray of shape (n, d) or (n, d, n_targets)
            In float64. A pair of coincident points adds nothing, also where the kernel has a kink there.

        Notes
        -----
        The work is done tile by tile in matrix products: memory is that of the result and of a few tiles.

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
        core, map_, (points, others) = self.core, self.map, _in_coordinates(self, X, Y)
        columns = W.reshape(len(Y), -1)
        result = np.empty((*X.shape, columns.shape[1]))
        for rows in _ranges(len(X), _GRADIENT_TILE):
            found = np.zeros((rows.stop - rows.start, points.shape[1], columns.shape[1]))
            for there in _ranges(len(Y), _GRADIENT_TILE):
                found += core.block_gradient(points[rows], others[there], columns[there], None)
            result[rows] = found if map_ is None else map_.transposed(found)
        return result if W.ndim == 2 else result[..., 0]

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        """Sums over j of factors_ij weights_jt times the gradient of k(x_i, y_j), of shape (n, d, t), for one tile.

        None stands for factors of one.
        """
        raise NotImplementedError(f"{self!r} has no gradient: {type(self).__name__} does not know its derivative.")

    # --- what the rest of the package asks ---------------------------------------------------------------------------

    @property
    def at_zero(self) -> float | None:
        """k(x, x) without white noise, where it is the same for all x; None where it is not."""
        return None

    @property
    def noise(self) -> float:
        """Variance of the white noise, which is in the diagonal of a symmetric matrix only."""
        return 0.0

    def without_noise(self) -> Kernel:
        """The kernel without its white noise."""
        return self

    @property
    def n_features(self) -> int | None:
        """Columns that the points must have; None takes any number."""
        return None

    @property
    def map(self) -> LinearMap | None:
        """Linear map of the points into the coordinates of the kernel; None is the identity."""
        return None

    @property
    def core(self) -> Kernel:
        """The kernel, without white noise, as a function of mapped points: k(x, y) = core(map x, map y)."""
        return self.without_noise()

    def coordinates(self, X: FloatArray) -> FloatArray:
        """The points in the coordinates of the kernel, in which clusters are made; ``X`` itself where these are equal.

        Raises
        ------
        ValueError
            Where the points do not have the columns that the kernel wants.
        """
        if self.n_features is not None and X.shape[1] != self.n_features:
            raise ValueError(
                f"The points of {self!r} must have {self.n_features} columns. Got points of {X.shape[1]} instead."
            )
        return X if self.map is None else self.map(X)

    def bound(self, distances: FloatArray) -> FloatArray:
        """Upper bounds of |k(x, y)| for points that are no nearer than these Euclidean distances."""
        return np.full(distances.shape, np.inf)

    def unit_maps(self) -> list[LinearMap | float] | None:
        """Maps into coordinates in which the length scale is 1, of each part; a number is a multiple of the identity.

        None where the kernel is no function of x - y: it must then see the points as they are.
        """
        return None

    def leaves(self) -> Iterator[Kernel]:
        """The kernels that it is made of."""
        yield self

    # --- new kernels from old ----------------------------------------------------------------------------------------

    def with_metric(self, L: Any) -> Kernel:
        """The kernel of mapped points, k(L x, L y): distances are |L (x - y)|.

        Parameters
        ----------
        L : array-like of shape (m, d)
            With fewer rows than columns it is a projection. A kernel with one length for each column has one for each
            row of ``L``.

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
        """The equal kernel of scikit-learn.

        Returns
        -------
        sklearn.gaussian_process.kernels.Kernel

        Raises
        ------
        ValueError
            Where scikit-learn has no equal.

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

    def __rmul__(self, other: Any) -> Kernel:
        return self.__mul__(other)


def _operand(other: Any) -> Kernel | None:
    """What a kernel can be added to or multiplied by: another, or one of scikit-learn that has an equal."""
    from blockbasis.kernels.convert import from_sklearn, is_sklearn

    if isinstance(other, Kernel):
        return other
    return from_sklearn(other) if is_sklearn(other) else None


def diagonal_chunks(count: int) -> list[slice]:
    """Ranges of points whose own entries are evaluated at once."""
    return _ranges(count, _DIAGONAL_CHUNK)


def _ranges(count: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


# --- radial kernels --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """A kernel f(|x - y|^2) with f(0) = 1 and f decreasing.

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        The length by which distances are divided, or one for each column. The attribute is a float or a tuple.
    """

    bandwidth: Any

    def __post_init__(self) -> None:
        lengths = check_lengths(self.bandwidth, name="bandwidth", caller=type(self).__name__)
        object.__setattr__(self, "bandwidth", lengths)

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({shown})"

    @abstractmethod
    def profile(self, squared_distances: FloatArray) -> FloatArray:
        """F at each squared distance; the array is overwritten and returned.

        A kernel with one length for each column is asked by way of its `core`, which has one length.
        """

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        """Derivative of f at each squared distance, zero at zero where f has a kink; the array may be overwritten."""
        raise NotImplementedError(f"{self!r} has no gradient: {type(self).__name__} does not define 'derivative'.")

    @property
    def at_zero(self) -> float:
        return 1.0

    @property
    def n_features(self) -> int | None:
        return len(self.bandwidth) if isinstance(self.bandwidth, tuple) else None

    @property
    def map(self) -> LinearMap | None:
        if not isinstance(self.bandwidth, tuple):
            return None
        # Relative to the shortest length: no quotient overflows, and proportional lengths share one map.
        return LinearMap(min(self.bandwidth) / np.array(self.bandwidth)).reduced()

    @property
    def core(self) -> RadialKernel:
        return replace(self, bandwidth=min(self.bandwidth)) if isinstance(self.bandwidth, tuple) else self

    def bound(self, distances: FloatArray) -> FloatArray:
        shortened = distances if self.map is None else self.map.smallest * distances
        return self.core.profile(np.square(shortened, dtype=np.float64))

    def unit_maps(self) -> list[LinearMap | float] | None:
        if not isinstance(self.bandwidth, tuple):
            return [1 / self.bandwidth]
        return [LinearMap(1 / np.array(self.bandwidth))]

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        if isinstance(self.bandwidth, tuple):
            return mapped_block(self, X, Y)
        limits = np.finfo(X.dtype)
        if self.bandwidth * self.bandwidth < float(limits.tiny / limits.eps):
            return self._block_of_tiny_bandwidth(X, Y)
        # Products cancel far from the origin, so the points are centred on the mean of X: in a factorization that is
        # the centre of a cluster.
        centre, error = X.mean(axis=0), self._distance_error(X)
        if len(Y) <= _WIDE:
            return self._narrow_block(X, Y, centre, error)
        values = np.empty((len(X), len(Y)), dtype=X.dtype)
        for columns in _ranges(len(Y), _NARROW):
            values[:, columns] = self._narrow_block(X, Y[columns], centre, error)
        return values

    def _narrow_block(self, X: FloatArray, Y: FloatArray, centre: FloatArray, error: float) -> FloatArray:
        """Entries strip by strip, so that distances are in the cache when the profile is taken."""
        values = np.empty((len(X), len(Y)), dtype=X.dtype)
        factors = product_factors(X, Y, centre, error=error) if error else None
        for rows in _ranges(len(X), max(1, _CACHED // max(len(Y), 1))):
            strip = values[rows]
            if factors is not None and not factors.cancelled:
                squared = factors.squared(rows, slice(None), out=strip)
            else:
                squared = squared_distances(X[rows], Y, centre, error=error).astype(X.dtype, copy=False)
            found = self.profile(squared)
            if found is not strip:
                strip[...] = found
        return values

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        if isinstance(self.bandwidth, tuple):
            return mapped_gradient(self, X, Y, weights, factors)
        centre = X.mean(axis=0)
        # The gradient of f(|x - y|^2) is 2 f' (x - y): two products with the matrix of 2 f'.
        slopes = 2 * self.derivative(squared_distances(X, Y, centre, error=self._distance_error(X)))
        X, Y = X - centre, Y - centre
        if factors is not None:
            slopes *= factors
        weighted = (Y[:, :, np.newaxis] * weights[:, np.newaxis, :]).reshape(len(Y), -1)
        at_others = (slopes @ weighted).reshape(len(X), X.shape[1], -1)
        return np.asarray(X[:, :, np.newaxis] * (slopes @ weights)[:, np.newaxis, :] - at_others)

    def _block_of_tiny_bandwidth(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Entries by differences in units of the bandwidth, whose square would underflow."""
        if X.dtype == np.float32:
            return self.block(X.astype(np.float64), Y.astype(np.float64)).astype(np.float32)
        rows, columns = (each.ravel() for each in np.indices((len(X), len(Y))))
        squared = squares_of_differences(X, Y, rows, columns, unit=self.bandwidth).reshape(len(X), len(Y))
        return replace(self, bandwidth=1.0).profile(squared)

    def _distance_error(self, X: FloatArray) -> float:
        """Error of squared distances that leaves entries accurate; none where a root magnifies it."""
        return ENTRY_ERROR[X.dtype] * self.bandwidth * self.bandwidth if self._smooth_at_zero else 0.0

    @property
    def _smooth_at_zero(self) -> bool:
        """Whether rounding in a squared distance near zero stays as small in the kernel."""
        return True

    def _divide(self, values: FloatArray, times: int) -> FloatArray:
        """Divide by the bandwidth, once or twice, in place: no bandwidth overflows on the way."""
        limits = np.finfo(values.dtype)
        least, most = float(limits.tiny), float(limits.max)
        inverse = min(max(1 / self.bandwidth if self.bandwidth > least else np.inf, least), most)
        with np.errstate(over="ignore", under="ignore"):
            factor = float(np.float64(inverse) ** times)  # infinite where a power of a float would raise
            if limits.tiny < factor < limits.max:
                values *= factor
                return values
            for _ in range(times):
                values *= inverse
        return values


def kernel_parameters(kernel: RadialKernel) -> dict[str, float | list[float]]:
    """The numbers that, with the class, make the kernel again."""
    values = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    return {name: list(value) if isinstance(value, tuple) else float(value) for name, value in values.items()}


def mapped_block(kernel: Kernel, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Entries of a kernel of mapped points, mapped on the spot."""
    return kernel.core.block(*_in_coordinates(kernel, X, Y))


def mapped_gradient(
    kernel: Kernel, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
) -> FloatArray:
    """Gradients of a kernel of mapped points, mapped on the spot."""
    found = kernel.core.block_gradient(*_in_coordinates(kernel, X, Y), weights, factors)
    return found if kernel.map is None else kernel.map.transposed(found)


def _in_coordinates(kernel: Kernel, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both sets of points mapped; centred first where the kernel allows it, since far points lose digits by a map."""
    if kernel.unit_maps() is None:
        return kernel.coordinates(X), kernel.coordinates(Y)
    centre = X.mean(axis=0)
    return kernel.coordinates(X - centre), kernel.coordinates(Y - centre)


def _shown(value: Any) -> str:
    """A number, or some of many lengths."""
    if not isinstance(value, tuple) or len(value) <= _SHOWN:
        return repr(value)
    ends = ", ".join(f"{length:.6g}" for length in value[: _SHOWN // 2])
    return f"({ends}, ..., {value[-1]:.6g}: {len(value)} lengths)"
