"""Posterior mean and covariance of a Gaussian process with a compressed covariance matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, triu

from blockbasis._utils.linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis.estimators._expansion import Expansion, kernel_rows
from blockbasis.operators.shortening import held_variance, largest_variances, shortened, variance_roots
from blockbasis.solvers.components import rank_slices

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.solvers.ridge_system import RidgeSystem

#: Borders between clusters are narrower by this factor for deviations than for the mean, because the extension of a
#: basis does not use the points beyond the border of its cluster.
_NARROWER = 0.1
#: A diagonal part below this share of the kernel's diagonal is rounding error.
_ROUNDING = 1e-10


def with_own_variances(A: BlockBasis, X: FloatArray) -> BlockBasis:
    """Add a diagonal part D, so that U C Uᵀ + D has the diagonal of the kernel matrix, white noise included.

    The prior of the fully independent training conditional (FITC) gives each point its exact variance. Without D, the
    noise would have to explain the variance that the compression loses. On Abalone and Census house (2,500 points, 10
    clusters, ranks 15 and 40, three bandwidths, noise 0.3), the error of the likelihood was 1.4 to 40 times as large
    without D. It can be smaller without D if the noise is far below its best value, or if errors of U C Uᵀ cancel.
    """
    assert A.kernel is not None
    own = A.kernel.diagonal(X).astype(np.float64)
    left = np.maximum(own - A.diagonal(), A.kernel.noise)
    return A if (left <= _ROUNDING * own).all() else replace(A, diagonal_part=left.astype(A.dtype))


def compressed_likelihood(system: RidgeSystem, Y: FloatArray) -> float:
    """Log-likelihood of targets Y, of shape (n, n_targets), whose covariance is the matrix of a ridge system."""
    spread = len(Y) * math.log(2 * math.pi) + system.logdet()
    return -0.5 * (float(np.sum(system.quadratic(Y))) + int(Y.shape[1]) * spread)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of a Gaussian process with signal variance 1.

    Parameters
    ----------
    mean : Expansion
        Posterior mean, one function for each target.
    points : tuple of ndarray of shape (m_i, d)
        Landmarks of each cluster, in the coordinates of the kernel.
    coefficients : tuple of ndarray of shape (m_i, r_i)
        Extension of each cluster's basis, u(x) = K(x, points_i) coefficients_i.
    spreads : tuple of ndarray of shape (m_i, r_i)
        Matrix L_i of each cluster: the squared norm of K(x, points_i) L_i is the variance of x under the compressed
        kernel. Empty if there is one cluster, whose variances need no correction.
    largest : ndarray of shape (n_clusters,)
        Largest variance of a training point of each cluster under the compressed kernel.
    explained : ndarray of shape (R, R)
        Reduction of C by the data.

    Notes
    -----
    Far from the points of a cluster, u(x)ᵀ C u(x) can exceed the prior variance k(x, x). Then u(x) is scaled down until
    both are equal, or until the variance is the largest one of the training points of the cluster, if that is larger.
    Near the border between clusters, u(x) is a weighted mean of those of the clusters, with the weights of the mean
    function in a narrower strip.
    """

    mean: Expansion
    points: tuple[FloatArray, ...]
    coefficients: tuple[FloatArray, ...]
    spreads: tuple[FloatArray, ...]
    largest: FloatArray
    explained: FloatArray

    @classmethod
    def given(cls, system: RidgeSystem, mean: Expansion) -> Posterior:
        """For the system that was solved, and the mean that its solutions give."""
        return cls.of(system.A, mean, system.explained())

    @classmethod
    def of(cls, A: BlockBasis, mean: Expansion, explained: FloatArray) -> Posterior:
        """For the factorization that has the basis, the mean, and what the data explain."""
        largest = largest_variances(A.basis, A.inner)
        points = tuple(extension.points for extension in A.extensions)
        coefficients = tuple(extension.coefficients for extension in A.extensions)
        return cls(mean, points, coefficients, _spreads(A) if A.n_clusters > 1 else (), largest, explained)

    @property
    def _core(self) -> Kernel:
        """Kernel as a function of mapped points, without white noise."""
        return self.mean.kernel.core

    def _mapped(self, X: FloatArray) -> FloatArray:
        return self.mean.kernel.coordinates(X)

    def variance(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Variances at new points, computed in tiles."""
        widest = max(len(self.mean.centers), *(len(points) for points in self.points))
        with single_threaded():
            pieces = [(X[tile],) for tile in tiles(len(X), widest)]
            return np.concatenate(map_threads(self._variances, pieces, n_jobs, "variance"))

    def covariance(self, X: FloatArray) -> FloatArray:
        """Covariance matrix of new points."""
        X, features = self._mapped(X), np.zeros((len(X), len(self.explained)))
        for i, rows, u in self._shared_coordinates(X):
            features[rows, self._blocks()[i]] = u
        left = semidefinite_part(self._core(X).astype(np.float64) - symmetric(features @ self.explained @ features.T))
        return symmetric(left)

    def _variances(self, X: FloatArray) -> FloatArray:
        X = self._mapped(X)
        found, blocks, explained = self._shared_coordinates(X), self._blocks(), np.zeros(len(X))
        for i, rows, u in found:
            explained[rows] += diagonal_of(u, self.explained[blocks[i], blocks[i]])
        for one, other in _meeting([rows for _, rows, _ in found], len(X)):
            (i, rows, u), (j, others, v) = found[one], found[other]
            both, at, beside = np.intersect1d(rows, others, assume_unique=True, return_indices=True)
            explained[both] += 2 * np.einsum("ij,ij->i", u[at] @ self.explained[blocks[i], blocks[j]], v[beside])
        # The part of the prior variance that u(x) does not represent is independent of all data, as in FITC.
        return np.maximum(self._own(X) - explained, 0)

    def _shared_coordinates(self, X: FloatArray) -> list[tuple[int, IntArray, FloatArray]]:
        """For each cluster with weights at new points: index, rows of the points, and its weighted part of u(x)."""
        blend = replace(self.mean.blend, width=_NARROWER * self.mean.blend.width)
        shares = blend.shares(X, self.mean.centers)
        return [(i, rows, weights[:, np.newaxis] * self._coordinates(X[rows], i)) for i, rows, weights in shares]

    def _coordinates(self, X: FloatArray, i: int) -> FloatArray:
        """u(x) of new points in cluster ``i``, scaled down to their prior variance."""
        block = kernel_rows(self._core, X, self.points[i])
        u = block @ self.coefficients[i]
        if not self.spreads:
            return np.asarray(u)
        return shortened(u, held_variance(block, self.spreads[i]), np.maximum(self._own(X), self.largest[i]))

    def _own(self, X: FloatArray) -> FloatArray:
        return self._core.diagonal(X).astype(np.float64)

    def _blocks(self) -> list[slice]:
        return rank_slices(np.array([coefficients.shape[1] for coefficients in self.coefficients]))


def _meeting(members: list[IntArray], n_points: int) -> list[tuple[int, int]]:
    """Pairs of groups, in ascending order, that have a point in common."""
    ends = np.cumsum([0, *(len(rows) for rows in members)])
    belongs = csr_array((np.ones(ends[-1]), np.concatenate(members), ends), shape=(len(members), n_points))
    first, second = triu(belongs @ belongs.T, k=1).nonzero()
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _spreads(A: BlockBasis) -> tuple[FloatArray, ...]:
    """Extension of each cluster times a square root of C_ii."""
    parts = zip(A.extensions, variance_roots(A.inner), strict=True)
    return tuple((extension.coefficients @ root).astype(extension.coefficients.dtype) for extension, root in parts)
