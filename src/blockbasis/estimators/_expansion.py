"""Prediction functions whose cost does not depend on the number of training points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis.estimators._blending import Blend

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.kernels import Kernel


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions f(x) = K(x, S_i) W_i, where i is the cluster with the nearest centre.

    Near the border between clusters, f(x) is a weighted mean of the functions of the clusters nearby.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_clusters, d)
        Centres of the clusters, in the coordinates of the kernel, like the points.
    points : tuple of ndarray of shape (m_i, d)
        S_i of each cluster.
    weights : tuple of ndarray of shape (m_i, n_outputs)
        W_i of each cluster.
    blend : Blend
        Weights of the clusters in that mean.
    """

    kernel: Kernel
    centers: FloatArray
    points: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]
    blend: Blend = Blend()

    @property
    def n_outputs(self) -> int:
        return int(self.weights[0].shape[1])

    def __call__(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Values at new points, of shape (m, n_outputs). Memory beyond the result does not grow with m."""
        widest, core = max(len(points) for points in self.points), self.kernel.core
        pieces = [(core, X[tile]) for tile in tiles(len(X), max(widest, len(self.centers), self.n_outputs))]
        with single_threaded():
            return np.concatenate(map_threads(self._values, pieces, n_jobs, "predict"))

    def gradient(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Gradients at new points, of shape (m, d, n_outputs), in float64."""
        widest = max(len(points) for points in self.points)
        pieces = [(X[tile],) for tile in tiles(len(X), max(widest, len(self.centers), X.shape[1] * self.n_outputs))]
        with single_threaded():
            return np.concatenate(map_threads(self._slopes, pieces, n_jobs, "gradient"))

    def _slopes(self, X: FloatArray) -> FloatArray:
        Z, core, into = self.kernel.coordinates(X).astype(np.float64, copy=False), self.kernel.core, self.kernel.map
        shares = self.blend.shares(Z, self.centers)
        slopes = np.zeros((*Z.shape, self.n_outputs))
        for (i, rows, weights), moving in zip(shares, self.blend.slopes(Z, self.centers, shares), strict=True):
            slopes[rows] += weights[:, np.newaxis, np.newaxis] * core.gradient(Z[rows], self.points[i], self.weights[i])
            if moving.any():  # product rule: gradients of the weights times the functions
                values = kernel_rows(core, Z[rows], self.points[i]) @ self.weights[i]
                slopes[rows] += moving[:, :, np.newaxis] * values[:, np.newaxis, :]
        return slopes if into is None else into.transposed(slopes)

    def _values(self, core: Kernel, X: FloatArray) -> FloatArray:
        values = np.zeros((len(X), self.n_outputs), dtype=self.weights[0].dtype)
        X = self.kernel.coordinates(X)
        for i, rows, shares in self.blend.shares(X, self.centers):
            values[rows] += shares[:, np.newaxis] * (kernel_rows(core, X[rows], self.points[i]) @ self.weights[i])
        return values


def whole_expansion(kernel: Kernel, X: FloatArray, coefficients: FloatArray) -> Expansion:
    """The function K(x, X) @ coefficients, with all points in one cluster."""
    points = kernel.coordinates(X)
    return Expansion(kernel, points.mean(axis=0, keepdims=True), (points,), (coefficients,))


def kernel_rows(kernel: Kernel, X: FloatArray, points: FloatArray) -> FloatArray:
    """K(X, points) in the higher precision of both.

    It is computed as the transpose of K(points, X), since distances are centred on the first argument. A new point far
    from the others does not add rounding errors to their distances then.
    """
    dtype = np.result_type(X, points)
    return kernel.block(points.astype(dtype, copy=False), X.astype(dtype, copy=False)).T
