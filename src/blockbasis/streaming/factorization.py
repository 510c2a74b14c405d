"""Factorization of points that are read in pieces: basis functions of a sample, then one pass over all points.

The bases and the inner matrix are computed from a sample of the rows, at a cost that does not depend on n (see
`blockbasis.construction`). The functions u(x) = K(x, S_i) T_i do not depend on the other points, so that one pass over
the rows evaluates U, cluster by cluster, in fixed memory beside U itself.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import linalg

from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.progress import advancing
from blockbasis._utils.tiling import offsets
from blockbasis.construction.inner_matrix import transformed_inner
from blockbasis.construction.pipeline import orthonormalize
from blockbasis.exceptions import AccuracyWarning
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.partition import Partition
from blockbasis.streaming.sources import SAMPLE_ROWS, Rows
from blockbasis.streaming.workspace import release, workspace_array

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.streaming.functions import BasisFunctions

#: Rows that check the error.
CHECKED_ROWS = 2_000
#: Bytes of U that are written before the pages are removed from resident memory.
_RESIDENT = 2**27


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a table without replacement.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Rows that the factorization is made from, in float64.
    held_out : ndarray of shape (h, d)
        Other rows, that check it; the rows themselves where the table has no others.
    """

    points: FloatArray
    held_out: FloatArray


def draw_sample(rows: Rows, rng: np.random.Generator, *, caller: str = "factorize") -> Sample:
    """Draw the rows that determine a factorization, and those that check it, in one pass."""
    n = rows.shape[0]
    count, checked = sample_counts(n)
    drawn = np.sort(rng.choice(n, count + checked, replace=False)) if count + checked < n else np.arange(n)
    held_out = np.zeros(len(drawn), dtype=bool)
    held_out[rng.choice(len(drawn), len(drawn) - count, replace=False)] = True
    values = rows.take(drawn, caller=caller).astype(np.float64, copy=False)
    points = values[~held_out]
    return Sample(points, values[held_out] if held_out.any() else points[rng.permutation(len(points))[:CHECKED_ROWS]])


