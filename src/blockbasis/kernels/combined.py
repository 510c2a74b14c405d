"""Scales, sums and products of kernels, and white noise as a part of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_positive
from blockbasis.kernels.base import Kernel
from blockbasis.kernels.linear_map import LinearMap, combined
from blockbasis.kernels.metric import Within

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

# --- noise -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class White(Kernel):
    """White noise: k(x, x) is ``variance``, and k(x, y) is zero for two different points of a data set.

    The variance is added to the diagonal of a symmetric kernel matrix, K + variance I, and not to the matrix of two
    sets of points, even where points are equal. This is the convention of scikit-learn's ``WhiteKernel``.

    Parameters
    ----------
    variance : float

    Examples
    --------
    >>> import blockbasis as bb
    >>> kernel = bb.Gaussian(1.0) + bb.White(0.5)
    >>> kernel([[0.0], [9.0]]).round(4)
    array([[1.5, 0. ],
           [0. , 1.5]])
    >>> kernel([[0.0]], [[0.0]])
    array([[1.]])
    """

    variance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", check_positive(self.variance, name="variance", caller="White"))

    @property
    def at_zero(self) -> float:
        return 0.0

    @property
    def noise(self) -> float:
        return self.variance

    def without_noise(self) -> Kernel:
        return Zero()

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.zeros((len(X), len(Y)), dtype=X.dtype)

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        return np.zeros((*X.shape, weights.shape[1]))

    def bound(self, distances: FloatArray) -> FloatArray:
        return np.zeros(distances.shape)

    def unit_maps(self) -> list[LinearMap | float] | None:
        return []


@dataclass(frozen=True)
class Zero(White):
    """The zero kernel: white noise of variance zero."""

    variance: float = 0.0

    def __post_init__(self) -> None:
        pass

    def without_noise(self) -> Kernel:
        return self


# --- scales ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """Product of a kernel and a positive number, as ``2.0 * kernel`` returns it.

    Parameters
    ----------
    kernel : Kernel
    scale : float

    Examples
    --------
    >>> import blockbasis as bb
    >>> 2.0 * bb.Gaussian(1.0)
    2.0 * Gaussian(bandwidth=1.0)
    """

    kernel: Kernel
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive(self.scale, name="scale", caller="Scaled"))

    def __repr__(self) -> str:
        return f"{self.scale!r} * {_shown(self.kernel)}"

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        values = self.kernel.block(X, Y)
        values *= self._factor(X.dtype)
        return values

    def _factor(self, dtype: np.dtype[Any]) -> Any:
        """Return the scale in the dtype of the points; raise a ValueError if it overflows or underflows."""
        limits = np.finfo(dtype)
        if not float(limits.tiny) <= self.scale <= float(limits.max):
            raise ValueError(
                f"The 'scale' parameter of Scaled must be a number that {dtype} can hold. Got {self.scale!r} instead."
            )
        return dtype.type(self.scale)

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        return self.scale * self.kernel.block_gradient(X, Y, weights, factors)

    @property
    def at_zero(self) -> float | None:
        return None if self.kernel.at_zero is None else self.scale * self.kernel.at_zero

    @property
    def noise(self) -> float:
        return self.scale * self.kernel.noise

    def without_noise(self) -> Kernel:
        return _scaled(self.kernel.without_noise(), self.scale) if self.noise else self

    @property
    def n_features(self) -> int | None:
        return self.kernel.n_features

    @property
    def map(self) -> LinearMap | None:
        return self.kernel.map

    @property
    def core(self) -> Kernel:
        return _scaled(self.kernel.core, self.scale)

    def bound(self, distances: FloatArray) -> FloatArray:
        return self.scale * self.kernel.bound(distances)

    def unit_maps(self) -> list[LinearMap | float] | None:
        return self.kernel.unit_maps()

    def leaves(self) -> Iterator[Kernel]:
        yield from self.kernel.leaves()


def scaled(kernel: Kernel, scale: Any) -> Kernel:
    """Return ``scale * kernel``; if the kernel is scaled already, the scales are multiplied."""
    return Scaled(kernel.kernel, kernel.scale * float(scale)) if isinstance(kernel, Scaled) else Scaled(kernel, scale)


def _scaled(kernel: Kernel, scale: float) -> Kernel:
    return kernel if isinstance(kernel, Zero) else Scaled(kernel, scale)


# --- sums and products -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Combined(Kernel):
    """Base class of sums and products.

    If all parts have the same coordinates, they are the coordinates of the combined kernel. Otherwise the squared
    distance in its coordinates is the sum of the squared distances of all parts, each in units of the length scale of
    the part. If a part is not a function of x - y, the coordinates are the columns of the points.
    """

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        bad = [part for part in self.parts if not isinstance(part, Kernel)]
        if bad or len(self.parts) < 2:
            raise TypeError(
                f"The 'parts' parameter of {type(self).__name__} must be two kernels or more. "
                f"Got {bad[0] if bad else self.parts!r} instead."
            )
        wanted = {part.n_features for part in self.parts if part.n_features is not None}
        if len(wanted) > 1:
            raise ValueError(
                f"The parts of a {type(self).__name__} must take points of the same number of columns. "
                f"Got {' and '.join(map(str, sorted(wanted)))} instead."
            )

    @property
    def n_features(self) -> int | None:
        return next((part.n_features for part in self.parts if part.n_features is not None), None)

    @property
    def map(self) -> LinearMap | None:
        return self._coordinates[0]

    @property
    def core(self) -> Kernel:
        return self._coordinates[1]

    @cached_property
    def _coordinates(self) -> tuple[LinearMap | None, Kernel]:
        """Return `map` and `core`."""
        if self.noise:
            rest = self.without_noise()
            return rest.map, rest.core
        units = self.unit_maps()
        if units is None:
            return None, self
        maps = [part.map for part in self.parts]
        if all(each == maps[0] for each in maps):
            return maps[0], replace(self, parts=tuple(part.core for part in self.parts))
        d = self.n_features
        assert d is not None  # parts of any number of columns have no maps
        whole, inverse = combined(
            [each if isinstance(each, LinearMap) else LinearMap(np.full(d, each)) for each in units]
        )
        cores = [Within(part.core, inverse if part.map is None else part.map.after(inverse)) for part in self.parts]
        return whole, replace(self, parts=tuple(cores))

    def unit_maps(self) -> list[LinearMap | float] | None:
        every: list[LinearMap | float] = []
        for part in self.parts:
            units = part.unit_maps()
            if units is None:
                return None
            every += units
        return every

    def leaves(self) -> Iterator[Kernel]:
        for part in self.parts:
            yield from part.leaves()

    def _clipped(self, values: FloatArray) -> FloatArray:
        """Return the values reduced to at most k(x, x), which rounding in float32 can exceed."""
        return values if self.at_zero is None else np.minimum(values, values.dtype.type(self.at_zero), out=values)


@dataclass(frozen=True, repr=False)
class Sum(_Combined):
    """Sum of kernels, as ``first + second`` returns it.

    Parameters
    ----------
    parts : tuple of Kernel

    Examples
    --------
    >>> import blockbasis as bb
    >>> kernel = 2.0 * bb.Gaussian(1.0) + bb.Laplacian(3.0)
    >>> kernel
    2.0 * Gaussian(bandwidth=1.0) + Laplacian(bandwidth=3.0)
    >>> float(kernel([[0.0]], [[0.0]])[0, 0])
    3.0
    """

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        values = self.parts[0].block(X, Y)
        for part in self.parts[1:]:
            if not isinstance(part, White):
                values += part.block(X, Y)
        return self._clipped(values)

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        total = self.parts[0].block_gradient(X, Y, weights, factors)
        for part in self.parts[1:]:
            total += part.block_gradient(X, Y, weights, factors)
        return total

    @property
    def at_zero(self) -> float | None:
        values = [part.at_zero for part in self.parts]
        return None if None in values else sum(value for value in values if value is not None)

    @property
    def noise(self) -> float:
        return sum(part.noise for part in self.parts)

    def without_noise(self) -> Kernel:
        if not self.noise:
            return self
        parts = [part.without_noise() for part in self.parts]
        parts = [part for part in parts if not isinstance(part, Zero)]
        return (Sum(tuple(parts)) if len(parts) > 1 else parts[0]) if parts else Zero()

    def bound(self, distances: FloatArray) -> FloatArray:
        return np.asarray(sum(part.bound(distances) for part in self.parts))


@dataclass(frozen=True, repr=False)
class Product(_Combined):
    """Product of kernels, as ``first * second`` returns it.

    Parameters
    ----------
    parts : tuple of Kernel

    Examples
    --------
    >>> import blockbasis as bb
    >>> kernel = bb.Gaussian([1.0, 5.0]) * bb.Cauchy(2.0)
    >>> kernel
    Gaussian(bandwidth=(1.0, 5.0)) * Cauchy(bandwidth=2.0)
    >>> float(kernel([[0.0, 0.0]], [[0.0, 2.0]])[0, 0].round(4))
    0.4261
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(part.noise for part in self.parts) and any(part.at_zero is None for part in self.parts):
            raise ValueError(
                "The parts of a Product must have the same k(x, x) for all x where one of them has white noise. "
                f"Got {self!r} instead."
            )

    def __repr__(self) -> str:
        first, *others = self.parts
        shown = [repr(first) if isinstance(first, Scaled) else _shown(first)]
        return " * ".join(shown + [f"({part!r})" if isinstance(part, Scaled) else _shown(part) for part in others])

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        values = self.parts[0].block(X, Y)
        for part in self.parts[1:]:
            values *= part.block(X, Y)
        return self._clipped(values)

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        blocks = [part.block(X, Y) for part in self.parts]
        total = np.zeros((*X.shape, weights.shape[1]))
        for i, part in enumerate(self.parts):
            others = [*blocks[:i], *blocks[i + 1 :], *([] if factors is None else [factors])]
            total += part.block_gradient(X, Y, weights, reduce(np.multiply, others))
        return total

    @property
    def at_zero(self) -> float | None:
        values = [part.at_zero for part in self.parts]
        return None if None in values else math.prod(value for value in values if value is not None)

    @property
    def noise(self) -> float:
        if not any(part.noise for part in self.parts):
            return 0.0
        values = [(part.at_zero or 0.0, part.noise) for part in self.parts]
        return math.prod(value + noise for value, noise in values) - math.prod(value for value, _ in values)

    def without_noise(self) -> Kernel:
        if not self.noise:
            return self
        parts = tuple(part.without_noise() for part in self.parts)
        return Zero() if any(isinstance(part, Zero) for part in parts) else Product(parts)

    def bound(self, distances: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            values = reduce(np.multiply, [part.bound(distances) for part in self.parts])
        return np.where(np.isnan(values), 0.0, values)  # zero times a kernel without a bound


def added(first: Kernel, second: Kernel) -> Kernel:
    """Return ``first + second`` as one sum of the parts of both."""
    return Sum(tuple(part for each in (first, second) for part in (each.parts if isinstance(each, Sum) else (each,))))


def multiplied(first: Kernel, second: Kernel) -> Kernel:
    """Return ``first * second`` as one product of the parts of both."""
    return Product(
        tuple(part for each in (first, second) for part in (each.parts if isinstance(each, Product) else (each,)))
    )


def _shown(kernel: Kernel) -> str:
    """Return the representation of a kernel in a product; sums, products and multiples are in brackets."""
    return f"({kernel!r})" if isinstance(kernel, (_Combined, Scaled)) else repr(kernel)
