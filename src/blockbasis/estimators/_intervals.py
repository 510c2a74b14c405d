"""Prediction intervals from leave-one-out residuals that are divided by a local mean residual.

References
----------
R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani: Predictive inference with the jackknife+. Annals of Statistics
49 (2021), 486-507.
J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman: Distribution-free predictive inference for regression.
Journal of the American Statistical Association 113 (2018), 1094-1111, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.neighbors import NearestNeighbors

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Maximum number of points whose residuals are stored.
_POINTS = 4_000
#: Number of neighbours in a local mean residual, and the weight of the mean over all points, as a number of points.
_NEIGHBOURS = 32
_TYPICAL = 8


@dataclass(frozen=True, eq=False)
class Residuals:
    """Absolute leave-one-out residuals at some points.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Points in the coordinates of the kernel.
    sizes : ndarray of shape (m, n_targets)
        Absolute residuals.
    weights : ndarray of shape (m,)
        Weights of the points.
    """

    points: FloatArray
    sizes: FloatArray
    weights: FloatArray

    def deviations(self, X: FloatArray | None = None) -> FloatArray:
        """Mean absolute residuals of the nearest points, shrunk towards the mean over all points.

        Parameters
        ----------
        X : ndarray of shape (n, d) or None
            Points in the coordinates of the kernel. None for the stored points, each without its own residual.

        Returns
        -------
        ndarray of shape (n, n_targets)
            Positive.
        """
        typical = np.average(self.sizes, axis=0, weights=self.weights)
        count = min(_NEIGHBOURS, len(self.points) - 1)
        tiny = np.finfo(np.float64).tiny
        if count == 0:
            return np.tile(np.maximum(typical, tiny), (len(self.points if X is None else X), 1))
        near = NearestNeighbors(n_neighbors=count).fit(self.points).kneighbors(X, return_distance=False)
        shares = self.weights[near]
        nearby = np.einsum("ij,ijt->it", shares, self.sizes[near])
        pull = _TYPICAL * self.weights.mean()
        return np.asarray(np.maximum((nearby + pull * typical) / (shares.sum(axis=1)[:, np.newaxis] + pull), tiny))

    def factors(self, coverage: float) -> FloatArray:
        """For each target, the factor with which deviations bound a new residual with probability ``coverage``."""
        scores = self.sizes / self.deviations()
        order = np.argsort(scores, axis=0)
        total = self.weights.sum() + self.weights.mean()  # the new point counts as one more
        places = (np.cumsum(self.weights[order], axis=0) < coverage * total).sum(axis=0)
        ranks = np.take_along_axis(order, np.minimum(places, len(scores) - 1)[np.newaxis], axis=0)
        return np.asarray(np.take_along_axis(scores, ranks, axis=0)[0])


def some_residuals(
    points: FloatArray,
    left_out: FloatArray,
    weights: FloatArray | None,
    rng: np.random.Generator,
    *,
    most: int = _POINTS,
) -> Residuals:
    """Residuals at ``most`` random points, or at all points if they are fewer."""
    rows: IntArray = np.sort(rng.permutation(len(points))[:most])
    return Residuals(points[rows], np.abs(left_out[rows]), np.ones(len(rows)) if weights is None else weights[rows])
