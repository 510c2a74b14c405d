"""Base class of radial kernels: entries and gradients from squared distances."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.tiling import ranges
from blockbasis._utils.validation import check_lengths
from blockbasis.kernels.base import Kernel, is_users, mapped_block, mapped_gradient
from blockbasis.kernels.distances import (
    ENTRY_ERROR,
    product_factors,
    replace_nearest,
    squared_distances,
    squares_of_differences,
)
from blockbasis.kernels.linear_map import LinearMap

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Entries of a strip, 1 MB of float64: distances stay in a core's cache until the profile is computed.
_STRIP_ENTRIES = 2**17
#: A block of more than ``_WIDE`` columns is evaluated ``_NARROW`` columns at a time: strips of few rows are slow.
_WIDE = 4096
_NARROW = 1024
#: Distances at which the profile of a user's kernel is checked, in bandwidths, and the allowed error of its values.
_CHECKED = np.concatenate([[0.0], np.geomspace(0.01, 10, 31)])
_PROFILE_ERROR = 1e-9
#: Small squared distances, in squared bandwidths, at which 1 - f of a user's kernel is compared with the squared
#: distance, and the largest quotient of a kernel that is smooth at zero.
_NEAR_ZERO = np.array([1e-12, 1e-8, 1e-4])
_STEEPEST = 20.0
#: Largest number of lengths in the representation of a kernel.
_MAX_SHOWN = 6


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """Radial kernel f(|x - y|^2) with f(0) = 1 and decreasing f; the base class for radial kernels of your own.

    A class that inherits from this defines `profile`, and `derivative` for gradients, `KernelRidgeCV` and
    `GaussianProcessRegressor`. Squared distances are not divided by the bandwidth. With one bandwidth for each column,
    ``profile`` is called on a kernel of one bandwidth. Further parameters are fields of a frozen dataclass.

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column. The attribute is a float or a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> class Wendland(bb.kernels.RadialKernel):
    ...     def profile(self, squared_distances):
    ...         r = np.minimum(np.sqrt(squared_distances) / self.bandwidth, 1)
    ...         return (1 - r) ** 4 * (4 * r + 1)
    ...
    ...     def derivative(self, squared_distances):
    ...         r = np.minimum(np.sqrt(squared_distances) / self.bandwidth, 1)
    ...         return -10 * (1 - r) ** 3 / self.bandwidth**2
    >>> Wendland(2.0)
    Wendland(bandwidth=2.0)
    >>> Wendland(2.0)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.1875],
           [0.1875, 1.    ]])
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
        """Return f at each squared distance.

        A kernel with one length for each column is evaluated through its `core`, which has one length.

        Parameters
        ----------
        squared_distances : ndarray
            Squared distances, not divided by the bandwidth. The array may be overwritten and returned.

        Returns
        -------
        ndarray of the same shape
            1 at distance 0, and not larger at a larger distance.
        """

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        """Return the derivative of f with respect to the squared distance, or zero at distance 0 if f has none there.

        Parameters
        ----------
        squared_distances : ndarray
            As for `profile`.

        Returns
        -------
        ndarray of the same shape
        """
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
        # Products cancel far from the origin: the points are centred on the mean of X, near the centre of a cluster.
        centre, error = X.mean(axis=0), self._distance_error(X)
        values = np.empty((len(X), len(Y)), dtype=X.dtype)
        for columns in ranges(0, len(Y), _NARROW if len(Y) > _WIDE else max(len(Y), 1)):
            self._fill(values[:, columns], X, Y[columns], centre, error)
        return values

    def _fill(self, values: FloatArray, X: FloatArray, Y: FloatArray, centre: FloatArray, error: float) -> None:
        """Compute the entries in strips of rows, so that the distances of a strip stay in the cache."""
        factors, allowed = product_factors(X, Y, centre, error=error), ENTRY_ERROR[X.dtype] * self.bandwidth
        users = is_users(self)
        # Between near points, a user's kernel may be steeper than the error of a distance allows.
        enough = not factors.cancelled if error else not users
        for rows in ranges(0, len(X), max(1, _STRIP_ENTRIES // max(len(Y), 1))):
            strip = values[rows]
            if enough and error:
                squared = factors.squared(rows, out=strip)
            elif enough:
                squared = factors.product(rows, out=strip)
                enough = replace_nearest(squared, X[rows], Y, factors.rounding, allowed)
            if not enough:
                squared = squared_distances(X[rows], Y, centre, error=error).astype(X.dtype, copy=False)
            entries = self.profile(squared)
            if entries is not strip:
                strip[...] = entries
            if users and not np.isfinite(strip).all():
                raise ValueError(f"The 'profile' method of {type(self).__name__} must return finite values.")

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
        weighted_sums = (slopes @ weighted).reshape(len(X), X.shape[1], -1)
        return np.asarray(X[:, :, np.newaxis] * (slopes @ weights)[:, np.newaxis, :] - weighted_sums)

    def _block_of_tiny_bandwidth(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the entries from differences in units of the bandwidth, the square of which would underflow."""
        if X.dtype == np.float32:
            return self.block(X.astype(np.float64), Y.astype(np.float64)).astype(np.float32)
        rows, columns = (each.ravel() for each in np.indices((len(X), len(Y))))
        squared = squares_of_differences(X, Y, rows, columns, unit=self.bandwidth).reshape(len(X), len(Y))
        return replace(self, bandwidth=1.0).profile(squared)

    def _distance_error(self, X: FloatArray) -> float:
        """Return the allowed error of squared distances; zero if f has no derivative at zero.

        Such an f of the package changes by at most the error of the distance divided by the bandwidth.
        """
        return ENTRY_ERROR[X.dtype] * self.bandwidth * self.bandwidth if self._smooth_at_zero else 0.0

    @property
    def _smooth_at_zero(self) -> bool:
        """Whether f has a finite derivative at zero, so that it does not amplify errors of small squared distances."""
        if not is_users(self):
            return True
        drops = 1 - np.asarray(replace(self, bandwidth=1.0).profile(_NEAR_ZERO.copy()), dtype=np.float64)
        return bool((drops <= _STEEPEST * _NEAR_ZERO).all())

    def _divide(self, values: FloatArray, times: int) -> FloatArray:
        """Divide in place by the bandwidth or by its square, without overflow of intermediate results."""
        limits = np.finfo(values.dtype)
        tiny, largest = float(limits.tiny), float(limits.max)
        inverse = min(max(1 / self.bandwidth if self.bandwidth > tiny else np.inf, tiny), largest)
        with np.errstate(over="ignore", under="ignore"):
            factor = float(np.float64(inverse) ** times)  # infinite where a power of a float would raise
            if limits.tiny < factor < limits.max:
                values *= factor
                return values
            for _ in range(times):
                values *= inverse
        return values


def kernel_parameters(kernel: RadialKernel) -> dict[str, float | list[float]]:
    """Return the arguments from which the class creates an equal kernel."""
    values = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    return {name: list(value) if isinstance(value, tuple) else float(value) for name, value in values.items()}


def check_profile(kernel: RadialKernel) -> None:
    """Raise a ValueError unless the profile of a user's kernel is 1 at distance 0, decreases, and has the bandwidth."""
    own = replace(kernel.core, bandwidth=1.0)
    distances = _CHECKED
    values = np.array(own.profile(np.square(distances)), dtype=np.float64)
    name = f"The 'profile' method of {type(kernel).__name__} must"
    if values.shape != distances.shape or not np.isfinite(values).all():
        raise ValueError(f"{name} return a finite value for each squared distance. Got {values} instead.")
    if abs(values[0] - 1) > _PROFILE_ERROR:
        raise ValueError(
            f"{name} be 1 at distance 0; a multiple of a kernel is written as 2.0 * kernel. Got {values[0]:g} instead."
        )
    if (np.diff(values) > _PROFILE_ERROR).any():
        i = int(np.argmax(np.diff(values)))
        raise ValueError(
            f"{name} decrease with the distance. Got {values[i]:g} at distance {distances[i]:g} and {values[i + 1]:g} "
            f"at distance {distances[i + 1]:g} instead."
        )
    doubled = np.asarray(replace(own, bandwidth=2.0).profile(np.square(2 * distances)))
    if (np.abs(doubled - values) > _PROFILE_ERROR).any():
        i = int(np.argmax(np.abs(doubled - values)))
        raise ValueError(
            f"{name} depend on the distance divided by the bandwidth. Got {values[i]:g} at distance {distances[i]:g} "
            f"with bandwidth 1, and {doubled[i]:g} at twice the distance with bandwidth 2 instead."
        )


def _shown(value: Any) -> str:
    """Return the representation of a number or of lengths; many lengths are abbreviated."""
    if not isinstance(value, tuple) or len(value) <= _MAX_SHOWN:
        return repr(value)
    first = ", ".join(f"{length:.6g}" for length in value[: _MAX_SHOWN // 2])
    return f"({first}, ..., {value[-1]:.6g}: {len(value)} lengths)"
