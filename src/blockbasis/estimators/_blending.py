"""Weights of the clusters in predictions near the borders between clusters.

The functions of two clusters differ slightly at the border between them. At a point near a border, the prediction is
a weighted mean of the functions of all clusters whose centres are almost as near as the nearest centre. The weights
are continuous, and so is the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blockbasis._utils.tiling import tiles
from blockbasis.partition import Partition, nearest

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Mean number of clusters, beyond the nearest, that have a positive weight at a training point.
_OTHERS = 0.6
#: Upper bound of the width.
_WIDEST = 0.5
#: Number of points from which the width is determined, and the quantile of their distances that is the limit.
_SAMPLE = 4096
_INSIDE = 0.95


class Share(NamedTuple):
    """Weights of one cluster at the points ``rows``."""

    cluster: int
    rows: IntArray
    weights: FloatArray


@dataclass(frozen=True)
class Blend:
    """Weights of clusters as functions of the distances from their centres.

    Let d_j be the distance of a point from centre j, d the smallest of them, and
    t_j = (d_j^2 - d^2) / (width min(d^2, limit)). Cluster j has the weight (1 - t_j)^2 where t_j < 1, and zero
    elsewhere; the weights are divided by their sum.

    Parameters
    ----------
    width : float
        Width of the borders. With 0, each point has the cluster of the nearest centre only.
    limit : float
        Squared distance from the nearest centre above which the borders do not widen. Without it, a point far from all
        centres, whose distances are nearly equal, would have all clusters.
    """

    width: float = 0.0
    limit: float = 0.0

    @classmethod
    def of(cls, partition: Partition, X: FloatArray) -> Blend:
        """Largest width with which the points have at most 0.6 clusters beyond the nearest on average.

        Parameters
        ----------
        partition : Partition
        X : ndarray of shape (n, d)
            The points of the partition, in the same coordinates.
        """
        if partition.n_clusters == 1:
            return cls()
        step = -(-partition.n_points // _SAMPLE)
        squares = np.sort(_squared_distances(X[partition.order[::step]], partition.centers), axis=1)
        least = squares[:, :1]
        limit = float(np.quantile(least, _INSIDE))
        unit = np.minimum(least, limit)
        beyond = np.divide(squares[:, 1:] - least, unit, out=np.full_like(squares[:, 1:], np.inf), where=unit > 0)
        allowed = min(int(_OTHERS * len(least)), beyond.size - 1)
        return cls(min(float(np.partition(beyond, allowed, axis=None)[allowed]), _WIDEST), limit)

    def shares(self, X: FloatArray, centers: FloatArray) -> list[Share]:
        """Clusters with positive weights, with the rows of their points (ascending) and the weights."""
        if not self.width * self.limit:
            return [Share(i, rows, np.ones(len(rows))) for i, rows in by_cluster(X, centers)]
        found = [self._entries(X[tile], centers, tile.start) for tile in tiles(len(X), len(centers))]
        rows, labels, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return [Share(i, rows[at], weights[at]) for i, at in _grouped(labels)]

    def slopes(self, X: FloatArray, centers: FloatArray, shares: list[Share]) -> list[FloatArray]:
        """Gradients of the weights of each share, of shape (n_rows, d), in the coordinates of the centres."""
        if not self.width * self.limit:
            return [np.zeros((len(share.rows), X.shape[1])) for share in shares]
        first = centers[nearest(X, centers)]
        away = X - first
        least = np.einsum("ij,ij->i", away, away)
        unit = self.width * np.minimum(least, self.limit)
        widening = np.where(least < self.limit, 2 * self.width, 0.0)[:, np.newaxis] * away
        total, slopes, sums = np.zeros(len(X)), [], np.zeros_like(X)
        for share in shares:  # gradients of (1 - t)^2, before the division by the sum
            rows, other = share.rows, X[share.rows] - centers[share.cluster]
            own = np.maximum(unit[rows], np.finfo(np.float64).tiny)
            beyond = np.maximum(np.einsum("ij,ij->i", other, other) - least[rows], 0) / own
            falls = (2 * (other - away[rows]) - beyond[:, np.newaxis] * widening[rows]) / own[:, np.newaxis]
            slope = np.where((beyond > 0) & (beyond < 1), -2 * (1 - beyond), 0.0)[:, np.newaxis] * falls
            slopes.append(slope)
            total[rows] += np.where(unit[rows] > 0, np.square(np.maximum(1 - beyond, 0)), 1.0)
            sums[rows] += slope
        return [
            (slope - share.weights[:, np.newaxis] * sums[share.rows]) / total[share.rows, np.newaxis]
            for share, slope in zip(shares, slopes, strict=True)
        ]

    def _entries(self, X: FloatArray, centers: FloatArray, start: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows, clusters and weights that are positive, for points whose first row is ``start``."""
        weights = self._weights(X, centers)
        rows, labels = np.nonzero(weights)
        return rows + start, labels, weights[rows, labels]

    def _weights(self, X: FloatArray, centers: FloatArray) -> FloatArray:
        """Weights of all clusters at all points, of shape (m, n_clusters)."""
        squares = _squared_distances(X, centers)
        first = squares.argmin(axis=1)[:, np.newaxis]
        least = np.take_along_axis(squares, first, axis=1)
        unit = self.width * np.minimum(least, self.limit)
        with np.errstate(invalid="ignore"):  # distances that overflow
            beyond = np.divide(squares - least, unit, out=np.full_like(squares, np.inf), where=unit > 0)
        np.put_along_axis(beyond, first, 0.0, axis=1)
        weights = np.square(np.fmax(1 - beyond, 0))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def by_cluster(X: FloatArray, centers: FloatArray) -> list[tuple[int, IntArray]]:
    """Clusters of the nearest centres of new points, with the rows of their points."""
    return _grouped(nearest(X, centers))


def _grouped(labels: IntArray) -> list[tuple[int, IntArray]]:
    """Labels that occur, with their positions."""
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


def _squared_distances(X: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances of points from centres. Both are centred first, to avoid cancellation far from the origin."""
    middle = centers.mean(axis=0)
    X, centers = X - middle, centers - middle
    squares = np.einsum("ij,ij->i", X, X)[:, np.newaxis] - 2 * (X @ centers.T) + np.einsum("ij,ij->i", centers, centers)
    return np.asarray(np.maximum(squares, 0))
