"""Functions of new points, at a cost that does not depend on the number of points they were learnt from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray
from blockbasis.kernels import Kernel
from blockbasis.matrix import tiles
from blockbasis.partition import nearest


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions f(x) = K(x, S_i) W_i, i the cluster of the nearest centre: all that prediction needs.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_clusters, d)
        In the coordinates of the kernel, as the points.
    points : tuple of ndarray of shape (m_i, d)
        S_i of each cluster.
    weights : tuple of ndarray of shape (m_i, n_outputs)
        W_i of each cluster.
    """

    kernel: Kernel
    centers: FloatArray
    points: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]

    @property
    def n_outputs(self) -> int:
        return int(self.weights[0].shape[1])

    def __call__(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Values at new points, of shape (m, n_outputs), in memory that does not grow with m beyond the result."""
        widest, core = max(len(points) for points in self.points), self.kernel.core
        pieces = [(core, X[tile]) for tile in tiles(len(X), max(widest, len(self.centers), self.n_outputs))]
        with single_threaded():
            return np.concatenate(map_threads(self._values, pieces, n_jobs, "predict"))

    def gradient(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Gradients at new points, of shape (m, d, n_outputs), in float64: of the function of each point's cluster."""
        widest = max(len(points) for points in self.points)
        pieces = [(X[tile],) for tile in tiles(len(X), max(widest, len(self.centers), X.shape[1] * self.n_outputs))]
        with single_threaded():
            return np.concatenate(map_threads(self._slopes, pieces, n_jobs, "gradient"))

    def _slopes(self, X: FloatArray) -> FloatArray:
        Z, core, into = self.kernel.coordinates(X), self.kernel.core, self.kernel.map
        slopes = np.empty((*X.shape, self.n_outputs))
        for i, rows in by_cluster(Z, self.centers):
            found = core.gradient(Z[rows], self.points[i], self.weights[i])
            slopes[rows] = found if into is None else into.transposed(found)
        return slopes

    def _values(self, core: Kernel, X: FloatArray) -> FloatArray:
        values = np.empty((len(X), self.n_outputs), dtype=self.weights[0].dtype)
        X = self.kernel.coordinates(X)
        for i, rows in by_cluster(X, self.centers):
            values[rows] = kernel_rows(core, X[rows], self.points[i]) @ self.weights[i]
        return values


def kernel_rows(kernel: Kernel, X: FloatArray, points: FloatArray) -> FloatArray:
    """K(X, points), in the finer precision of both.

    As the transpose of K(points, X): distances are centred on the first of both, and no new point, however far, is to
    blur those of others.
    """
    dtype = np.result_type(X, points)
    return kernel.block(points.astype(dtype, copy=False), X.astype(dtype, copy=False)).T


def by_cluster(X: FloatArray, centers: FloatArray) -> list[tuple[int, IntArray]]:
    """Clusters that new points fall into, each with the rows of its points."""
    labels = nearest(X, centers)
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))
