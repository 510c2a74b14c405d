"""Continuation of functions from the points of a compressed matrix to new points.

The extension of the basis of a cluster (`blockbasis.operators.extension`) uses only the landmarks of the cluster, and
the extensions of two clusters differ at the border between them. The values of a learned function are known at all
points. Each cluster therefore fits kernel columns to the values at its own points and at points beyond its border.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import shifted_cholesky, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._expansion import Expansion
from blockbasis.operators.block_basis import BlockBasis, held_diagonal
from blockbasis.partition import Partition, nearest_points, two_nearest

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel

#: Number of kernel columns per unit of rank that a continuation has in addition to the landmarks of the basis.
POINTS_PER_RANK = 1
#: Number of random candidates for each of these columns.
_CANDIDATES_PER_POINT = 20
#: The rows of a cluster's fit include the points of other clusters at which its weight is at least this.
_SHARED = 0.1
#: Maximum number of rows of a fit for each of its columns; more rows do not improve it.
_ROWS_PER_POINT = 40
#: Shift of a Gram matrix, relative to its trace: differences of kernel columns below it are rounding errors. _NEAR is
#: the shift of a kernel matrix that only determines which points are near its own.
ROUNDING = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-12}
_NEAR = 1e-10
#: If the noise is below _PRECISE times the variance, weights are computed without a Gram matrix, and singular values
#: below _AMPLIFIED times the largest are dropped.
_PRECISE = 1e-6
_AMPLIFIED = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
#: Share of the variance of a row given the columns that counts as noise of the row. All of it would be less accurate
#: where the compression loses about as much.
_UNTOLD_SHARE = 0.03


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Rows and kernel columns with which the functions of a cluster are fitted.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,)
        Points of the cluster, and points beyond its border.
    points : ndarray of shape (m, d)
        Points of the columns, in the coordinates of the kernel: first the landmarks of the basis, then the others in
        the order in which they were drawn.
    n_continuing : int
        Number of the points, from the first, that a continuation uses. A local regression uses all.
    """

    rows: IntArray
    points: FloatArray
    n_continuing: int


