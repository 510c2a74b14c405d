"""Kernels: frozen value objects that evaluate blocks of a kernel matrix.

A radial kernel is a profile f of the squared distance, with f(0) = 1 and f decreasing. Every bandwidth follows the
paper's convention: the distance is divided by ``bandwidth`` and by nothing else.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from blockbasis._typing import FloatArray
from blockbasis._validation import check_points, check_positive


class Kernel(ABC):
    """A positive-definite function of two points."""

    @abstractmethod
    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Kernel of every row of ``X`` with every row of ``Y``; the arrays are trusted, not checked."""

    def __call__(self, X: Any, Y: Any = None) -> FloatArray:
        """Kernel matrix of ``X`` with ``Y``, or with itself.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            None stands for ``X``; the result is then exactly symmetric.

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
        K = (K + K.T) / 2
        if isinstance(self, RadialKernel):
            np.fill_diagonal(K, 1)
        return K


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """A kernel f(|x - y|^2) with f(0) = 1 and f decreasing.

    Parameters
    ----------
    bandwidth : float
        The length by which distances are divided.
    """

    bandwidth: float

    def __post_init__(self) -> None:
        bandwidth = check_positive(self.bandwidth, name="bandwidth", caller=type(self).__name__)
        object.__setattr__(self, "bandwidth", bandwidth)

    @abstractmethod
    def profile(self, squared_distances: FloatArray) -> FloatArray:
        """F at each squared distance; the array is overwritten and returned."""

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        # |x|^2 + |y|^2 - 2xy cancels when the points are far from the origin, so they are centred on the mean of X: in
        # a factorization that is the centre of a cluster.
        centre = X.mean(axis=0)
        # A root magnifies what rounding leaves of small squared distances: no float32 for kernels that take one.
        precise = not self._smooth_at_zero or _blurred(X, centre, self.bandwidth)
        precision = np.float64 if precise else X.dtype

        def at(rows: slice, columns: slice) -> FloatArray:
            near, far = X[rows].astype(precision, copy=False), Y[columns].astype(precision, copy=False)
            squared = squared_distances(near - centre, far - centre, snap=not self._smooth_at_zero)
            return self.profile(squared.astype(X.dtype, copy=False))

        if len(X) * len(Y) <= _SMALL:
            return at(slice(None), slice(None))
        values = np.empty((len(X), len(Y)), dtype=X.dtype)
        for rows, columns in itertools.product(_tiles(len(X), len(Y)), _tiles(len(Y), len(X))):
            values[rows, columns] = at(rows, columns)  # distances are in the cache when the profile is taken
        return values

    @property
    def _smooth_at_zero(self) -> bool:
        """Whether rounding in a squared distance near zero stays as small in the kernel."""
        return True

    def _divide(self, values: FloatArray, times: int) -> FloatArray:
        """Divide by the bandwidth, once or twice, in place: no bandwidth overflows on the way."""
        limits = np.finfo(values.dtype)
        inverse = min(max(1 / self.bandwidth if self.bandwidth > limits.tiny else np.inf, limits.tiny), limits.max)
        with np.errstate(over="ignore", under="ignore"):
            for _ in range(times):
                values *= inverse
        return values


#: Error that rounding may leave in float32 distances, against the square of their scale: float32 is for tolerances
#: of 1e-5 and more.
_BLURRED = 1e-5
#: Sides of a tile of entries that stays in a core's cache, longer where the other is shorter; and entries up to which
#: tiles do not pay.
_TILE_SIDE = 2**8
_SMALL = 4 * _TILE_SIDE**2


def _tiles(length: int, other: int) -> list[slice]:
    """Ranges that cover one side of a block whose other side is given."""
    step = max(_TILE_SIDE, _TILE_SIDE**2 // max(other, 1))
    return [slice(start, start + step) for start in range(0, length, step)]


def squared_distances(rows: FloatArray, columns: FloatArray, *, snap: bool) -> FloatArray:
    """Squared Euclidean distances between points near the origin.

    ``snap`` sets to zero what rounding cannot tell from zero, for kernels that take a square root of the result.
    """
    sums = np.add.outer(*(np.einsum("ij,ij->i", each, each) for each in (rows, columns)))
    squared: FloatArray = (-2 * rows) @ columns.T
    squared += sums
    if snap:
        sums *= 4 * (rows.shape[1] + 2) * np.finfo(squared.dtype).eps
        squared[squared <= sums] = 0
    else:
        np.maximum(squared, 0, out=squared)
    return squared


def _blurred(X: FloatArray, centre: FloatArray, scale: float) -> bool:
    """Whether float32 distances between near points are too coarse against the length that matters."""
    if X.dtype != np.float32:
        return False
    rows = X - centre
    largest = float(np.einsum("ij,ij->i", rows, rows).max(initial=0.0))
    return math.sqrt(X.shape[1]) * float(np.finfo(np.float32).eps) * largest > _BLURRED * scale * scale


def _decayed(exponents: FloatArray) -> FloatArray:
    """exp(-x), in place; zero where its square would be a denormal number, with which arithmetic is slow."""
    vanished = exponents > -0.5 * math.log(np.finfo(exponents.dtype).tiny)
    np.negative(exponents, out=exponents)
    values = np.exp(exponents, out=exponents)
    values[vanished] = 0
    return values


@dataclass(frozen=True)
class Gaussian(RadialKernel):
    """exp(-|x - y|^2 / bandwidth^2).

    Examples
    --------
    >>> import blockbasis as bb
    >>> bb.Gaussian(2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> bb.Gaussian.from_gamma(0.25)
    Gaussian(bandwidth=2.0)
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        return _decayed(self._divide(squared_distances, 2))

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """The same kernel as scikit-learn's exp(-gamma |x - y|^2)."""
        return cls(1 / math.sqrt(check_positive(gamma, name="gamma", caller="Gaussian.from_gamma")))

    @classmethod
    def from_length_scale(cls, length_scale: float) -> Gaussian:
        """The same kernel as scikit-learn's ``RBF(length_scale)``, exp(-|x - y|^2 / (2 length_scale^2))."""
        return cls(
            math.sqrt(2) * check_positive(length_scale, name="length_scale", caller="Gaussian.from_length_scale")
        )

    @property
    def gamma(self) -> float:
        """scikit-learn's gamma of this kernel."""
        return 1 / self.bandwidth**2

    @property
    def length_scale(self) -> float:
        """Length scale of scikit-learn's ``RBF`` that equals this kernel."""
        return self.bandwidth / math.sqrt(2)


@dataclass(frozen=True)
class Laplacian(RadialKernel):
    """exp(-|x - y| / bandwidth), with the Euclidean norm (scikit-learn's ``laplacian_kernel`` has the 1-norm).

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.Laplacian(2.0)([[0.0, 0.0]], [[3.0, 4.0]])[0, 0].round(4))
    0.0821
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        return _decayed(self._divide(np.sqrt(squared_distances, out=squared_distances), 1))

    @classmethod
    def from_length_scale(cls, length_scale: float) -> Laplacian:
        """The same kernel as scikit-learn's ``Matern(length_scale, nu=0.5)``."""
        return cls(check_positive(length_scale, name="length_scale", caller="Laplacian.from_length_scale"))

    @property
    def length_scale(self) -> float:
        """Length scale of scikit-learn's ``Matern(nu=0.5)`` that equals this kernel."""
        return self.bandwidth

    @property
    def _smooth_at_zero(self) -> bool:
        return False


@dataclass(frozen=True)
class Matern(RadialKernel):
    """Matern kernel of smoothness ``nu``, with scikit-learn's meaning of the length scale.

    Parameters
    ----------
    bandwidth : float
        The length scale.
    nu : {0.5, 1.5, 2.5}, default=1.5
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"The 'nu' parameter of Matern must be one of 0.5, 1.5, 2.5. Got {self.nu!r} instead.")

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        scaled = self._divide(np.sqrt(squared_distances, out=squared_distances), 1)
        # exp vanishes long before: the polynomial must not become infinite.
        np.minimum(scaled, 1e4, out=scaled)
        scaled *= math.sqrt(2 * self.nu)
        decay = _decayed(scaled.copy())
        if self.nu == 0.5:
            return decay
        polynomial = 1 + scaled
        if self.nu == 2.5:
            scaled *= scaled
            scaled /= 3
            polynomial += scaled
        decay *= polynomial
        # (1 + s) exp(-s) rounds to just above 1 for tiny s.
        return np.minimum(decay, 1, out=decay)

    @classmethod
    def from_length_scale(cls, length_scale: float, nu: float = 1.5) -> Matern:
        """The same kernel as scikit-learn's ``Matern(length_scale, nu=nu)``."""
        return cls(check_positive(length_scale, name="length_scale", caller="Matern.from_length_scale"), nu)

    @property
    def length_scale(self) -> float:
        """Length scale of scikit-learn's ``Matern`` that equals this kernel."""
        return self.bandwidth

    @property
    def _smooth_at_zero(self) -> bool:
        return self.nu != 0.5


@dataclass(frozen=True)
class Cauchy(RadialKernel):
    """1 / (1 + |x - y|^2 / bandwidth^2).

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.Cauchy(1.0)([[0.0]], [[2.0]])[0, 0])
    0.2
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        scaled = self._divide(squared_distances, 2)
        scaled += 1
        return np.reciprocal(scaled, out=scaled)


@dataclass(frozen=True)
class InverseMultiquadric(RadialKernel):
    """1 / sqrt(1 + |x - y|^2 / bandwidth^2).

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.InverseMultiquadric(4.0)([[0.0]], [[3.0]])[0, 0])
    0.8
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        scaled = self._divide(squared_distances, 2)
        scaled += 1
        root = np.sqrt(scaled, out=scaled)
        return np.reciprocal(root, out=root)


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """(1 + |x - y|^2 / (alpha bandwidth^2))^-alpha: the Gaussian of the same bandwidth as alpha grows.

    Parameters
    ----------
    bandwidth : float
    alpha : float, default=1.0
        How many scales are mixed; the smaller, the heavier the tail.

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.RationalQuadratic(1.0, alpha=2.0)([[0.0]], [[2.0]])[0, 0].round(4))
    0.1111
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", check_positive(self.alpha, name="alpha", caller="RationalQuadratic"))

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        scaled = self._divide(squared_distances, 2)
        scaled /= self.alpha
        scaled += 1
        return np.power(scaled, -self.alpha, out=scaled)

    @classmethod
    def from_length_scale(cls, length_scale: float, alpha: float = 1.0) -> RationalQuadratic:
        """The same kernel as scikit-learn's ``RationalQuadratic(length_scale, alpha)``."""
        checked = check_positive(length_scale, name="length_scale", caller="RationalQuadratic.from_length_scale")
        return cls(math.sqrt(2) * checked, alpha)

    @property
    def length_scale(self) -> float:
        """Length scale of scikit-learn's ``RationalQuadratic`` that equals this kernel."""
        return self.bandwidth / math.sqrt(2)


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A user's own function k(X, Y) -> array, checked each time it answers.

    Parameters
    ----------
    function : callable
        Takes points of shape (n, d) and (m, d) and returns real, finite values of shape (n, m).
    """

    function: Callable[[FloatArray, FloatArray], Any]

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        values = np.asarray(self.function(X, Y))
        expected = (X.shape[0], Y.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"The kernel callable must return an array of shape {expected} for points of shapes {X.shape} and "
                f"{Y.shape}. Got shape {values.shape} instead."
            )
        if values.dtype.kind not in "fiub":
            raise TypeError(f"The kernel callable must return real numbers. Got dtype {values.dtype} instead.")
        if not np.isfinite(values).all():
            raise ValueError("The kernel callable must return finite values. Got NaN or infinity instead.")
        return np.array(values, dtype=X.dtype)

    @staticmethod
    def check_symmetric(K: FloatArray) -> None:
        """Raise unless the function's values on some points with themselves are symmetric."""
        scale = np.abs(K).max(initial=0.0)
        tolerance = math.sqrt(np.finfo(K.dtype).eps) * scale
        if np.abs(K - K.T).max(initial=0.0) > tolerance:
            i, j = np.unravel_index(int(np.abs(K - K.T).argmax()), K.shape)
            raise ValueError(
                f"The kernel callable must be symmetric, k(x, y) = k(y, x). Got {K[i, j]!r} and {K[j, i]!r} for the "
                "same two points instead; use factorize_cross for a kernel that is not."
            )

    @staticmethod
    def check_semidefinite(K: FloatArray) -> None:
        """Raise unless the function's values on some points with themselves can be those of a kernel."""
        values = np.linalg.eigvalsh((K + K.T) / 2)
        if values[0] < -math.sqrt(np.finfo(K.dtype).eps) * max(values[-1], 0.0):
            raise ValueError(
                f"The kernel callable must be positive semi-definite. Got a smallest eigenvalue of {values[0]:.3g} "
                f"beside a largest of {values[-1]:.3g} on {len(values)} of the points instead; factorize with "
                "algorithm='paper' and 'rank' given takes any symmetric function."
            )


def as_kernel(kernel: Any, *, caller: str) -> Kernel:
    """A `Kernel` as it is; a function wrapped; anything else refused."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return CallableKernel(kernel)
    raise TypeError(
        f"The 'kernel' parameter of {caller} must be a kernel such as blockbasis.Gaussian(1.0), or a function "
        f"k(X, Y) -> array. Got {kernel!r} instead."
    )


RADIAL_KERNELS: dict[str, type[RadialKernel]] = {
    cls.__name__: cls for cls in (Gaussian, Laplacian, Matern, Cauchy, InverseMultiquadric, RationalQuadratic)
}


def kernel_parameters(kernel: RadialKernel) -> dict[str, float]:
    """The numbers that, with the class, make the kernel again."""
    return {field.name: float(getattr(kernel, field.name)) for field in fields(kernel)}
