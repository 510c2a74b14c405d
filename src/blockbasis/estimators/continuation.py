"""Functions known at the points of a compressed matrix, continued to new points.

The extension of a cluster's basis (`blockbasis.extension`) knows of its own points only, and where the next cluster
begins it goes astray: there one function has two continuations, which meet at no point. But a function learnt is known
at all points. So each cluster fits it by kernel columns at its own points and at those beyond its border.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

from blockbasis._linalg import shifted_cholesky, symmetric
from blockbasis._parallel import map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray
from blockbasis.estimators.expansion import Expansion
from blockbasis.kernels import Kernel
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis, held_diagonal
from blockbasis.partition import Partition, nearest_points, two_nearest

#: Points, for each unit of rank, that join those which the basis of a cluster was made from.
_MORE_POINTS_PER_RANK = 1.0
#: Among how many each of them is drawn.
_CANDIDATES_PER_POINT = 20
#: Rows of a fit for each of its points, at most: more tell nothing new.
_ROWS_PER_POINT = 40
#: What is added to a Gram matrix, as a share of its trace: kernel columns that differ by less are told apart by
#: rounding only. And to a kernel matrix that is only to say what is near to its points.
_ROUNDING = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-12}
_NEAR = 1e-10
#: Below this noise, as a share of the variance, weights are computed without a Gram matrix, and directions left out
#: that are smaller than this share of the largest.
_PRECISE = 1e-6
_AMPLIFIED = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}


def continued(
    A: BlockBasis, X: FloatArray, coefficients: FloatArray, rng: np.random.Generator, n_jobs: int
) -> Expansion:
    """The functions U C Uᵀ coefficients of the points ``X`` of A, continued to new points.

    In each cluster the values are fitted, as a Gaussian process would that sees them with noise, by columns of the
    kernel: those of the points which the cluster's basis was made from, and of others which these do not tell. The
    noise is the variance that the compression leaves out of a point, on average over the cluster.

    Parameters
    ----------
    A : BlockBasis
        A diagonal part has no meaning at new points, and is left out.
    X : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, n_outputs)
    rng : Generator
    n_jobs : int

    Returns
    -------
    Expansion
    """
    assert A.kernel is not None
    partition = A.partition
    if _uncompressed(A):
        return _by_the_kernel_itself(A, coefficients)
    values = A.basis.expand(A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False)))
    streams = rng.spawn(A.n_clusters)
    with single_threaded():
        every = _with_neighbours(partition, X)
        tasks = []
        for i, noise in enumerate(_left_out(A, X)):
            first, more = A.extensions[i].points, int(_MORE_POINTS_PER_RANK * max(A.ranks[i], A.ranks.mean()))
            rows = _some(every[i], _ROWS_PER_POINT * (len(first) + more), streams[i])
            tasks.append((A.kernel, X, values, rows, first, more, noise, streams[i]))
        points, weights = zip(*map_threads(_fit, tasks, n_jobs, "continue"), strict=True)
    return Expansion(A.kernel, partition.centers, points, weights)


def extended(A: BlockBasis, coefficients: FloatArray) -> Expansion:
    """The same functions by the extension of the bases: exactly the values at the points of a skeleton basis."""
    assert A.kernel is not None
    if _uncompressed(A):
        return _by_the_kernel_itself(A, coefficients)
    inner = A.inner @ A.basis.project(coefficients.astype(np.float64, copy=False))
    pieces = np.split(inner, np.cumsum(A.ranks)[:-1])
    points = tuple(extension.points for extension in A.extensions)
    weights = tuple(extension.coefficients @ piece for extension, piece in zip(A.extensions, pieces, strict=True))
    return Expansion(A.kernel, A.partition.centers, points, weights)


def _uncompressed(A: BlockBasis) -> bool:
    return A.n_clusters == 1 and bool(A.ranks[0] == A.shape[0])


def _by_the_kernel_itself(A: BlockBasis, coefficients: FloatArray) -> Expansion:
    assert A.kernel is not None
    points, order = A.extensions[0].points, A.partition.order
    return Expansion(A.kernel, A.partition.centers, (points,), (coefficients[order],))


def _fit(
    kernel: Kernel,
    X: FloatArray,
    values: FloatArray,
    rows: IntArray,
    first: FloatArray,
    more: int,
    noise: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Points S and weights W such that K(X, S) W comes near to the values: ridge regression in the kernel's norm."""
    X, values = X[rows], values[rows]
    columns = kernel.block(X, first).astype(np.float64, copy=False)
    joining = _untold(kernel, X, first, columns, more, rng)
    points = np.concatenate((first, X[joining]))
    columns = np.hstack((columns, kernel.block(X, X[joining])))
    among = _among(kernel, points)
    if noise > _PRECISE * float(np.diagonal(among).max()):
        gram = columns.T @ columns + noise * among
        factor = shifted_cholesky(gram, _ROUNDING[X.dtype] * float(np.trace(gram)))
        return points, linalg.cho_solve((factor, True), columns.T @ values, overwrite_b=True, check_finite=False)
    # A Gram matrix would lose half of the digits, which here are known.
    root = shifted_cholesky(among, np.finfo(np.float64).eps * float(np.trace(among)))
    rows_and_norm = np.concatenate((columns, math.sqrt(noise) * root.T))
    wanted = np.concatenate((values, np.zeros((len(points), values.shape[1]))))
    settings = {"cond": _AMPLIFIED[X.dtype], "lapack_driver": "gelsy", "check_finite": False}
    return points, linalg.lstsq(rows_and_norm, wanted, overwrite_a=True, overwrite_b=True, **settings)[0]


