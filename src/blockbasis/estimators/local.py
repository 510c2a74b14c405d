"""Regressions of the data themselves around each cluster, beside the one of the compressed matrix.

A compressed matrix sees far and coarsely; a regression of a cluster and what is next to it sees near and finely. Both
predict every point from the others, and from these errors their shares follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._linalg import shifted_cholesky
from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray
from blockbasis.estimators.continuation import ROUNDING, Surroundings, among
from blockbasis.estimators.expansion import Expansion
from blockbasis.kernels import Kernel
from blockbasis.operator import BlockBasis

#: Points for each unit of rank, beyond those which the basis of a cluster was made from, that data are fitted by.
LOCAL_POINTS_PER_RANK = 7
#: What a point's prediction may rest on itself: 1 but for rounding.
_LARGEST_LEVERAGE = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class LocalRegression:
    """One ridge regression for each cluster, on its points and those beyond its border.

    Parameters
    ----------
    weights : tuple of ndarray of shape (m_i, n_targets)
        Of the kernel columns of each cluster's points.
    left_out : ndarray of shape (n, n_targets)
        y_i less the prediction of the same regression without point i.
    """

    weights: tuple[FloatArray, ...]
    left_out: FloatArray


def regressed_locally(
    A: BlockBasis,
    X: FloatArray,
    Y: FloatArray,
    alphas: Sequence[FloatArray],
    weights: FloatArray | None,
    around: Sequence[Surroundings],
    n_jobs: int,
) -> list[LocalRegression]:
    """Ridge regressions of the targets around each cluster, for one set of ridges after the other.

    Parameters
    ----------
    A : BlockBasis
        Whose clusters and kernel these are.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
    alphas : sequence of ndarray of shape (n_targets,)
    weights : ndarray of shape (n,) or None
        Positive: how many times each point counts.
    around : sequence of Surroundings
        Of A.
    n_jobs : int

    Returns
    -------
    list of LocalRegression
        One for each of ``alphas``.
    """
    weights = np.ones(len(X)) if weights is None else weights
    labels = A.partition.labels
    owned = [labels[place.rows] == i for i, place in enumerate(around)]
    left_out = np.zeros((len(alphas), *Y.shape))
    with single_threaded():
        tasks = [(A.kernel, X, Y, weights, place, own, alphas) for place, own in zip(around, owned, strict=True)]
        found = map_threads(_regress, tasks, n_jobs, "local regressions")
    for (_, residuals), place, own in zip(found, around, owned, strict=True):
        left_out[:, place.rows[own]] = residuals
    return [LocalRegression(tuple(fitted[a] for fitted, _ in found), left_out[a]) for a in range(len(alphas))]


def _regress(
    kernel: Kernel,
    X: FloatArray,
    Y: FloatArray,
    weights: FloatArray,
    around: Surroundings,
    own: IntArray,
    alphas: Sequence[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Weights of the columns for each set of ridges, and the leave-one-out residuals of a cluster's ``own`` points.

    A point's residual without itself is its residual over 1 less its leverage, what its prediction rests on itself.
    """
    X, Y, weights, points = X[around.rows], Y[around.rows], weights[around.rows], around.points
    columns = kernel.block(X, points).astype(np.float64, copy=False)
    weighted = columns * weights[:, np.newaxis]
    gram, right, norm = columns.T @ weighted, weighted.T @ Y, among(kernel, points)
    mine = columns[own]
    fitted = np.empty((len(alphas), len(points), Y.shape[1]))
    residuals = np.empty((len(alphas), len(mine), Y.shape[1]))
    for alpha in np.unique(np.concatenate(alphas)):
        shifted = gram + alpha * norm
        factor = shifted_cholesky(shifted, ROUNDING[X.dtype] * float(np.trace(shifted)))
        solved = linalg.cho_solve((factor, True), right, check_finite=False)
        half = linalg.solve_triangular(factor, mine.T, lower=True, check_finite=False)
        leverages = np.minimum(weights[own] * np.einsum("ij,ij->j", half, half), _LARGEST_LEVERAGE)
        left_out = (Y[own] - mine @ solved) / (1 - leverages)[:, np.newaxis]
        for a, each in enumerate(alphas):
            targets = each == alpha
            fitted[a][:, targets], residuals[a][:, targets] = solved[:, targets], left_out[:, targets]
    return fitted, residuals


def best_shares(compressed: FloatArray, local: FloatArray, weights: FloatArray | None) -> FloatArray:
    """The share of the local regression in the mixture of both that has the least squared residuals, per target."""
    weights = np.ones(len(local)) if weights is None else weights
    difference = compressed - local
    gained, spread = weights @ (compressed * difference), weights @ difference**2
    shares = np.divide(gained, spread, out=np.zeros_like(spread), where=spread > 0)
    return np.asarray(np.clip(shares, 0, 1))


def mixed(
    continuation: Expansion, around: Sequence[Surroundings], weights: Sequence[FloatArray], shares: FloatArray
) -> Expansion:
    """``shares`` of local regressions with these weights, and the rest of a continuation by the first points."""
    both = []
    for place, coarse, fine in zip(around, continuation.weights, weights, strict=True):
        together = shares * fine
        together[: place.n_first] += (1 - shares) * coarse
        both.append(together)
    return Expansion(continuation.kernel, continuation.centers, tuple(place.points for place in around), tuple(both))
