"""Functions of new points that a compressed kernel matrix has learnt, at a cost that does not depend on n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray
from blockbasis.kernels import Kernel
from blockbasis.matrix import tiles
from blockbasis.operator import BlockBasis
from blockbasis.partition import nearest


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions f(x) = K(x, S_i) W_i, i the cluster of the nearest centre: what prediction needs, and nothing of n.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_clusters, d)
    points : tuple of ndarray of shape (m_i, d)
        S_i of each cluster.
    weights : tuple of ndarray of shape (m_i, n_outputs)
        W_i of each cluster.
    """

    kernel: Kernel
    centers: FloatArray
    points: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]

    @classmethod
    def of(cls, A: BlockBasis, coefficients: FloatArray) -> Expansion:
        """The functions k(x, X) coefficients of the compressed kernel k, for coefficients of shape (n, n_outputs)."""
        assert A.kernel is not None
        points = tuple(extension.points for extension in A.extensions)
        if A.n_clusters == 1 and A.ranks[0] == A.shape[0]:  # nothing is compressed: the kernel is the exact one
            return cls(A.kernel, A.partition.centers, points, (coefficients[A.partition.order],))
        inner = A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False))
        pieces = np.split(inner, np.cumsum(A.ranks)[:-1])
        weights = tuple(ext.coefficients @ piece for ext, piece in zip(A.extensions, pieces, strict=True))
        return cls(A.kernel, A.partition.centers, points, weights)

    @property
    def n_outputs(self) -> int:
        return int(self.weights[0].shape[1])

    def __call__(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Values at new points, of shape (m, n_outputs), in memory that does not grow with m beyond the result."""
        with single_threaded():
            pieces = map_threads(self._values, [(X[tile],) for tile in self._tiles(len(X))], n_jobs, "predict")
        return np.concatenate(pieces)

    def _tiles(self, n_new: int) -> list[slice]:
        widest = max(len(points) for points in self.points)
        return tiles(n_new, max(widest, len(self.centers), self.n_outputs))

    def _values(self, X: FloatArray) -> FloatArray:
        values = np.empty((len(X), self.n_outputs), dtype=self.weights[0].dtype)
        for i, rows in self._grouped(X):
            points = self.points[i].astype(X.dtype, copy=False)
            values[rows] = self.kernel.block(X[rows], points) @ self.weights[i]
        return values

    def _grouped(self, X: FloatArray) -> list[tuple[int, IntArray]]:
        """Clusters that new points fall into, each with the rows of its points."""
        labels = nearest(X, self.centers)
        order = np.argsort(labels, kind="stable")
        present, starts = np.unique(labels[order], return_index=True)
        return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))
