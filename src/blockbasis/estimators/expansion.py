"""Functions of new points that a compressed kernel matrix has learnt, at a cost that does not depend on n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._linalg import eigenpairs
from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray
from blockbasis.kernels import Kernel
from blockbasis.matrix import KernelMatrix, tiles
from blockbasis.operator import BlockBasis
from blockbasis.partition import nearest
from blockbasis.settling import diagonal_of


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions f(x) = s(x) K(x, S_i) W_i, i the cluster of the nearest centre: all that prediction needs.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_clusters, d)
    points : tuple of ndarray of shape (m_i, d)
        S_i of each cluster.
    weights : tuple of ndarray of shape (m_i, n_outputs)
        W_i of each cluster.
    spreads : tuple of ndarray of shape (m_i, r_i)
        L_i of each cluster: the squared norm of K(x, S_i) L_i is the variance that the compressed kernel gives to x.
        None where there is one cluster, whose variances are right.
    largest : ndarray of shape (n_clusters,)
        The largest variance that it gives to a point which it was made from.

    Notes
    -----
    The compressed kernel is u(x)ᵀ C u(x'), u(x) the coordinates of x in the basis of its cluster. A new point far from
    the points of its cluster may have a u(x) so large that u(x)ᵀ C u(x) exceeds k(x, x), the variance that it stands
    for: u(x) is then shortened, by the factor s(x), until both are equal. Where the points of the cluster themselves
    have more, so may new points.
    """

    kernel: Kernel
    centers: FloatArray
    points: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]
    spreads: tuple[FloatArray, ...]
    largest: FloatArray

    @classmethod
    def of(cls, A: BlockBasis, coefficients: FloatArray) -> Expansion:
        """The functions k(x, X) coefficients of the compressed kernel k, for coefficients of shape (n, n_outputs)."""
        assert A.kernel is not None
        points = tuple(extension.points for extension in A.extensions)
        if A.n_clusters == 1 and A.ranks[0] == A.shape[0]:  # nothing is compressed: the kernel is the exact one
            return cls(A.kernel, A.partition.centers, points, (coefficients[A.partition.order],), (), np.empty(0))
        inner = A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False))
        pieces = np.split(inner, np.cumsum(A.ranks)[:-1])
        weights = tuple(ext.coefficients @ piece for ext, piece in zip(A.extensions, pieces, strict=True))
        largest = np.array([diagonal_of(U, A.inner.block(i, i)).max() for i, U in enumerate(A.basis.blocks)])
        return cls(A.kernel, A.partition.centers, points, weights, _spreads(A) if A.n_clusters > 1 else (), largest)

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
            block = self._kernel_block(X[rows], i)
            values[rows] = self._shortening(X[rows], block, i)[:, np.newaxis] * (block @ self.weights[i])
        return values

    def _kernel_block(self, X: FloatArray, i: int) -> FloatArray:
        return self.kernel.block(X, self.points[i].astype(X.dtype, copy=False))

    def _shortening(self, X: FloatArray, block: FloatArray, i: int) -> FloatArray:
        """s(x) of new points in cluster ``i``, from their kernel entries."""
        if not self.spreads:
            return np.ones(len(X))
        spread = block @ self.spreads[i]
        held = np.einsum("ij,ij->i", spread, spread, dtype=np.float64)
        own = np.maximum(self._own(X), self.largest[i])
        return np.asarray(np.sqrt(np.divide(own, held, out=np.ones(len(X)), where=held > own)))

    def _own(self, X: FloatArray) -> FloatArray:
        return KernelMatrix(self.kernel, X).diagonal(slice(0, len(X))).astype(np.float64)

    def _grouped(self, X: FloatArray) -> list[tuple[int, IntArray]]:
        """Clusters that new points fall into, each with the rows of its points."""
        labels = nearest(X, self.centers)
        order = np.argsort(labels, kind="stable")
        present, starts = np.unique(labels[order], return_index=True)
        return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


def _spreads(A: BlockBasis) -> tuple[FloatArray, ...]:
    """T_i times a square root of C_ii."""
    spreads = []
    for i, extension in enumerate(A.extensions):
        values, vectors = eigenpairs(A.inner.block(i, i).astype(np.float64))
        root = vectors * np.sqrt(np.maximum(values, 0))
        spreads.append((extension.coefficients @ root).astype(extension.coefficients.dtype))
    return tuple(spreads)
