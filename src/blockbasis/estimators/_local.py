"""Regressions of the data themselves around each cluster, beside the one of the compressed matrix.

A compressed matrix sees far and coarsely; a regression of a cluster and what is next to it sees near and finely. Both
predict every point from the others, and from these errors their shares follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import shifted_cholesky
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._continuation import ROUNDING, Surroundings, among, mapped
from blockbasis.estimators._expansion import Expansion
from blockbasis.kernels import Kernel
from blockbasis.operators.block_basis import BlockBasis

#: Of the kernel columns of each cluster's points, one column for each target.
LocalWeights: TypeAlias = tuple[FloatArray, ...]

#: Points for each unit of rank, beyond those which the basis of a cluster was made from, that data are fitted by.
LOCAL_POINTS_PER_RANK = 7
#: Where a point's prediction rests on itself by more than this, nothing is known of it without it.
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
    fitted : list of tuple of ndarray of shape (m_i, n_targets)
        For each of ``alphas``, the weights of the kernel columns of each cluster's points.
    left_out : ndarray of shape (n_alphas, n, n_targets)
        y_i less the prediction, without point i, of the regressions of the clusters that share it.
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
    """Points that each cluster has a share in, and its shares; none for a cluster that is no point's nearest."""
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
    """Weights of the columns for each set of ridges, and leave-one-out residuals of a cluster's ``own`` share.

    A point's residual without itself is its residual over 1 less its leverage, what its prediction rests on itself;
    of a point that the fit has not seen that is nothing.
    """
    points, seen = around.points, around.rows
    every = np.union1d(seen, own)  # the rows of a large cluster are some of its points only
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
    """The share of the local regression in the mixture of both that has the least squared residuals, per target."""
    weights = np.ones(len(local)) if weights is None else weights
    difference = compressed - local
    largest = np.abs(difference).max(axis=0)
    unit = np.where(largest > 0, largest, 1)  # squares shall not overflow
    gained, spread = weights @ (compressed / unit * (difference / unit)), weights @ (difference / unit) ** 2
    shares = np.divide(gained, spread, out=np.zeros_like(spread), where=spread > 0)
    return np.asarray(np.clip(shares, 0, 1))


def mixed(
    continuation: Expansion, around: Sequence[Surroundings], weights: Sequence[FloatArray], shares: FloatArray
) -> Expansion:
    """``shares`` of local regressions with these weights, and the rest of a continuation by the first points."""
    both = []
    for place, coarse, fine in zip(around, continuation.weights, weights, strict=True):
        together = shares * fine
        together[: place.n_continuing] += (1 - shares) * coarse
        both.append(together)
    return replace(continuation, points=tuple(place.points for place in around), weights=tuple(both))