def surroundings(
    A: BlockBasis, X: FloatArray, rng: np.random.Generator, n_jobs: int, points_per_rank: int = POINTS_PER_RANK
) -> tuple[Surroundings, ...]:
    """Surroundings of each cluster of a compressed matrix.

    Parameters
    ----------
    A : BlockBasis
    X : ndarray of shape (n, d)
    rng : Generator
    n_jobs : int
    points_per_rank : int
        Number of points per unit of rank in addition to the landmarks. They are drawn with probabilities proportional
        to their variance given the landmarks.

    Returns
    -------
    tuple of Surroundings
        Empty if the matrix is not compressed.
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
    """Continue the functions U C Uᵀ coefficients from the points of A to new points.

    In each cluster, the columns of the kernel are fitted to the values by kernel ridge regression. The ridge is the
    variance that the compression loses at a point, on average over the cluster.

    Parameters
    ----------
    A : BlockBasis
        Its diagonal part is ignored, since it cannot be extended to new points.
    X : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, n_outputs)
    around : sequence of Surroundings
        One for each cluster of A.
    n_jobs : int

    Returns
    -------
    Expansion
        Its points are the first ``n_continuing`` of each of ``around``.
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
    """The same functions, by the extension of the bases, which has exactly the values at the points of A.

    The clusters are not blended, since the extension of another cluster's basis does not have these values.
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
    """Kernel of A as a function of mapped points, without white noise, and the mapped points."""
    assert A.kernel is not None
    return A.kernel.core, A.kernel.coordinates(X)


def _uncompressed(A: BlockBasis) -> bool:
    """Whether A stores the whole matrix: one cluster of full rank."""
    return A.n_clusters == 1 and bool(A.ranks[0] == A.shape[0])


def _by_the_kernel_itself(A: BlockBasis, coefficients: FloatArray) -> Expansion:
    assert A.kernel is not None
    points, order = A.extensions[0].points, A.partition.order
    return Expansion(A.kernel, A.partition.centers, (points,), (coefficients[order],))


def _fit(kernel: Kernel, X: FloatArray, values: FloatArray, around: Surroundings, noise: float) -> FloatArray:
    """Weights W with which K(X, points) W approximates the values, by kernel ridge regression.

    A row that is not among the points has a variance that their columns cannot represent. A part of it counts as noise
    of the row, as in the FITC approximation: columns forced through such values would have huge weights, and so would
    columns that hardly matter at the rows, without any penalty of their norm.
    """
    X, values, points = X[around.rows], values[around.rows], around.points[: around.n_continuing]
    columns = kernel.block(X, points).astype(np.float64, copy=False)
    own = among(kernel, points)
    largest = float(np.diagonal(own).max())
    noise = max(noise, float(np.finfo(X.dtype).eps) * largest, float(np.finfo(np.float64).tiny))
    root = shifted_cholesky(own, np.finfo(np.float64).eps * float(np.trace(own)))
    told = linalg.solve_triangular(root, columns.T, lower=True, check_finite=False)
    untold = np.maximum(kernel.diagonal(X) - np.einsum("ij,ij->j", told, told), 0)
    trust = np.sqrt(noise / (noise + _UNTOLD_SHARE * untold))[:, np.newaxis]
    columns, values = trust * columns, trust * values
    if noise > _PRECISE * largest:
        gram = columns.T @ columns + noise * own
        factor = shifted_cholesky(gram, ROUNDING[X.dtype] * float(np.trace(gram)))
        return np.asarray(linalg.cho_solve((factor, True), columns.T @ values, overwrite_b=True, check_finite=False))
    # A Gram matrix would lose half of the digits, and here the values have all of them.
    rows_and_norm = np.concatenate((columns, math.sqrt(noise) * root.T))
    wanted = np.concatenate((values, np.zeros((len(points), values.shape[1]))))
    settings = {"cond": _AMPLIFIED[X.dtype], "lapack_driver": "gelsy", "check_finite": False}
    return np.asarray(linalg.lstsq(rows_and_norm, wanted, overwrite_a=True, overwrite_b=True, **settings)[0])


def _untold(kernel: Kernel, X: FloatArray, first: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw points with probabilities proportional to their variance given the values at the ``first`` points."""
    candidates = some_of(np.arange(len(X)), _CANDIDATES_PER_POINT * count, rng)
    known = among(kernel, first)
    shift = _NEAR * float(np.diagonal(known).max())
    factor = shifted_cholesky(known, shift)
    columns = kernel.block(first, X[candidates]).astype(np.float64, copy=False)
    told = linalg.solve_triangular(factor, columns, lower=True, overwrite_b=True, check_finite=False)
    own = kernel.diagonal(X[candidates]).astype(np.float64)
    left = np.maximum(own - np.einsum("ij,ij->j", told, told), 0)
    left[left <= 2 * shift] = 0  # the first points have a variance of about the shift
    count = min(count, int(np.count_nonzero(left)))
    if not count:
        return np.empty(0, dtype=np.intp)
    return np.asarray(rng.choice(candidates, count, replace=False, p=left / left.sum()))


def among(kernel: Kernel, points: FloatArray) -> FloatArray:
    """Kernel matrix of a few points in float64, exactly symmetric."""
    return symmetric(kernel(points.astype(np.float64, copy=False)))


def mean_left_out(A: BlockBasis, X: FloatArray) -> float:
    """Mean over the points of the variance that a compression loses."""
    return float(_left_out(A, X).mean())


def _left_out(A: BlockBasis, X: FloatArray) -> FloatArray:
    """Variance that a compression loses at each point, in the order of the clusters."""
    core, X = mapped(A, X)
    own = core.diagonal(X)[A.partition.order]
    return np.asarray(np.abs(own - held_diagonal(A.basis, A.inner)))


def with_neighbours(partition: Partition, X: FloatArray) -> list[IntArray]:
    """Points of each cluster, points of others whose next nearest cluster it is, and points in which it has a weight.

    If these are fewer than two clusters have on average, the points nearest to the centre are added up to that number.
    A small cluster far from all others would otherwise predict at new points from its few points only.
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
    """The rows if they are at most ``limit``, or ``limit`` of them drawn at random; ascending."""
    return rows if len(rows) <= limit else np.sort(rng.choice(rows, limit, replace=False))
