"""Radial kernels: frozen value objects that evaluate blocks of a kernel matrix.

A radial kernel is a profile f of the squared distance, with f(0) = 1 and f decreasing. Every bandwidth follows the
paper's convention: the distance is divided by ``bandwidth`` and by nothing else.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_lengths, check_positive
from blockbasis.kernels.radial import RadialKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


def _decayed(exponents: FloatArray) -> FloatArray:
    """Replace x by exp(-x), or by zero if the square of exp(-x) is a denormal number: arithmetic with them is slow."""
    most = -0.5 * math.log(np.finfo(exponents.dtype).tiny)
    if exponents.max(initial=0.0) <= most:
        np.negative(exponents, out=exponents)
        return np.exp(exponents, out=exponents)
    vanished = exponents > most
    np.minimum(exponents, most, out=exponents)  # exp is slow where it underflows, too
    np.negative(exponents, out=exponents)
    values = np.exp(exponents, out=exponents)
    values[vanished] = 0
    return values


def _multiplied(lengths: Any, factor: float) -> Any:
    """Return a length, or each of several lengths, times a factor."""
    return tuple(factor * length for length in lengths) if isinstance(lengths, tuple) else factor * lengths


@dataclass(frozen=True, repr=False)
class Gaussian(RadialKernel):
    """exp(-|x - y|^2 / bandwidth^2).

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column.

    Examples
    --------
    >>> import blockbasis as bb
    >>> bb.Gaussian(2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> bb.Gaussian.from_gamma(0.25)
    Gaussian(bandwidth=2.0)
    >>> bb.Gaussian([1.0, 10.0])([[0.0, 0.0]], [[1.0, 10.0]]).round(4)
    array([[0.1353]])
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        return _decayed(self._divide(squared_distances, 2))

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        return -self._divide(self.profile(squared_distances), 2)

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """The same kernel as scikit-learn's exp(-gamma |x - y|^2)."""
        return cls(1 / math.sqrt(check_positive(gamma, name="gamma", caller="Gaussian.from_gamma")))

    @classmethod
    def from_length_scale(cls, length_scale: Any) -> Gaussian:
        """The same kernel as scikit-learn's ``RBF(length_scale)``, exp(-|x - y|^2 / (2 length_scale^2))."""
        lengths = check_lengths(length_scale, name="length_scale", caller="Gaussian.from_length_scale")
        return cls(_multiplied(lengths, math.sqrt(2)))

    @property
    def gamma(self) -> Any:
        """scikit-learn's gamma of this kernel; one for each column where there are several bandwidths."""
        if isinstance(self.bandwidth, tuple):
            return tuple(1 / length**2 for length in self.bandwidth)
        return 1 / self.bandwidth**2

    @property
    def length_scale(self) -> Any:
        """Length scale of scikit-learn's ``RBF`` that equals this kernel."""
        return _multiplied(self.bandwidth, 1 / math.sqrt(2))


@dataclass(frozen=True, repr=False)
class Laplacian(RadialKernel):
    """exp(-|x - y| / bandwidth), with the Euclidean norm (scikit-learn's ``laplacian_kernel`` has the 1-norm).

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column.

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.Laplacian(2.0)([[0.0, 0.0]], [[3.0, 4.0]])[0, 0].round(4))
    0.0821
    """

    def profile(self, squared_distances: FloatArray) -> FloatArray:
        return _decayed(self._divide(np.sqrt(squared_distances, out=squared_distances), 1))

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        return _kinked(self, squared_distances)

    @classmethod
    def from_length_scale(cls, length_scale: Any) -> Laplacian:
        """The same kernel as scikit-learn's ``Matern(length_scale, nu=0.5)``."""
        return cls(check_lengths(length_scale, name="length_scale", caller="Laplacian.from_length_scale"))

    @property
    def length_scale(self) -> Any:
        """Length scale of scikit-learn's ``Matern(nu=0.5)`` that equals this kernel."""
        return self.bandwidth

    @property
    def _smooth_at_zero(self) -> bool:
        return False


def _kinked(kernel: Laplacian | Matern, squared_distances: FloatArray) -> FloatArray:
    """Return the derivative of exp(-sqrt(s) / h) with respect to s, and zero at s = 0."""
    distances = np.sqrt(squared_distances)
    values = kernel._divide(kernel.profile(squared_distances), 1)
    return np.asarray(np.divide(values, -2 * distances, out=np.zeros_like(values), where=distances > 0))


@dataclass(frozen=True, repr=False)
class Matern(RadialKernel):
    """Matern kernel of smoothness ``nu``, with scikit-learn's meaning of the length scale.

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        The length scale, or one for each column.
    nu : {0.5, 1.5, 2.5}, default=1.5

    Examples
    --------
    >>> import blockbasis as bb
    >>> float(bb.Matern(2.0, nu=1.5)([[0.0]], [[2.0]])[0, 0].round(4))
    0.4834
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.nu, numbers.Real) or self.nu not in (0.5, 1.5, 2.5):
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

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        if self.nu == 0.5:
            return _kinked(self, squared_distances)
        scaled = self._divide(np.sqrt(squared_distances), 1)
        scaled *= math.sqrt(2 * self.nu)
        slopes = _decayed(scaled.copy())
        if self.nu == 2.5:
            slopes *= np.where(slopes > 0, 1 + scaled, 0) / 3
        slopes *= -self.nu
        return self._divide(slopes, 2)

    @classmethod
    def from_length_scale(cls, length_scale: Any, nu: float = 1.5) -> Matern:
        """The same kernel as scikit-learn's ``Matern(length_scale, nu=nu)``."""
        return cls(check_lengths(length_scale, name="length_scale", caller="Matern.from_length_scale"), nu)

    @property
    def length_scale(self) -> Any:
        """Length scale of scikit-learn's ``Matern`` that equals this kernel."""
        return self.bandwidth

    @property
    def _smooth_at_zero(self) -> bool:
        return self.nu != 0.5


@dataclass(frozen=True, repr=False)
class Cauchy(RadialKernel):
    """1 / (1 + |x - y|^2 / bandwidth^2).

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column.

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

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        return -self._divide(self.profile(squared_distances) ** 2, 2)


@dataclass(frozen=True, repr=False)
class InverseMultiquadric(RadialKernel):
    """1 / sqrt(1 + |x - y|^2 / bandwidth^2).

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column.

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

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        return -0.5 * self._divide(self.profile(squared_distances) ** 3, 2)


@dataclass(frozen=True, repr=False)
class RationalQuadratic(RadialKernel):
    """(1 + |x - y|^2 / (alpha bandwidth^2))^-alpha: the Gaussian of the same bandwidth as alpha grows.

    Parameters
    ----------
    bandwidth : float or array-like of shape (d,)
        Length by which distances are divided, or one length for each column.
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
        np.log1p(scaled, out=scaled)  # the power of a rounded 1 + s / alpha is inaccurate for a large alpha
        scaled *= -self.alpha
        return np.exp(scaled, out=scaled)

    def derivative(self, squared_distances: FloatArray) -> FloatArray:
        return -self._divide(self.profile(squared_distances) ** (1 + 1 / self.alpha), 2)

    @classmethod
    def from_length_scale(cls, length_scale: Any, alpha: float = 1.0) -> RationalQuadratic:
        """The same kernel as scikit-learn's ``RationalQuadratic(length_scale, alpha)``."""
        lengths = check_lengths(length_scale, name="length_scale", caller="RationalQuadratic.from_length_scale")
        return cls(_multiplied(lengths, math.sqrt(2)), alpha)

    @property
    def length_scale(self) -> Any:
        """Length scale of scikit-learn's ``RationalQuadratic`` that equals this kernel."""
        return _multiplied(self.bandwidth, 1 / math.sqrt(2))


RADIAL_KERNELS: dict[str, type[RadialKernel]] = {
    cls.__name__: cls for cls in (Gaussian, Laplacian, Matern, Cauchy, InverseMultiquadric, RationalQuadratic)
}
