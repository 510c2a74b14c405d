"""Correction of the extension K(x, X) ~ u(x)ᵀ C_i Uᵀ at the clusters near a new point x.

The extension u(x) of the basis of the nearest cluster i does not represent x well at the other clusters near x if the
bandwidth is small. The landmarks of all extensions are factorized points. Their rows u(l) in the basis of their own
cluster j are known, and so are the exact entries K(l, x). The coordinates of K(x, X_j) in the basis of cluster j are
therefore corrected by a regularised least-squares fit to the entries at the landmarks L_j of that cluster:

    d = (G + λ (I - G))⁻¹ U_Lᵀ (K(L_j, x) - U_L c),    G = U_Lᵀ U_L,

where U_L has the rows u(l) and c = C_ijᵀ u(x) are the coordinates before the correction. The basis is orthonormal, so
that I - G is the Gram matrix of the rows of the other points of the cluster: λ = 1 assumes that the error is zero
there, and λ = 0 ignores them.

The basis does not represent a factorized point without neighbours, whose part of K is in D, and K(x, X) is not small
there if x is near that point. The errors at such points that are landmarks are corrected entry by entry. The landmark's
column of K is found by its row u(l), which is equal to a row of U.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from blockbasis._utils.tiling import tiles
from blockbasis.operators.row_blocks import RowBlocks
from blockbasis.operators.shortening import within_variance
from blockbasis.partition import Partition, nearest_points

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.error_estimate import ErrorEstimate
    from blockbasis.operators.extension import Extension
    from blockbasis.operators.inner import InnerMatrix

#: Weight λ of the other points of a cluster. The error is flat between 0.03 and 0.6.
_OTHERS = 0.1
#: Largest norm of the row of a landmark. Rows of an orthonormal basis have norms up to 1; a landmark with a longer row
#: is nearest to the centre of another cluster than its own, where the extension of the basis is inaccurate.
_LONGEST_ROW = 1.001
#: Largest distance of equal rows of a basis, the largest ratio of this distance to that from the second nearest row,
#: and the least distance from the second nearest row.
_EQUAL_ROWS = 1e-4
_DISTINCT = 1e-2
_RESOLVED = 1e-6
#: Number of groups of landmarks that are held out in turn to estimate the error at other points.
_FOLDS = 4
#: Largest number of clusters that are corrected for each new point.
_MOST_CLUSTERS = 64


@dataclass(frozen=True, eq=False)
class NearField:
    """Data from which corrections are computed.

    Parameters
    ----------
    core : Kernel
        Kernel as a function of points in kernel coordinates, without white noise.
    partition : Partition
        Partition of the factorized points.
    inner : InnerMatrix
        Inner matrix C.
    landmarks : tuple of Landmarks
        Landmarks of each cluster.
    roots : tuple of ndarray
        L_j with L_j L_jᵀ = C_jj for each cluster.
    largest : ndarray of shape (n_clusters,)
        Largest variance of a factorized point of each cluster.
    largest_entry : float or None
        Bound of the entries of the matrix; None if k(x, x) depends on x.
    """

    core: Kernel
    partition: Partition
    inner: InnerMatrix
    landmarks: tuple[Landmarks, ...]
    roots: tuple[FloatArray, ...]
    largest: FloatArray
    largest_entry: float | None


class Landmarks(NamedTuple):
    """Landmarks of one cluster.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Landmarks in kernel coordinates.
    rows : ndarray of shape (m, r)
        Their rows u(l) in the basis of the cluster.
    columns : ndarray of shape (m,)
        Index of the factorized point that each landmark is, in the caller's order; -1 if it is not known.
    """

    points: FloatArray
    rows: FloatArray
    columns: IntArray


class NearErrors(NamedTuple):
    """Estimated squared error of each new point at its near clusters.

    ``before`` and ``after`` are those before and after the correction, and ``with_entries`` those with single entries
    at landmarks in addition.
    """

    before: FloatArray
    after: FloatArray
    with_entries: FloatArray


class CorrectionPlan(NamedTuple):
    """Extent of a correction.

    Parameters
    ----------
    n_clusters : int
        Number of clusters that are corrected for each new point.
    least_entry : float or None
        Least error of an entry at a landmark that is corrected by itself; None if there is no such correction.
    error : ErrorEstimate
        Estimated error of K(X_new, X) after the correction.
    """

    n_clusters: int
    least_entry: float | None
    error: ErrorEstimate


class Correction(NamedTuple):
    """Corrections N of the coordinates and S of single entries: K(X_new, X) ~ (U C + N) Vᵀ + S."""

    coordinates: RowBlocks
    entries: csr_array | None


def landmarks_by_cluster(extensions: Sequence[Extension], basis: BlockDiagonal, core: Kernel) -> tuple[Landmarks, ...]:
    """Return the distinct landmarks of all extensions, by the nearest centre, with their rows in its basis."""
    partition = basis.partition
    points = np.unique(np.concatenate([extension.points for extension in extensions]), axis=0)
    clusters = partition.regroup(points)
    result = []
    for j, extension in enumerate(extensions):
        own = points[clusters.order[clusters.cluster(j)]]
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (core.block(extension.points, own).T @ extension.coefficients).astype(np.float64)
            kept = np.linalg.norm(rows, axis=1) <= _LONGEST_ROW
        places = identified(basis.block(j), rows[kept])
        columns = np.where(places < 0, -1, partition.order[partition.cluster(j)][places])
        result.append(Landmarks(own[kept], rows[kept], columns))
    return tuple(result)


def identified(basis: FloatArray, rows: FloatArray) -> IntArray:
    """Return the row of an orthonormal basis that each of the given rows is equal to; -1 if it is not certain.

    A row is identified if its distance from the nearest row of the basis is within rounding, and far below that from
    the second nearest. Repeated points have equal rows and are not identified.
    """
    if len(rows) == 0 or len(basis) == 0:
        return np.full(len(rows), -1)
    candidates = np.concatenate([_two_nearest(basis, rows[tile]) for tile in tiles(len(rows), len(basis))])
    distances = np.linalg.norm(rows[:, np.newaxis] - basis[candidates], axis=2)
    place = candidates[np.arange(len(rows)), np.argmin(distances, axis=1)]
    near, second = distances.min(axis=1), distances.max(axis=1) if len(basis) > 1 else np.inf
    certain = (near <= _EQUAL_ROWS) & (near <= _DISTINCT * second) & (second >= _RESOLVED)
    certain &= np.bincount(place[certain], minlength=len(basis))[place] == 1
    return np.where(certain, place, -1)


def _two_nearest(basis: FloatArray, rows: FloatArray) -> IntArray:
    """Return the two rows of a basis that are nearest to each given row; one if the basis has one row."""
    squared = np.einsum("ij,ij->i", basis, basis) - 2 * rows @ basis.T
    return np.argpartition(squared, min(1, len(basis) - 1), axis=1)[:, :2]


def nearest_clusters(centers: FloatArray, X: FloatArray, count: int) -> IntArray:
    """Return the ``count`` nearest centres of each point in ascending distance, of shape (len(X), count)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return nearest_points(centers, X, min(count, len(centers)))


