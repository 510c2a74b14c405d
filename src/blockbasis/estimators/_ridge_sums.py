"""Sums over points that ridge regression needs: fixed memory for any number of points.

For f(x) = u(x)ᵀ w with the prior covariance u(x)ᵀ C u(y), ridge regression with ridge λ minimises

    Σ (y - u(x)ᵀ w)² + λ wᵀ C⁻¹ w.

All that the minimum needs of the points are G = Σ u(x) u(x)ᵀ, which is block diagonal since each point belongs to one
cluster, and b = Σ u(x) y. Sums of disjoint sets of points are added, and those of a subset are subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import eigenpairs, symmetric
from blockbasis._utils.parallel import single_threaded
from blockbasis.solvers.components import factorize_shifted, rank_slices

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.inner import InnerMatrix
    from blockbasis.streaming.functions import BasisFunctions, ClusterValues

#: Eigenvalues of G below this share of the largest are rounding.
_NEGLIGIBLE = 1e-14


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Sums over the points seen so far.

    Parameters
    ----------
    grams : tuple of ndarray of shape (r_i, r_i)
        G of each cluster.
    moments : tuple of ndarray of shape (r_i, n_targets)
        b of each cluster.
    totals : tuple of ndarray of shape (r_i,)
        Σ u(x) of each cluster: the moments of centred targets follow from it.
    targets : ndarray of shape (n_targets,)
        Σ y.
    weight : float
        Sum of the weights, the number of points where there are none.
    n_rows, n_far : int
        Number of points, and of those that are farther from the nearest centre than all points of the sample.
    """

    grams: tuple[FloatArray, ...]
    moments: tuple[FloatArray, ...]
    totals: tuple[FloatArray, ...]
    targets: FloatArray
    weight: float
    n_rows: int
    n_far: int

    @classmethod
    def zero(cls, ranks: IntArray, n_targets: int) -> RidgeSums:
        """Return the sums over no points, for clusters of these ranks."""
        return cls(
            tuple(np.zeros((rank, rank)) for rank in ranks),
            tuple(np.zeros((rank, n_targets)) for rank in ranks),
            tuple(np.zeros(rank) for rank in ranks),
            np.zeros(n_targets),
            0.0,
            0,
            0,
        )

    @classmethod
    def of(
        cls,
        functions: BasisFunctions,
        X: FloatArray,
        Y: FloatArray,
        weights: FloatArray | None,
        n_jobs: int,
        noise: float | None = None,
    ) -> RidgeSums:
        """Return the sums over some points.

        Parameters
        ----------
        functions : BasisFunctions
        X : ndarray of shape (n, d)
        Y : ndarray of shape (n, n_targets)
        weights : ndarray of shape (n,) or None
        n_jobs : int
        noise : float or None
            If given, a point is also weighted with 1 / (noise + lost), where lost is the variance that the functions do
            not hold: see `blockbasis.estimators._posterior.with_own_variances`.
        """
        with single_threaded():
            return cls.of_values(functions.ranks, functions.at(X, n_jobs), Y, weights, noise)

    @classmethod
    def of_values(
        cls,
        ranks: IntArray,
        values: Iterable[ClusterValues],
        Y: FloatArray,
        weights: FloatArray | None,
        noise: float | None = None,
    ) -> RidgeSums:
        """Return the sums over points whose functions are known: see `of`."""
        zero = cls.zero(ranks, Y.shape[1])
        grams, moments, totals = list(zero.grams), list(zero.moments), list(zero.totals)
        weight, targets, n_far = 0.0, zero.targets, 0
        with single_threaded():
            for each in values:
                i, U, own = each.cluster, each.values, np.ones(len(each.rows))
                if weights is not None:
                    own = weights[each.rows]
                if noise is not None:
                    own = own / (noise + each.lost)
                plain = weights is None and noise is None
                weighted = U if plain else U * own[:, np.newaxis]
                grams[i] = U.T @ weighted
                moments[i] = weighted.T @ Y[each.rows]
                totals[i] = weighted.sum(axis=0)
                weight += float(own.sum())
                targets = targets + own @ Y[each.rows]
                n_far += int(np.count_nonzero(each.far))
        return cls(tuple(grams), tuple(moments), tuple(totals), targets, weight, len(Y), n_far)

    def plus(self, other: RidgeSums, sign: int = 1) -> RidgeSums:
        """Return the sums over the points of both; with ``sign`` -1, over the points that are not in ``other``."""

        def added(own: tuple[FloatArray, ...], more: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
            return tuple(a + sign * b for a, b in zip(own, more, strict=True))

        return RidgeSums(
            added(self.grams, other.grams),
            added(self.moments, other.moments),
            added(self.totals, other.totals),
            self.targets + sign * other.targets,
            self.weight + sign * other.weight,
            self.n_rows + sign * other.n_rows,
            self.n_far + sign * other.n_far,
        )

    def padded(self, functions: BasisFunctions) -> RidgeSums:
        """Return the sums for functions with more clusters, which no point is in yet."""
        zero, own = RidgeSums.zero(functions.ranks, len(self.targets)), len(self.grams)
        return replace(
            self,
            grams=self.grams + zero.grams[own:],
            moments=self.moments + zero.moments[own:],
            totals=self.totals + zero.totals[own:],
        )

    def mean(self) -> FloatArray:
        """Return the mean of the targets."""
        return self.targets / self.weight

    def solve(self, inner: InnerMatrix, alpha: FloatArray, center: FloatArray) -> list[FloatArray]:
        """Return w of each cluster, of shape (r_i, n_targets).

        Parameters
        ----------
        inner : InnerMatrix
            C.
        alpha : ndarray of shape (n_targets,)
            Ridge of each target.
        center : ndarray of shape (n_targets,)
            Number that is subtracted from each target.

        Notes
        -----
        With G = Rᵀ R, w = C Rᵀ (R C Rᵀ + λ I)⁻¹ R⁻ᵀ b.
        """
        with single_threaded():
            roots, side = self._roots_and_side(center)
            blocks = rank_slices(np.diff(inner.row_offsets))
            weights = np.empty_like(side)
            for value in np.unique(alpha):
                targets = np.flatnonzero(alpha == value)
                scaled = tuple(R / np.sqrt(value) for R in roots)
                z = factorize_shifted(inner, scaled).solve(side[:, targets])
                z = np.concatenate([R.T @ z[block] for R, block in zip(roots, blocks, strict=True)])
                weights[:, targets] = inner.astype(np.float64) @ (z / value)
        return [weights[block] for block in blocks]

    def explained(self, inner: InnerMatrix) -> FloatArray:
        """Return C - (C⁻¹ + G)⁻¹, what the points take away from the prior covariance C, of shape (R, R).

        Notes
        -----
        With G = Rᵀ R it is C Rᵀ (I + R C Rᵀ)⁻¹ R C.
        """
        with single_threaded():
            roots, _ = self._roots_and_side(np.zeros(len(self.targets)))
            C = inner.todense().astype(np.float64)
            blocks = rank_slices(np.diff(inner.row_offsets))
            RC = np.concatenate([R @ C[block] for R, block in zip(roots, blocks, strict=True)])
            return symmetric(RC.T @ factorize_shifted(inner, roots).solve(RC))

    def _roots_and_side(self, center: FloatArray) -> tuple[tuple[FloatArray, ...], FloatArray]:
        """Return the upper triangular R of each cluster with G = Rᵀ R, and c with Rᵀ c = b of centred targets."""
        parts = zip(self.grams, self.moments, self.totals, strict=True)
        found = [_root_and_side(gram, moment - np.outer(total, center)) for gram, moment, total in parts]
        return tuple(R for R, _ in found), np.concatenate([c for _, c in found])


def _root_and_side(gram: FloatArray, moment: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an upper triangular R with G = Rᵀ R, and c with Rᵀ c = b, also where G is singular."""
    values, vectors = eigenpairs(symmetric(gram))
    positive = values > _NEGLIGIBLE * max(float(values[-1]), 0.0)
    root = np.sqrt(np.where(positive, values, 0.0))
    inverse = np.divide(1, root, out=np.zeros_like(root), where=root > 0)
    Q, R = np.linalg.qr(root[:, np.newaxis] * vectors.T)
    return np.asarray(R), np.asarray(Q.T @ (inverse[:, np.newaxis] * (vectors.T @ moment)))
