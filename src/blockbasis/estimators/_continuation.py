"""Functions known at the points of a compressed matrix, continued to new points.

The extension of the basis of a cluster (`blockbasis.operators.extension`) depends on its own landmarks only, and the
extensions of two clusters differ at the border between them. A learnt function is known at all points, so that each
cluster fits it by kernel columns at its own points and at the points beyond its border.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import shifted_cholesky, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._expansion import Expansion
from blockbasis.kernels import Kernel
from blockbasis.operators.block_basis import BlockBasis, held_diagonal
from blockbasis.partition import Partition, nearest_points, two_nearest

#: Points for each unit of rank, beyond those which the basis of a cluster was made from, that values are continued by.
POINTS_PER_RANK = 1
#: Among how many each of them is drawn.
_CANDIDATES_PER_POINT = 20
#: A cluster is fitted at the points of others that it has this share in.
_SHARED = 0.1
#: Rows of a fit for each of its points, at most: more tell nothing new.
_ROWS_PER_POINT = 40
#: What is added to a Gram matrix, as a share of its trace: kernel columns that differ by less are told apart by
#: rounding only. And to a kernel matrix that is only to say what is near to its points.
ROUNDING = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-12}
_NEAR = 1e-10
#: Below this noise, as a share of the variance, weights are computed without a Gram matrix, and directions left out
#: that are smaller than this share of the largest.
_PRECISE = 1e-6
_AMPLIFIED = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where the functions of a cluster are fitted, and by which columns of the kernel.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,)
        The cluster's points and those beyond its border.
    points : ndarray of shape (m, d)
        In the coordinates of the kernel.
        First those which the cluster's basis was made from, then others, in the order in which they were drawn.
    n_continuing : int
        How many of the points are enough to continue what the basis tells.
    """

    rows: IntArray
    points: FloatArray
    n_continuing: int


def surroundings(
    A: BlockBasis, X: FloatArray, rng: np.random.Generator, n_jobs: int, points_per_rank: int = POINTS_PER_RANK
) -> tuple[Surroundings, ...]:
    """Those of each cluster of a compressed matrix.

    Parameters
    ----------
    A : BlockBasis
    X : ndarray of shape (n, d)
    rng : Generator
    n_jobs : int
    points_per_rank : int
        Points, for each unit of rank, that join those which a basis was made from: drawn by the variance that these do
        not tell.

    Returns
    -------
    tuple of Surroundings
        Empty for a matrix that is not compressed, which needs none.
    """
    if _uncompressed(A):
        return ()
    core, X = mapped(A, X)
    streams = rng.spawn(A.n_clusters)
    with single_threaded():
        every = with_neighbours(A.partition, X)
        tasks = [
            (core, X, rows, extension.points, int(max(rank, A.ranks.mean())), points_per_rank, stream)
            for rows, extension, rank, stream in zip(every, A.extensions, A.ranks, streams, strict=True)
        ]
        return tuple(map_threads(_around, tasks, n_jobs, "surroundings"))


def _around(
    kernel: Kernel,
    X: FloatArray,
    rows: IntArray,
    first: FloatArray,
    rank: int,
    points_per_rank: int,
    rng: np.random.Generator,
) -> Surroundings:
    more = points_per_rank * rank
    rows = some_of(rows, _ROWS_PER_POINT * (len(first) + more), rng)
    joining = _untold(kernel, X[rows], first, more, rng)
    points = np.concatenate((first, X[rows[joining]]))
    return Surroundings(rows, points, min(len(points), len(first) + POINTS_PER_RANK * rank))


def continued(
    A: BlockBasis, X: FloatArray, coefficients: FloatArray, around: Sequence[Surroundings], n_jobs: int
) -> Expansion:
    """The functions U C Uᵀ coefficients of the points ``X`` of A, continued to new points.

    In each cluster the values are fitted, as a Gaussian process would that sees them with noise, by columns of the
    kernel. The noise is the variance that the compression leaves out of a point, on average over the cluster.

    Parameters
    ----------
    A : BlockBasis
        A diagonal part has no meaning at new points, and is left out.
    X : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, n_outputs)
    around : sequence of Surroundings
        Of A.
    n_jobs : int

    Returns
    -------
    Expansion
        Of the first points of all surroundings.
    """
    assert A.kernel is not None
    if _uncompressed(A):
        return _by_the_kernel_itself(A, coefficients)
    values = A.basis.expand(A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False)))
    left_out = _left_out(A, X)
    core, X = mapped(A, X)
    blend = Blend.of(A.partition, X)
    with single_threaded():
        tasks = [
            (core, X, values, place, float(left_out[cluster].mean()))
            for place, cluster in zip(around, A.partition.clusters, strict=True)
        ]
        weights = tuple(map_threads(_fit, tasks, n_jobs, "continue"))
    points = tuple(place.points[: place.n_continuing] for place in around)
    return Expansion(A.kernel, A.partition.centers, points, weights, blend)


def extended(A: BlockBasis, coefficients: FloatArray) -> Expansion:
    """The same functions by the extension of the bases: exactly the values at the points themselves.

    Nothing is blended: the extension of another cluster's basis does not have these values.
    """
    assert A.kernel is not None
    if _uncompressed(A):
        return _by_the_kernel_itself(A, coefficients)
    inner = A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False))
    pieces = np.split(inner, np.cumsum(A.ranks)[:-1])
    points = tuple(extension.points for extension in A.extensions)
    weights = tuple(extension.coefficients @ piece for extension, piece in zip(A.extensions, pieces, strict=True))
    return Expansion(A.kernel, A.partition.centers, points, weights)