def sufficient_count(errors: FloatArray, labels: IntArray, nearest: IntArray, allowed: float) -> int:
    """Return the number of near clusters beyond which the squared errors sum to at most ``allowed``.

    Parameters
    ----------
    errors : ndarray of shape (n_probes, m)
        Squared errors of entries between factorized points and new points.
    labels : ndarray of shape (n_probes,)
        Cluster of each factorized point.
    nearest : ndarray of shape (m, n_clusters)
        Clusters in ascending distance from each new point.
    allowed : float
        Squared error that may remain at the farther clusters.
    """
    position = np.argsort(nearest, axis=1)  # the inverse permutation of each row
    by_position = np.bincount(position[:, labels].T.ravel(), errors.ravel(), minlength=nearest.shape[1])
    beyond = by_position.sum() - np.cumsum(by_position)
    return min(int(np.argmax(beyond <= allowed)) + 1, _MOST_CLUSTERS)


def correction(field: NearField, X: FloatArray, U: BlockDiagonal, plan: CorrectionPlan) -> Correction:
    """Return the correction of the rows of new points at the nearest clusters.

    Parameters
    ----------
    field : NearField
        Landmarks and factors.
    X : ndarray of shape (m, d)
        New points in kernel coordinates.
    U : BlockDiagonal
        Their u(x), grouped by the nearest centre.
    plan : CorrectionPlan
        Number of clusters, and least size of single entries.
    """
    rows = _rows_near(nearest_clusters(field.partition.centers, X, plan.n_clusters), field.partition.n_clusters)
    places, blocks, entries = _places(U.partition), [], []
    for j, own in enumerate(rows):
        present = coordinates(field.inner, U, places[own], j)
        block = np.empty(present.shape, dtype=U.dtype)
        for tile in tiles(len(own), len(field.landmarks[j].points)):
            fit = _fit(field, j, X[own[tile]], present[tile])
            block[tile] = fit.coordinates - present[tile]
            entries.append(_large_entries(fit.residual, own[tile], field.landmarks[j].columns, plan.least_entry))
        blocks.append(block)
    shape = len(X), field.partition.n_points
    single = None if plan.least_entry is None else _sparse(entries, shape, U.dtype)
    return Correction(RowBlocks(len(X), rows, tuple(blocks)), single)


