"""Basis functions of clusters, evaluated at points that are read in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import offsets, tiles
from blockbasis.construction.diagonal import limit_rows
from blockbasis.construction.semidefinite import semidefinite_inner
from blockbasis.operators.inner import InnerMatrix
from blockbasis.partition import nearest

if TYPE_CHECKING:
    from blockbasis._utils.typing import BoolArray, FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.operators.extension import Extension

#: Kernel entries that are evaluated at once, 2 MB of float64: they stay in a core's cache.
_ENTRIES = 2**18
#: Share of a radius that is rounding: the outermost point of the sample is not far.
_ROUNDING = 1e-9


class ClusterValues(NamedTuple):
    """Basis functions of one cluster at the points of a piece that are nearest to its centre.

    ``rows`` are the indices of these points in the piece, ``values`` the functions, of shape (n_rows, r), ``lost`` the
    variance k(x, x) - u(x)ᵀ C u(x), at least 0, and ``far`` whether a point is farther from the centre than the points
    of the sample.
    """

    cluster: int
    rows: IntArray
    values: FloatArray
    lost: FloatArray
    far: BoolArray


@dataclass(frozen=True, eq=False)
class BasisFunctions:
    """u(x) = K(x, S_i) T_i for the cluster i whose centre is nearest to x, and C, with K(x, y) ~ u(x)ᵀ C u(y).

    The functions are free of the points they are evaluated at, so that points can be added in any number and order.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (k, d)
        In the coordinates of the kernel.
    radii : ndarray of shape (k,)
        Largest distance of a point of the sample from the centre of its cluster.
    extensions : tuple of Extension
        S_i and T_i of each cluster.
    inner : InnerMatrix
        C.
    """

    kernel: Kernel
    centers: FloatArray
    radii: FloatArray
    extensions: tuple[Extension, ...]
    inner: InnerMatrix

    @classmethod
    def of(cls, A: BlockBasis) -> BasisFunctions:
        """Return the functions of a factorization of a sample of points."""
        assert A.kernel is not None
        return cls(A.kernel, A.partition.centers, A.partition.radii, A.extensions, A.inner)

    def lean(self) -> BasisFunctions:
        """Return the functions with the diagonal blocks of C alone, which are all that their evaluation needs."""
        k, starts = self.n_clusters, self.inner.row_offsets
        blocks = [self.inner.block(i, i) for i in range(k)]
        kept = [np.array([i]) for i in range(k)]
        return replace(self, inner=InnerMatrix.of_whole_blocks(starts, starts, kept, blocks, symmetric=True))

    def plus(self, other: BasisFunctions) -> BasisFunctions:
        """Return the functions of two sets of clusters.

        The blocks of C between both sets follow from the kernel entries between the landmarks.
        """
        first, second = self._landmark_weights(), other._landmark_weights()
        core = self.kernel.core
        between = np.block([[P @ core.block(S, L) @ Q.T for Q, L in second] for P, S in first])
        own, more = self.inner.todense(), other.inner.todense()
        dense = np.block([[own, between], [between.T, more]])
        starts = offsets(np.concatenate([self.ranks, other.ranks]))
        kept = [np.arange(i, len(starts) - 1) for i in range(len(starts) - 1)]
        panels = [dense[starts[i] : starts[i + 1], starts[i] :] for i in range(len(kept))]
        inner = InnerMatrix.of_whole_blocks(starts, starts, kept, panels, symmetric=True)
        return BasisFunctions(
            self.kernel,
            np.concatenate([self.centers, other.centers]),
            np.concatenate([self.radii, other.radii]),
            self.extensions + other.extensions,
            semidefinite_inner(inner, float(np.finfo(np.float64).eps)),
        )

    def _landmark_weights(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return P_i and S_i of each cluster, with C_ij ~ P_i K(S_i, S_j) P_jᵀ."""
        points = [extension.points for extension in self.extensions]
        return [(np.linalg.pinv(self.values(S, i)), S) for i, S in enumerate(points)]

    @property
    def ranks(self) -> IntArray:
        """Number of functions of each cluster."""
        return np.diff(self.inner.row_offsets)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    def labels(self, points: FloatArray) -> IntArray:
        """Return the cluster of each point, given in the coordinates of the kernel."""
        return nearest(points, self.centers)

    def at(self, X: FloatArray, n_jobs: int, labels: IntArray | None = None) -> Iterator[ClusterValues]:
        """Yield the functions at the points of a piece, cluster by cluster; ``labels`` are the clusters, if known."""
        points = self.kernel.coordinates(X).astype(np.float64, copy=False)
        labels = self.labels(points) if labels is None else labels
        order = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[order], np.arange(self.n_clusters + 1))
        groups = [
            (i, order[starts[i] : starts[i + 1]], points) for i in range(self.n_clusters) if starts[i] < starts[i + 1]
        ]
        yield from map_threads(self._cluster_values, groups, n_jobs)

    def _cluster_values(self, i: int, rows: IntArray, points: FloatArray) -> ClusterValues:
        own, core = points[rows], self.kernel.core
        values, lost = np.empty((len(rows), int(self.ranks[i]))), np.empty(len(rows))
        for tile in tiles(len(rows), len(self.extensions[i].points), _ENTRIES):
            values[tile], variance = self.values(own[tile], i), core.diagonal(own[tile])
            lost[tile] = np.maximum(variance - limit_rows(values[tile], self.inner.block(i, i), variance), 0)
        return ClusterValues(i, rows, values, lost, self._is_far(own, i))

    def far(self, X: FloatArray) -> BoolArray:
        """Return whether points are farther from the nearest centre than all points of the sample."""
        points = self.kernel.coordinates(X).astype(np.float64, copy=False)
        return self._is_far(points, self.labels(points))

    def _is_far(self, points: FloatArray, labels: int | IntArray) -> BoolArray:
        away = points - self.centers[labels]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", away, away)) > (1 + _ROUNDING) * self.radii[labels])

    def values(self, points: FloatArray, i: int) -> FloatArray:
        """Return K(x, S_i) T_i at points in the coordinates of the kernel."""
        extension = self.extensions[i]
        # The first argument centres the distances: a far point must not cost the others digits.
        return np.asarray(self.kernel.core.block(extension.points, points).T @ extension.coefficients)