def mapped(A: BlockBasis, X: FloatArray) -> tuple[Kernel, FloatArray]:
    """The kernel of A as a function of mapped points, without white noise, and its points mapped."""
    assert A.kernel is not None
    return A.kernel.core, A.kernel.coordinates(X)


def _uncompressed(A: BlockBasis) -> bool:
    """Whether all of the matrix is there: one cluster, of full rank."""
    return A.n_clusters == 1 and bool(A.ranks[0] == A.shape[0])


def _by_the_kernel_itself(A: BlockBasis, coefficients: FloatArray) -> Expansion:
    assert A.kernel is not None
    points, order = A.extensions[0].points, A.partition.order
    return Expansion(A.kernel, A.partition.centers, (points,), (coefficients[order],))


def _fit(kernel: Kernel, X: FloatArray, values: FloatArray, around: Surroundings, noise: float) -> FloatArray:
    """Weights W such that K(X, points) W comes near to the values: ridge regression in the kernel's norm."""
    X, values, points = X[around.rows], values[around.rows], around.points[: around.n_continuing]
    columns = kernel.block(X, points).astype(np.float64, copy=False)
    own = among(kernel, points)
    if noise > _PRECISE * float(np.diagonal(own).max()):
        gram = columns.T @ columns + noise * own
        factor = shifted_cholesky(gram, ROUNDING[X.dtype] * float(np.trace(gram)))
        return np.asarray(linalg.cho_solve((factor, True), columns.T @ values, overwrite_b=True, check_finite=False))
    # A Gram matrix would lose half of the digits, which here are known.
    root = shifted_cholesky(own, np.finfo(np.float64).eps * float(np.trace(own)))
    rows_and_norm = np.concatenate((columns, math.sqrt(noise) * root.T))
    wanted = np.concatenate((values, np.zeros((len(points), values.shape[1]))))
    settings = {"cond": _AMPLIFIED[X.dtype], "lapack_driver": "gelsy", "check_finite": False}
    return np.asarray(linalg.lstsq(rows_and_norm, wanted, overwrite_a=True, overwrite_b=True, **settings)[0])


def _untold(kernel: Kernel, X: FloatArray, first: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Points of X drawn by the variance that they have of their own, once that of the ``first`` points is known."""
    candidates = some_of(np.arange(len(X)), _CANDIDATES_PER_POINT * count, rng)
    known = among(kernel, first)
    shift = _NEAR * float(np.diagonal(known).max())
    factor = shifted_cholesky(known, shift)
    columns = kernel.block(first, X[candidates]).astype(np.float64, copy=False)
    told = linalg.solve_triangular(factor, columns, lower=True, overwrite_b=True, check_finite=False)
    own = kernel.diagonal(X[candidates]).astype(np.float64)
    left = np.maximum(own - np.einsum("ij,ij->j", told, told), 0)
    left[left <= 2 * shift] = 0  # what the shift leaves of the first points themselves
    count = min(count, int(np.count_nonzero(left)))
    if not count:
        return np.empty(0, dtype=np.intp)
    return np.asarray(rng.choice(candidates, count, replace=False, p=left / left.sum()))


def among(kernel: Kernel, points: FloatArray) -> FloatArray:
    """The kernel matrix of a few points, symmetric to the last digit, in float64."""
    return symmetric(kernel(points.astype(np.float64, copy=False)))


def mean_left_out(A: BlockBasis, X: FloatArray) -> float:
    """Variance of a point that a compression does not hold, on average."""
    return float(_left_out(A, X).mean())


def _left_out(A: BlockBasis, X: FloatArray) -> FloatArray:
    """Variance of each point that it does not hold, in the order of the clusters."""
    core, X = mapped(A, X)
    own = core.diagonal(X)[A.partition.order]
    return np.asarray(np.abs(own - held_diagonal(A.basis, A.inner)))


def with_neighbours(partition: Partition, X: FloatArray) -> list[IntArray]:
    """Points of each cluster, those of others which have it as the nearest but their own, and those it shares.

    A cluster of few points far from all others is the nearest to new points of which it knows nothing. So where these
    are less than two clusters have on average, there are as many of those nearest to its centre.
    """
    labels, k = partition.labels, partition.n_clusters
    first, second = two_nearest(X, partition.centers).T
    other = np.where(first == labels, second, first)
    order = np.argsort(other, kind="stable")
    neighbours = np.split(order, np.cumsum(np.bincount(other, minlength=k))[:-1])
    rows = [np.union1d(partition.order[partition.cluster(i)], near) for i, near in enumerate(neighbours)]
    for i, shared, shares in Blend.of(partition, X).shares(X, partition.centers):
        rows[i] = np.union1d(rows[i], shared[shares >= _SHARED])
    enough = min(2 * partition.n_points // k, partition.n_points)
    few = [i for i in range(k) if len(rows[i]) < enough]
    if few:
        for i, around in zip(few, nearest_points(X, partition.centers[few], enough), strict=True):
            rows[i] = np.union1d(rows[i], around)
    return rows


def some_of(rows: IntArray, limit: int, rng: np.random.Generator) -> IntArray:
    """The rows, or as many drawn at random where there are more than a limit; ascending."""
    return rows if len(rows) <= limit else np.sort(rng.choice(rows, limit, replace=False))