def near_errors(
    field: NearField, X: FloatArray, U: BlockDiagonal, n_clusters: int, least_entry: float | None
) -> NearErrors:
    """Estimate the errors at the ``n_clusters`` nearest clusters, before and after the correction.

    Entries at landmarks are known. Those at other points of a cluster are estimated from landmarks that are held out
    of the fit in turn. ``least_entry`` is the least size of an entry that is corrected by itself.
    """
    places, (before, after, saved) = _places(U.partition), np.zeros((3, len(X)))
    rows = _rows_near(nearest_clusters(field.partition.centers, X, n_clusters), field.partition.n_clusters)
    for j, own in enumerate(rows):
        points, u, columns = field.landmarks[j]
        if len(own) == 0 or len(points) == 0:
            continue
        present = coordinates(field.inner, U, places[own], j)
        residual = field.core.block(points, X[own]).T.astype(np.float64) - present @ u.T
        others = max(float(field.partition.sizes[j]) / len(points) - 1, 0.0)
        fit = _fit(field, j, X[own], present)
        before[own] += (1 + others) * _squares(residual)
        after[own] += _squares(fit.residual) + others * _squares(_held_out(u, residual))
        saved[own] += _squares(np.where(_is_large(fit.residual, columns, least_entry), fit.residual, 0.0))
    return NearErrors(before, after, after - saved)


def coordinates(inner: InnerMatrix, U: BlockDiagonal, places: IntArray, j: int) -> FloatArray:
    """Return the coordinates u(x)ᵀ C_ij of new points in the basis of cluster ``j``, in float64.

    ``places`` are the positions of the new points in the order of the clusters of U.
    """
    clusters = np.searchsorted(U.partition.starts, places, side="right") - 1
    result = np.empty((len(places), int(U.ranks[j])))
    for i in np.unique(clusters).tolist():
        own = np.flatnonzero(clusters == i)
        u = U.block(i)[places[own] - U.partition.starts[i]].astype(np.float64)
        result[own] = u @ inner.block(i, j)
    return result


def _places(partition: Partition) -> IntArray:
    """Return the position of each point in the order of the clusters."""
    places = np.empty(partition.n_points, dtype=np.intp)
    places[partition.order] = np.arange(partition.n_points)
    return places