def _untold(
    kernel: Kernel, X: FloatArray, first: FloatArray, columns: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """Points of X drawn by the variance that they have of their own, once that of the ``first`` points is known."""
    candidates = _some(np.arange(len(X)), _CANDIDATES_PER_POINT * count, rng)
    among = _among(kernel, first)
    factor = shifted_cholesky(among, _NEAR * float(np.diagonal(among).max()))
    told = linalg.solve_triangular(factor, columns[candidates].T, lower=True, check_finite=False)
    own = KernelMatrix(kernel, X[candidates]).diagonal(slice(0, len(candidates))).astype(np.float64)
    left = np.maximum(own - np.einsum("ij,ij->j", told, told), 0)
    left[left <= _NEAR * own] = 0
    count = min(count, int(np.count_nonzero(left)))
    if not count:
        return np.empty(0, dtype=np.intp)
    return np.sort(rng.choice(candidates, count, replace=False, p=left / left.sum()))


def _among(kernel: Kernel, points: FloatArray) -> FloatArray:
    return symmetric(kernel(points.astype(np.float64, copy=False)))


def _left_out(A: BlockBasis, X: FloatArray) -> list[float]:
    """Variance of a point that its cluster's basis does not hold, on average over the cluster."""
    assert A.kernel is not None
    own = KernelMatrix(A.kernel, X).diagonal(slice(0, len(X)))[A.partition.order]
    left = np.abs(own - held_diagonal(A.basis, A.inner))
    return [float(left[cluster].mean()) for cluster in A.partition.clusters]


def _with_neighbours(partition: Partition, X: FloatArray) -> list[IntArray]:
    """Points of each cluster, and those of others which have it as the nearest but their own.

    A cluster of few points far from all others is the nearest to new points of which it knows nothing. So where these
    are less than two clusters have on average, there are as many of those nearest to its centre.
    """
    labels, k = partition.labels, partition.n_clusters
    first, second = two_nearest(X, partition.centers).T
    other = np.where(first == labels, second, first)
    order = np.argsort(other, kind="stable")
    neighbours = np.split(order, np.cumsum(np.bincount(other, minlength=k))[:-1])
    rows = [np.union1d(partition.order[partition.cluster(i)], near) for i, near in enumerate(neighbours)]
    enough = min(2 * partition.n_points // k, partition.n_points)
    few = [i for i in range(k) if len(rows[i]) < enough]
    if few:
        for i, around in zip(few, nearest_points(X, partition.centers[few], enough), strict=True):
            rows[i] = np.union1d(rows[i], around)
    return rows


def _some(rows: IntArray, limit: int, rng: np.random.Generator) -> IntArray:
    return rows if len(rows) <= limit else np.sort(rng.choice(rows, limit, replace=False))
