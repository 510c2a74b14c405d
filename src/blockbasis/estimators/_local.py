"""Ridge regressions of the data in and near each cluster, which correct the regression of the compressed matrix.

The compressed matrix represents interactions over long distances with a small rank. A regression of the points in and
near a cluster resolves short distances. The prediction is a mixture of both, and the leave-one-out residuals of both
determine their shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import shifted_cholesky
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._continuation import ROUNDING, Surroundings, among, mapped

if TYPE_CHECKING:
    from blockbasis.estimators._expansion import Expansion
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_basis import BlockBasis

#: For each cluster, the weights of its kernel columns, with one column for each target.
LocalWeights: TypeAlias = tuple[FloatArray, ...]

#: Number of kernel columns per unit of rank that a local regression has in addition to the landmarks of the basis.
LOCAL_POINTS_PER_RANK = 7
#: Above this leverage, the leave-one-out prediction of a point is taken as zero.
_ALONE = 1 - 1e-6


def regressed_locally(
    A: BlockBasis,
    X: FloatArray,
    Y: FloatArray,
    alphas: Sequence[FloatArray],
    weights: FloatArray | None,
    around: Sequence[Surroundings],
    n_jobs: int,
) -> tuple[list[LocalWeights], FloatArray]:
    """Ridge regressions of the points in and near each cluster, for each set of ridges.

    Parameters
    ----------
    A : BlockBasis
        Compressed matrix, which determines the clusters and the kernel.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
    alphas : sequence of ndarray of shape (n_targets,)
    weights : ndarray of shape (n,) or None
        Positive: how many times each point counts.
    around : sequence of Surroundings
        One for each cluster of A.
    n_jobs : int

    Returns
    -------
    fitted : list of tuple of ndarray of shape (m_i, n_targets)
        For each of ``alphas``, the weights of the kernel columns of each cluster's points.
    left_out : ndarray of shape (n_alphas, n, n_targets)
        y_i minus the prediction at point i by the regressions of the clusters that share it, fitted without point i.
    """
    left_out = np.zeros((len(alphas), *Y.shape))
    core, X = mapped(A, X)
    with single_threaded():
        shared = _shared_points(A, X)
        tasks = [(core, X, Y, weights, place, rows, alphas) for place, (rows, _) in zip(around, shared, strict=True)]
        found = map_threads(_regress, tasks, n_jobs, "local regressions")
    for (_, residuals), (rows, shares) in zip(found, shared, strict=True):
        left_out[:, rows] += shares[:, np.newaxis] * residuals
    return [tuple(fitted[a] for fitted, _ in found) for a in range(len(alphas))], left_out


def _shared_points(A: BlockBasis, X: FloatArray) -> list[tuple[IntArray, FloatArray]]:
    """For each cluster, the points whose predictions it contributes to, and its weights in them."""
    found = {i: (rows, shares) for i, rows, shares in Blend.of(A.partition, X).shares(X, A.partition.centers)}
    return [found.get(i, (np.empty(0, dtype=np.intp), np.empty(0))) for i in range(A.n_clusters)]


def _regress(
    kernel: Kernel,
    X: FloatArray,
    Y: FloatArray,
    weights: FloatArray | None,
    around: Surroundings,
    own: IntArray,
    alphas: Sequence[FloatArray],
) -> tuple[list[FloatArray], FloatArray]:
    """Weights of the columns for each set of ridges, and leave-one-out residuals at the points ``own``.

    The leave-one-out residual of a point is its residual divided by one minus its leverage. The leverage is zero for
    points that are not among the rows of the fit.
    """
    points, seen = around.points, around.rows
    every = np.union1d(seen, own)  # a large cluster is fitted to a part of its points
    columns = kernel.block(X[every], points).astype(np.float64, copy=False)
    mine = columns[np.searchsorted(every, own)]
    if len(every) > len(seen):
        columns = columns[np.searchsorted(every, seen)]
    weighted = columns if weights is None else columns * weights[seen, np.newaxis]
    gram, right, norm = columns.T @ weighted, weighted.T @ Y[seen], among(kernel, points)
    counts = np.isin(own, seen) * (1.0 if weights is None else weights[own])
    fitted = [np.empty((len(points), Y.shape[1])) for _ in alphas]
    residuals = np.empty((len(alphas), len(own), Y.shape[1]))
    for alpha in np.unique(np.concatenate(alphas)):
        shifted = gram + alpha * norm
        factor = shifted_cholesky(shifted, ROUNDING[X.dtype] * float(np.trace(shifted)))
        solved = linalg.cho_solve((factor, True), right, check_finite=False)
        half = linalg.solve_triangular(factor, mine.T, lower=True, check_finite=False)
        leverages = counts * np.einsum("ij,ij->j", half, half)
        alone = leverages > _ALONE
        left_out = (Y[own] - mine @ solved) / np.where(alone, 1, 1 - leverages)[:, np.newaxis]
        left_out[alone] = Y[own[alone]]
        for each, kept, missed in zip(alphas, fitted, residuals, strict=True):
            targets = each == alpha
            kept[:, targets], missed[:, targets] = solved[:, targets], left_out[:, targets]
    return fitted, residuals


def best_shares(compressed: FloatArray, local: FloatArray, weights: FloatArray | None) -> FloatArray:
    """For each target, the share of the local regression that minimizes the squared residuals of the mixture."""
    weights = np.ones(len(local)) if weights is None else weights
    difference = compressed - local
    largest = np.abs(difference).max(axis=0)
    unit = np.where(largest > 0, largest, 1)  # prevents overflow of the squares
    gained, spread = weights @ (compressed / unit * (difference / unit)), weights @ (difference / unit) ** 2
    shares = np.divide(gained, spread, out=np.zeros_like(spread), where=spread > 0)
    return np.asarray(np.clip(shares, 0, 1))


def mixed(
    continuation: Expansion, around: Sequence[Surroundings], weights: Sequence[FloatArray], shares: FloatArray
) -> Expansion:
    """Mixture of local regressions, with these ``weights`` and ``shares``, and a continuation."""
    both = []
    for place, coarse, fine in zip(around, continuation.weights, weights, strict=True):
        together = shares * fine
        together[: place.n_continuing] += (1 - shares) * coarse
        both.append(together)
    return replace(continuation, points=tuple(place.points for place in around), weights=tuple(both))
