"""Mean and covariance of a Gaussian process given data, at a cost that does not depend on their number."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, triu

from blockbasis._utils.linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._expansion import Expansion, kernel_rows
from blockbasis.kernels import Kernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.shortening import held_variance, largest_variances, shortened, variance_roots
from blockbasis.solvers.components import rank_slices
from blockbasis.solvers.ridge_system import RidgeSystem

#: Borders of deviations are narrower than those of the mean by this factor: the extension of a basis knows nothing of
#: the points beyond the border of its cluster, and soon becomes worse than that of the nearest one.
_NARROWER = 0.1
#: A diagonal part below this share of the kernel's own is rounding.
_ROUNDING = 1e-10


def with_own_variances(A: BlockBasis, X: FloatArray) -> BlockBasis:
    """U C Uᵀ + D with the diagonal of the kernel matrix of ``X``, white noise included, for one without D.

    It is the prior of the fully independent training conditional (FITC): every point has its own exact variance.
    Without D the noise has to account for the variance that is lost: on Abalone and Census house (2,500 points, 10
    clusters, ranks 15 and 40, three bandwidths, noise 0.3) the likelihood was 1.4 to 40 times further from the exact
    one. It is not so everywhere: with a noise far below the best, or where the errors of U C Uᵀ happen to cancel, D
    can come out behind.
    """
    assert A.kernel is not None
    own = A.kernel.diagonal(X).astype(np.float64)
    left = np.maximum(own - A.diagonal(), A.kernel.noise)
    return A if (left <= _ROUNDING * own).all() else replace(A, diagonal_part=left.astype(A.dtype))


def compressed_likelihood(system: RidgeSystem, Y: FloatArray) -> float:
    """Log-likelihood of targets Y, of shape (n, n_targets), whose covariance is that of a system."""
    spread = len(Y) * math.log(2 * math.pi) + system.logdet()
    return -0.5 * (float(np.sum(system.quadratic(Y))) + int(Y.shape[1]) * spread)


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process given data, for a prior of signal variance 1.

    Parameters
    ----------
    mean : Expansion
        One function for each target.
    points : tuple of ndarray of shape (m_i, d)
        In the coordinates of the kernel.
    coefficients : tuple of ndarray of shape (m_i, r_i)
        The extension of each cluster's basis, u(x) = K(x, points_i) coefficients_i.
    spreads : tuple of ndarray of shape (m_i, r_i)
        L_i of each cluster: the squared norm of K(x, points_i) L_i is the variance that the compressed kernel gives to
        x. None where there is one cluster, whose variances are right.
    largest : ndarray of shape (n_clusters,)
        The largest variance that it gives to a point which it was made from.
    explained : ndarray of shape (R, R)
        What the data take away from C.

    Notes
    -----
    A new point far from the points of its cluster may have a u(x) so large that u(x)ᵀ C u(x) exceeds k(x, x), the
    variance that it stands for: u(x) is then shortened until both are equal. Where the points of the cluster themselves
    have more, so may new points. Near the border between clusters u(x) is the mean of theirs, each in its own columns,
    with weights as the mean of the process has them, in a narrower strip.
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
        """The kernel as a function of mapped points, without white noise."""
        return self.mean.kernel.core

    def _mapped(self, X: FloatArray) -> FloatArray:
        return self.mean.kernel.coordinates(X)

    def variance(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Variances of new points, tile by tile."""
        widest = max(len(self.mean.centers), *(len(points) for points in self.points))
        with single_threaded():
            pieces = [(X[tile],) for tile in tiles(len(X), widest)]
            return np.concatenate(map_threads(self._variances, pieces, n_jobs, "variance"))

    def covariance(self, X: FloatArray) -> FloatArray:
        """Covariance of new points among each other."""
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
        # What u(x) does not hold of a point's own variance is independent of all data, as in FITC.
        return np.maximum(self._own(X) - explained, 0)

    def _shared_coordinates(self, X: FloatArray) -> list[tuple[int, IntArray, FloatArray]]:
        """For each cluster that has a share in new points: the rows of these, and its part of their u(x)."""
        blend = replace(self.mean.blend, width=_NARROWER * self.mean.blend.width)
        shares = blend.shares(X, self.mean.centers)
        return [(i, rows, weights[:, np.newaxis] * self._coordinates(X[rows], i)) for i, rows, weights in shares]

    def _coordinates(self, X: FloatArray, i: int) -> FloatArray:
        """u(x) of new points in cluster ``i``, shortened to their own variance."""
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
    """Pairs of groups of points, the first before the second, that have a point in common."""
    ends = np.cumsum([0, *(len(rows) for rows in members)])
    belongs = csr_array((np.ones(ends[-1]), np.concatenate(members), ends), shape=(len(members), n_points))
    first, second = triu(belongs @ belongs.T, k=1).nonzero()
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _spreads(A: BlockBasis) -> tuple[FloatArray, ...]:
    """The extension of each cluster times a square root of C_ii."""
    parts = zip(A.extensions, variance_roots(A.inner), strict=True)
    return tuple((extension.coefficients @ root).astype(extension.coefficients.dtype) for extension, root in parts)