def sample_counts(n: int) -> tuple[int, int]:
    """Return the numbers of rows that determine and that check a factorization of n rows."""
    if n <= SAMPLE_ROWS:
        return n, 0
    checked = min(CHECKED_ROWS, n // 2)  # all of them: one row alone would check its diagonal entry only
    return min(SAMPLE_ROWS, n - checked), checked


def factorize_rows(
    functions: BasisFunctions,
    rows: Rows,
    *,
    dtype: npt.DTypeLike,
    diagonal: bool,
    workspace: str | PathLike[str] | None,
    n_jobs: int,
) -> BlockBasis:
    """Evaluate the basis functions at all rows and return the factorization.

    Parameters
    ----------
    functions : BasisFunctions
    rows : Rows
    dtype : dtype
        Of U, C and D.
    diagonal : bool
        Whether the residual of the diagonal is stored in D.
    workspace : path-like or None
        Directory of a temporary file for U; None keeps U in memory.
    n_jobs : int
    """
    with single_threaded():
        U, lost = evaluated(functions, rows, dtype, workspace, n_jobs)
        return orthonormal(functions, U, lost if diagonal else None, n_jobs)


def evaluated(
    functions: BasisFunctions, rows: Rows, dtype: npt.DTypeLike, workspace: str | PathLike[str] | None, n_jobs: int
) -> tuple[BlockDiagonal, FloatArray]:
    """Return the functions at all rows, and the variances k(x, x) - u(x)ᵀ C u(x) that they lose."""
    partition, labels = _partition(functions, rows)
    values = workspace_array(workspace, int(partition.sizes @ functions.ranks), dtype)
    U = BlockDiagonal(partition, functions.ranks, values)
    return U, _evaluate(functions, rows, labels, U, n_jobs)


def orthonormal(functions: BasisFunctions, U: BlockDiagonal, lost: FloatArray | None, n_jobs: int) -> BlockBasis:
    """Return the factorization with the functions at all rows; U becomes orthonormal in place.

    Parameters
    ----------
    functions : BasisFunctions
    U : BlockDiagonal
        As `evaluated` returns it.
    lost : ndarray of shape (n,) or None
        Variances that D holds.
    n_jobs : int
    """
    clusters = [(i,) for i in range(functions.n_clusters)]
    factors = map_threads(lambda i: _orthonormalized(U, i), clusters, n_jobs, "bases")
    extensions = [_extension(each, R, U.dtype) for each, R in zip(functions.extensions, factors, strict=True)]
    n_entries = int(U.partition.sizes @ [len(extension.points) for extension in functions.extensions])
    return BlockBasis(
        kernel=functions.kernel,
        basis=U.freeze(),
        inner=transformed_inner(functions.inner, factors).astype(U.dtype),
        diagonal_part=diagonal_part(functions, lost, U),
        extensions=tuple(extensions),
        entries=Entries(n_entries, 0, 0),
    )


def diagonal_part(functions: BasisFunctions, lost: FloatArray | None, U: BlockDiagonal) -> FloatArray | None:
    """Return D: the variances that it holds, and white noise; None where there is neither."""
    noise = functions.kernel.noise
    if lost is None and not noise:
        return None
    held = np.zeros(U.partition.n_points) if lost is None else lost
    return (held + noise).astype(U.dtype)


def warn_of_missed_tolerance(estimate: ErrorEstimate, tol: float | None) -> None:
    """Warn where a tolerance is missed for certain."""
    if tol is not None and estimate.value - 2 * estimate.stderr > tol:
        warnings.warn(
            f"The relative error is about {estimate:.2g}, above tol={tol:g}: the sample of {SAMPLE_ROWS:,} rows does "
            "not represent all rows. Take a larger bandwidth, or factorize the points in memory.",
            AccuracyWarning,
            stacklevel=4,
        )


def held_out_error(functions: BasisFunctions, points: FloatArray, n: int, *, carried: bool) -> ErrorEstimate:
    """Estimate the relative error of n rows from the entries between held-out ones."""
    core = functions.kernel.core
    coordinates = functions.kernel.coordinates(points).astype(np.float64, copy=False)
    with single_threaded():
        exact = core.block(coordinates, coordinates)
        errors, squares = (exact - _approximated(functions, points)) ** 2, exact**2
    # Off-diagonal entries represent n (n - 1) entries, and diagonal ones n.
    weights = np.full(exact.shape, (n - 1) / max(len(points) - 1, 1))
    np.fill_diagonal(weights, 1.0)
    np.fill_diagonal(errors, 0.0 if carried else np.diagonal(errors))
    return ErrorEstimate.of_sampled_rows((errors * weights).sum(axis=1), (squares * weights).sum(axis=1))


def _approximated(functions: BasisFunctions, points: FloatArray) -> FloatArray:
    """Return u(x)ᵀ C u(y) for all pairs of some points; only the blocks of C of their clusters are read."""
    values, own = np.zeros((len(points), len(points))), {each.cluster: each for each in functions.at(points, 1)}
    for i, rows in own.items():
        for j in functions.inner.kept[i].tolist():
            if j in own:
                columns = own[j]
                block = (rows.values @ functions.inner.block(i, j)) @ columns.values.T
                values[np.ix_(rows.rows, columns.rows)] = block
                values[np.ix_(columns.rows, rows.rows)] = block.T
    return values


def _partition(functions: BasisFunctions, rows: Rows) -> tuple[Partition, IntArray]:
    """Partition of all rows by the nearest centre, and the cluster of each row."""
    labels: IntArray = np.empty(len(rows), dtype=np.int32)
    radii = np.zeros(functions.n_clusters)
    for piece in rows.pieces():
        points = functions.kernel.coordinates(piece.values)
        own = functions.labels(points)
        labels[piece.start : piece.start + len(own)] = own
        away = points - functions.centers[own]
        np.maximum.at(radii, own, np.sqrt(np.einsum("ij,ij->i", away, away)))
    order = np.argsort(labels, kind="stable")
    starts = offsets(np.bincount(labels, minlength=functions.n_clusters))
    return Partition(order, starts, functions.centers, radii), labels


def _evaluate(functions: BasisFunctions, rows: Rows, labels: IntArray, U: BlockDiagonal, n_jobs: int) -> FloatArray:
    """Write the functions at all rows into U; return the variances that they lose, in the order of the rows."""
    filled, lost, written = np.zeros(functions.n_clusters, dtype=np.intp), np.empty(len(rows)), 0
    advance = advancing(len(rows))
    for piece in rows.pieces():
        own = labels[piece.start : piece.start + len(piece.values)]
        for each in functions.at(piece.values, n_jobs, own):
            first = int(filled[each.cluster])
            # The order of the rows in a cluster is that of the table, piece after piece.
            U.block(each.cluster)[first : first + len(each.rows)] = each.values
            filled[each.cluster] += len(each.rows)
            lost[piece.start + each.rows] = each.lost
            written += each.values.size * U.dtype.itemsize
        if written > _RESIDENT:
            release(U.values)
            written = 0
        advance("points", len(piece.values))
    return lost


def _orthonormalized(U: BlockDiagonal, i: int) -> FloatArray:
    """Make the columns of a block orthonormal, in place; return R with old values = new values R."""
    block = U.block(i)
    values = block if U.dtype == np.float64 else block.astype(np.float64)
    height, rank = values.shape
    if height >= rank:
        R = orthonormalize(values)
    else:  # fewer rows than functions: the remaining columns vanish
        R = np.zeros((rank, rank))
        Q, R[:height] = np.linalg.qr(values)
        values = np.zeros((height, rank))
        values[:, :height] = Q
    block[...] = values
    release(U.values)
    return R


def _extension(extension: Extension, R: FloatArray, dtype: npt.DTypeLike) -> Extension:
    """Extension of the orthonormalised functions."""
    pivots = np.abs(np.diagonal(R))
    if pivots.min() > np.finfo(np.float64).eps * pivots.max():
        coefficients = linalg.solve_triangular(R, extension.coefficients.T, trans=1, check_finite=False).T
    else:  # directions that vanish on the points have no extension
        coefficients = extension.coefficients @ np.linalg.pinv(R)
    return Extension(extension.points.astype(dtype), coefficients.astype(dtype))
