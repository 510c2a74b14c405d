"""Kernels of mapped points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blockbasis.kernels.base import Kernel, mapped_block, mapped_gradient
from blockbasis.kernels.linear_map import LinearMap
from blockbasis.kernels.radial import RadialKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Largest number of entries of a metric in a representation.
_MAX_SHOWN = 9


@dataclass(frozen=True, repr=False)
class WithMetric(Kernel):
    """Kernel k(L x, L y), as `Kernel.with_metric` returns it.

    Parameters
    ----------
    kernel : Kernel
    metric : LinearMap
        L.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> L = np.array([[1.0, 1.0]])
    >>> bb.Gaussian(2.0).with_metric(L)([[0.0, 0.0]], [[1.0, -1.0]])
    array([[1.]])
    """

    kernel: Kernel
    metric: LinearMap

    def __repr__(self) -> str:
        L = self.metric.array
        shown = f"<array of shape {L.shape}>"
        if L.size <= _MAX_SHOWN:
            shown = "[" + ", ".join("[" + ", ".join(f"{entry:.6g}" for entry in row) + "]" for row in L) + "]"
        inner = repr(self.kernel)
        return f"{inner if isinstance(self.kernel, RadialKernel) else f'({inner})'}.with_metric({shown})"

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return mapped_block(self, X, Y)

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        return mapped_gradient(self, X, Y, weights, factors)

    @property
    def at_zero(self) -> float | None:
        return self.kernel.at_zero

    @property
    def noise(self) -> float:
        return self.kernel.noise

    def without_noise(self) -> Kernel:
        return replace(self, kernel=self.kernel.without_noise()) if self.noise else self

    @property
    def n_features(self) -> int:
        return self.metric.n_inputs

    @property
    def map(self) -> LinearMap | None:
        inner = self.kernel.map
        whole = self.metric if inner is None else inner.after(self.metric)
        units = self.core.unit_maps()
        # Euclidean distances do not change under rotations: a map with fewer rows gives the same distances.
        return whole.reduced() if units is not None and all(isinstance(unit, float) for unit in units) else whole

    @property
    def core(self) -> Kernel:
        return self.kernel.core

    def bound(self, distances: FloatArray) -> FloatArray:
        return self.core.bound(distances if self.map is None else self.map.smallest * distances)

    def unit_maps(self) -> list[LinearMap | float] | None:
        inner = self.kernel.unit_maps()
        if inner is None:
            return None
        return [
            LinearMap(each * self.metric.array) if isinstance(each, float) else each.after(self.metric)
            for each in inner
        ]

    def leaves(self) -> Iterator[Kernel]:
        yield from self.kernel.leaves()


@dataclass(frozen=True, repr=False)
class Within(WithMetric):
    """Kernel with a metric as a part of a sum or product of kernels with other metrics; `block` maps the points."""

    @property
    def map(self) -> None:
        return None

    @property
    def core(self) -> Kernel:
        return self.without_noise()

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self.kernel.block(self.metric(X), self.metric(Y))

    def block_gradient(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray, factors: FloatArray | None
    ) -> FloatArray:
        gradients = self.kernel.block_gradient(self.metric(X), self.metric(Y), weights, factors)
        return self.metric.transposed(gradients)

    def bound(self, distances: FloatArray) -> FloatArray:
        return self.kernel.bound(self.metric.smallest * distances)
