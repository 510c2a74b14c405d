"""Mean and covariance of a Gaussian process given data, at a cost that does not depend on their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._linalg import semidefinite_part, symmetric
from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray
from blockbasis.estimators.expansion import Expansion
from blockbasis.settling import diagonal_of
from blockbasis.solvers.direct import RidgeSystem
from blockbasis.solvers.woodbury import rank_slices


@dataclass(frozen=True, eq=False)
class Posterior(Expansion):
    """A Gaussian process given data, for a prior of signal variance 1.

    Parameters
    ----------
    kernel, centers, points, weights, spreads, largest
        The mean, one function for each target: see `Expansion`.
    coefficients : tuple of ndarray of shape (m_i, r_i)
        The extension of each cluster's basis, u(x) = K(x, S_i) T_i.
    explained : ndarray of shape (R, R)
        What the data take away from C.
    """

    coefficients: tuple[FloatArray, ...]
    explained: FloatArray

    @classmethod
    def given(cls, system: RidgeSystem, dual: FloatArray) -> Posterior:
        """For the system that was solved, and its solutions of shape (n, n_targets)."""
        A = system.A
        mean = Expansion.of(A, dual)
        coefficients = tuple(extension.coefficients for extension in A.extensions)
        learnt = (mean.kernel, mean.centers, mean.points, mean.weights, mean.spreads, mean.largest)
        return cls(*learnt, coefficients, system.explained())

    def with_variance(self, X: FloatArray, n_jobs: int) -> tuple[FloatArray, FloatArray]:
        """Means of shape (m, n_targets) and variances of shape (m,), tile by tile."""
        with single_threaded():
            pieces = map_threads(self._moments, [(X[tile],) for tile in self._tiles(len(X))], n_jobs, "predict")
        both = np.concatenate(pieces)
        return both[:, :-1], both[:, -1]

    def covariance(self, X: FloatArray) -> FloatArray:
        """Covariance of new points among each other."""
        features = np.zeros((len(X), len(self.explained)))
        for i, rows in self._grouped(X):
            features[rows, self._blocks()[i]] = self._coordinates(X[rows], self._kernel_block(X[rows], i), i)
        left = semidefinite_part(self.kernel(X).astype(np.float64) - symmetric(features @ self.explained @ features.T))
        return symmetric(left)

    def _moments(self, X: FloatArray) -> FloatArray:
        """Means, and the variance in the last column."""
        values = np.empty((len(X), self.n_outputs + 1))
        for i, rows in self._grouped(X):
            block = self._kernel_block(X[rows], i)
            u = self._coordinates(X[rows], block, i)
            own = self._blocks()[i]
            values[rows, :-1] = self._shortening(X[rows], block, i)[:, np.newaxis] * (block @ self.weights[i])
            # What u(x) does not hold of a point's own variance is independent of all data, as in FITC.
            values[rows, -1] = np.maximum(self._own(X[rows]) - diagonal_of(u, self.explained[own, own]), 0)
        return values

    def _coordinates(self, X: FloatArray, block: FloatArray, i: int) -> FloatArray:
        """s(x) u(x) of new points in cluster ``i``."""
        return np.asarray(self._shortening(X, block, i)[:, np.newaxis] * (block @ self.coefficients[i]))

    def _blocks(self) -> list[slice]:
        return rank_slices(np.array([coefficients.shape[1] for coefficients in self.coefficients]))
