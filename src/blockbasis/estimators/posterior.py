"""Mean and covariance of a Gaussian process given data, at a cost that does not depend on their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._linalg import semidefinite_part
from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray
from blockbasis.estimators.expansion import Expansion
from blockbasis.matrix import KernelMatrix
from blockbasis.solvers.direct import RidgeSystem
from blockbasis.solvers.woodbury import rank_slices


@dataclass(frozen=True, eq=False)
class Posterior(Expansion):
    """A Gaussian process given data, for a prior of signal variance 1.

    Parameters
    ----------
    kernel, centers, points, weights
        The mean, one function for each target: see `Expansion`.
    coefficients : tuple of ndarray of shape (m_i, r_i)
        The extension of each cluster's basis, u(x) = K(x, S_i) T_i.
    prior : tuple of ndarray of shape (r_i, r_i)
        C_ii.
    explained : ndarray of shape (R, R)
        What the data take away from C.

    Notes
    -----
    The kernel that was learnt is u(x)ᵀ C u(x'). A new point between the points of a small cluster may have a u(x) so
    large that u(x)ᵀ C u(x) exceeds k(x, x), the variance that it stands for: u(x) is then shortened until both are
    equal. With one cluster this does not happen beyond rounding, and is not looked at.
    """

    coefficients: tuple[FloatArray, ...]
    prior: tuple[FloatArray, ...]
    explained: FloatArray

    @classmethod
    def given(cls, system: RidgeSystem, dual: FloatArray) -> Posterior:
        """For the system that was solved, and its solutions of shape (n, n_targets)."""
        A = system.A
        mean = Expansion.of(A, dual)
        coefficients = tuple(extension.coefficients for extension in A.extensions)
        prior = tuple(A.inner.block(i, i).astype(np.float64) for i in range(A.n_clusters))
        return cls(mean.kernel, mean.centers, mean.points, mean.weights, coefficients, prior, system.explained())

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
            u, shrink = self._coordinates(self._kernel_block(X[rows], i), i, self._own(X[rows]))
            features[rows, self._blocks()[i]] = shrink[:, np.newaxis] * u
        left = semidefinite_part(self.kernel(X).astype(np.float64) - _symmetric(features @ self.explained @ features.T))
        return _symmetric(left)

    def _values(self, X: FloatArray) -> FloatArray:
        if len(self.points) == 1:
            return super()._values(X)
        values = np.empty((len(X), self.n_outputs))
        for i, rows in self._grouped(X):
            kernel = self._kernel_block(X[rows], i)
            _, shrink = self._coordinates(kernel, i, self._own(X[rows]))
            values[rows] = shrink[:, np.newaxis] * (kernel @ self.weights[i])
        return values

    def _moments(self, X: FloatArray) -> FloatArray:
        """Means, and the variance in the last column."""
        values = np.empty((len(X), self.n_outputs + 1))
        for i, rows in self._grouped(X):
            kernel, own = self._kernel_block(X[rows], i), self._own(X[rows])
            u, shrink = self._coordinates(kernel, i, own)
            block = self._blocks()[i]
            values[rows, :-1] = shrink[:, np.newaxis] * (kernel @ self.weights[i])
            # What u(x) does not hold of a point's own variance is independent of all data, as in FITC.
            values[rows, -1] = np.maximum(own - shrink**2 * _quadratic(u, self.explained[block, block]), 0)
        return values

    def _coordinates(self, kernel: FloatArray, i: int, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        """u(x) of new points in cluster ``i``, and the factors that keep their variance within their own."""
        u = kernel @ self.coefficients[i]
        if len(self.points) == 1:
            return u, np.ones(len(u))
        held = _quadratic(u, self.prior[i])
        return u, np.sqrt(np.divide(own, held, out=np.ones(len(u)), where=held > own))

    def _own(self, X: FloatArray) -> FloatArray:
        return KernelMatrix(self.kernel, X).diagonal(slice(0, len(X))).astype(np.float64)

    def _kernel_block(self, X: FloatArray, i: int) -> FloatArray:
        return self.kernel.block(X, self.points[i].astype(X.dtype, copy=False)).astype(np.float64, copy=False)

    def _blocks(self) -> list[slice]:
        return rank_slices(np.array([len(block) for block in self.prior]))


def _symmetric(M: FloatArray) -> FloatArray:
    return np.asarray((M + M.T) / 2)


def _quadratic(u: FloatArray, M: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", u @ M, u))
