"""Shares of neighbouring clusters in the points near the border between them.

Functions that are fitted cluster by cluster differ a little where two clusters meet. A point near a border takes its
value from all clusters that are almost as near as the nearest one, with weights that change continuously from one
cluster to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.partition import Partition, nearest

#: Clusters beyond the nearest that a point takes part in, on average over the points learnt from.
_OTHERS = 0.6
#: A cluster whose squared distance exceeds the least by this share has no part in a point.
_WIDEST = 0.5
#: So many points tell how wide borders are, and this share of them is not far outside.
_SAMPLE = 4096
_INSIDE = 0.95


class Share(NamedTuple):
    """The part of one cluster in some points."""

    cluster: int
    rows: IntArray
    weights: FloatArray


@dataclass(frozen=True)
class Blend:
    """How wide the borders between clusters are.

    With d_j the distances of a point from the centres and d its least, cluster j has the weight (1 - t_j)^2, divided by
    the sum of all weights, where t_j = (d_j^2 - d^2) / (width min(d^2, limit)) is below 1. The weights are continuous.

    Parameters
    ----------
    width : float
        0: each point belongs to the cluster of the nearest centre alone.
    limit : float
        A squared distance from the nearest centre. Points farther outside have no wider borders; all clusters are
        about equally near to a point far away.
    """

    width: float = 0.0
    limit: float = 0.0

    @classmethod
    def of(cls, partition: Partition, X: FloatArray) -> Blend:
        """The widest borders for which points take part in 0.6 clusters beside the nearest, on average.

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
        """The clusters that have a part in points, each with the rows of these points, ascending, and its weights."""
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
        for share in shares:  # of (1 - t)^2, before it is divided by the sum
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
        """Rows, clusters and weights of all shares in some points, the first of which is row ``start``."""
        weights = self._weights(X, centers)
        rows, labels = np.nonzero(weights)
        return rows + start, labels, weights[rows, labels]

    def _weights(self, X: FloatArray, centers: FloatArray) -> FloatArray:
        """Weights of all clusters in all points, of shape (m, n_clusters)."""
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
    """Clusters that new points fall into, each with the rows of its points."""
    return _grouped(nearest(X, centers))


def _grouped(labels: IntArray) -> list[tuple[int, IntArray]]:
    """Labels that occur, each with the places where it does."""
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


def _squared_distances(X: FloatArray, centers: FloatArray) -> FloatArray:
    """Squared distances of all points from all centres; both centred first, since distances far away cancel."""
    middle = centers.mean(axis=0)
    X, centers = X - middle, centers - middle
    squares = np.einsum("ij,ij->i", X, X)[:, np.newaxis] - 2 * (X @ centers.T) + np.einsum("ij,ij->i", centers, centers)
    return np.asarray(np.maximum(squares, 0))