def _rows_near(nearest: IntArray, n_clusters: int) -> tuple[IntArray, ...]:
    """Return the new points of which each cluster is one of the nearest, in ascending order."""
    order = np.argsort(nearest, axis=None, kind="stable")
    ends = np.cumsum(np.bincount(nearest.ravel(), minlength=n_clusters))
    return tuple(part // nearest.shape[1] for part in np.split(order, ends[:-1]))


def _is_large(residual: FloatArray, columns: IntArray, least: float | None) -> npt.NDArray[np.bool_]:
    """Return which entries at identified landmarks are at least of the given size; None selects no entry."""
    return (columns >= 0) & (np.abs(residual) >= (np.inf if least is None else least))


def _large_entries(
    residual: FloatArray, rows: IntArray, columns: IntArray, least: float | None
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return values, rows and columns of the entries that are corrected by themselves."""
    row, landmark = np.nonzero(_is_large(residual, columns, least))
    return residual[row, landmark], rows[row], columns[landmark]


def _sparse(entries: list[tuple[FloatArray, IntArray, IntArray]], shape: tuple[int, int], dtype: Any) -> csr_array:
    values, rows, columns = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return csr_array((values.astype(dtype), (rows, columns)), shape=shape)


class _Fit(NamedTuple):
    """Corrected coordinates of new points in the basis of a cluster, and the residual at its landmarks."""

    coordinates: FloatArray
    residual: FloatArray


def _fit(field: NearField, j: int, X: FloatArray, present: FloatArray) -> _Fit:
    """Correct the coordinates of new points in the basis of cluster ``j``."""
    points, u, _ = field.landmarks[j]
    if len(points) == 0:
        return _Fit(present, np.zeros((len(X), 0)))
    exact = field.core.block(points, X).T.astype(np.float64)
    result = present + fitted(u, exact - present @ u.T)
    largest = float(field.largest[j])
    if field.largest_entry is None:
        bounds = np.sqrt(np.maximum(field.core.diagonal(X).astype(np.float64), largest) * largest)
    else:
        bounds = np.full(len(X), field.largest_entry)
    result = _bounded(result, field.roots[j], largest, bounds)
    return _Fit(result, exact - result @ u.T)


def fitted(u: FloatArray, residual: FloatArray) -> FloatArray:
    """Return the coordinates of rows whose entries at the landmarks are given.

    Parameters
    ----------
    u : ndarray of shape (l, r)
        Rows of the landmarks.
    residual : ndarray of shape (m, l)
        Entries of m rows at the landmarks.

    Returns
    -------
    ndarray of shape (m, r)
    """
    values, vectors = np.linalg.eigh(u.T @ u)
    scale = np.maximum(values, 0) + _OTHERS * np.maximum(1 - values, 0)
    return np.asarray((residual @ u @ vectors / scale) @ vectors.T)


def _held_out(u: FloatArray, residual: FloatArray) -> FloatArray:
    """Return the residual at each landmark after a fit to the landmarks of the other groups."""
    result = residual.copy()
    group = np.arange(len(u)) % _FOLDS
    for g in range(min(_FOLDS, len(u))):
        out = group == g
        result[:, out] -= fitted(u[~out], residual[:, ~out]) @ u[out].T
    return result


def _bounded(c: FloatArray, root: FloatArray, largest: float, bounds: FloatArray) -> FloatArray:
    """Reduce coordinates whose entries may exceed the bounds.

    No row of an orthonormal basis is longer than 1, so that the entries are at most |c|. They are also at most the
    square root of cᵀ C_jj⁻¹ c times the largest variance of a point, by the Cauchy-Schwarz inequality.
    """
    long = np.einsum("ij,ij->i", c, c) > bounds**2
    if long.any():
        c = c.copy()
        c[long] = within_variance(c[long], root, bounds[long] ** 2 / max(largest, np.finfo(np.float64).tiny))
    return c


def _squares(errors: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", errors, errors))
