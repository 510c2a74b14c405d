"""Sampled columns of a cluster into its orthonormal basis U_i.

Besides U_i a basis carries what the later stages need of the cluster: the rows that determine coordinates in U_i, the
diagonal that blocks of low rank cannot hold, and a way to extend U_i to new points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from blockbasis._linalg import symmetric
from blockbasis._typing import FloatArray, IntArray
from blockbasis.coordinates import determining_rows, interpolate
from blockbasis.directions import energy_of, gather, randomized_svd
from blockbasis.extension import (
    Extension,
    fit_extension,
    orthonormal_extension,
    own_extension,
    sampled_extension,
    sketched_pivots,
)
from blockbasis.matrix import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal as BlockDiagonal
from blockbasis.sampling import Skeleton, important_columns
from blockbasis.settling import (
    DIAGONAL_ROUNDS,
    LOCAL_UPDATES,
    Spectrum,
    core_and_diagonal,
    settled,
    settled_rotation,
)

#: Rows per unit of rank that determine coordinates in the inner matrix.
INNER_ROWS_PER_RANK = 8
_SURROGATE_ROWS_PER_RANK = 3
#: Directions with singular values below so many roundings of the largest are not kept.
_NEGLIGIBLE = 10
#: Points per unit of rank that span a skeleton basis, and rows looked at for each of them.
SKELETON_POINTS_PER_RANK = 2.5
_SKELETON_ROWS_PER_POINT = 2

#: How many of a basis's vectors to keep, given its spectrum.
Keep: TypeAlias = Callable[[Spectrum], int]


@dataclass(frozen=True)
class ClusterBasis:
    """Basis of one cluster's row-submatrix.

    Parameters
    ----------
    vectors : ndarray of shape (n_i, r_i)
        Orthonormal columns U_i.
    rows : ndarray of shape (m,)
        Rows of the cluster (counted inside it) whose entries determine coordinates in U_i.
    interpolation : ndarray of shape (r_i, m)
        Pseudo-inverse of ``vectors[rows]``.
    core : ndarray of shape (r_i, r_i)
        The diagonal block C_ii of the inner matrix, for K less ``diagonal``.
    diagonal : ndarray of shape (n_i,)
        What K has on the diagonal over U_i C_ii U_iᵀ; zero where no diagonal part is kept.
    extension : Extension or None
    spectrum : Spectrum or None
        Known where the basis came from sampled columns of a symmetric matrix.
    """

    vectors: FloatArray
    rows: IntArray
    interpolation: FloatArray
    core: FloatArray
    diagonal: FloatArray
    extension: Extension | None
    spectrum: Spectrum | None = None


# --- bases -----------------------------------------------------------------------------------------------------------


def full_basis(matrix: KernelMatrix, cluster: slice, others: IntArray | None = None) -> ClusterBasis:
    """The identity: a cluster with no more points than its rank is kept as it is.

    It is extended from its own points and from ``others``, columns that it sees: then u(x) comes near the combination
    of its rows that is nearest to the row of x. Its own few points alone say little of what stands around them.
    """
    size = cluster.stop - cluster.start
    identity = np.eye(size, dtype=matrix.dtype)
    every = np.arange(size)
    if not matrix.symmetric:
        return ClusterBasis(identity, every, np.eye(size), np.empty((0, 0)), np.zeros(size), None)
    block = matrix.block(cluster, cluster)
    points = np.arange(cluster.start, cluster.stop)
    if others is None or matrix.shape[0] == size:
        extension = own_extension(matrix.rows[points], block)
    else:
        points = np.union1d(points, others)
        extension = fit_extension(matrix.rows[points], matrix.block(cluster, points), identity)
    return ClusterBasis(identity, every, np.eye(size), symmetric(block), np.zeros(size), extension)


def _negligible(matrix: KernelMatrix) -> float:
    return _NEGLIGIBLE * float(np.finfo(matrix.dtype).eps)


def paper_basis(
    matrix: KernelMatrix, cluster: slice, skeleton: Skeleton, rank: int, rng: np.random.Generator
) -> ClusterBasis:
    """Basis of Algorithm 5: Algorithm 4 on the important columns, the important rows kept for the inner matrix."""
    # The inner matrix will invert few rows of U, which amplifies rounding: U is rounded to its storage after that.
    columns = gather(matrix.double, cluster, skeleton)
    U, s, _ = randomized_svd(columns.values, rank, rng)
    negligible = max(_negligible(matrix.double), float(np.finfo(matrix.dtype).eps))
    U = U[:, : max(1, int(np.count_nonzero(s > negligible * s[0])))]
    rows = skeleton.rows if skeleton.rows.size else determining_rows(U, rank, rng)
    extension = sampled_extension(matrix, columns, U, rows, rng) if matrix.symmetric else None
    empty = np.empty((0, 0))  # Algorithm 5 draws rows for each pair, the diagonal one too
    return ClusterBasis(U, rows, empty, empty, np.zeros(U.shape[0]), extension)


def sampled_basis(
    matrix: KernelMatrix,
    cluster: slice,
    skeleton: Skeleton,
    rank: int,
    rng: np.random.Generator,
    keep: Keep | None = None,
    rounds: int = DIAGONAL_ROUNDS,
) -> ClusterBasis:
    """Leading left singular vectors of the sampled columns, each point's own residual spike left out.

    Blocks of low rank cannot hold the diagonal of a kernel of small bandwidth, and a sampled column must not steer the
    basis by the one entry in which its point meets itself. So basis and diagonal settle in turn: a basis from the
    columns, what its block leaves on the diagonal, the columns less that, the next basis. ``keep`` may then ask for
    fewer vectors, once it has seen the spectrum. With no ``rounds`` the columns are taken as they are.
    """
    if not matrix.symmetric:
        U = randomized_svd(gather(matrix, cluster, skeleton).values, rank, rng)[0]
        rows = determining_rows(U, INNER_ROWS_PER_RANK * rank, rng)
        return ClusterBasis(U, rows, interpolate(U, rows), np.empty((0, 0)), np.zeros(U.shape[0]), None)
    columns, vectors, diagonal, spectrum = settled(matrix, cluster, skeleton, rank, rng, rounds)
    rank = min(rank, max(1, int(np.count_nonzero(spectrum.values > _negligible(matrix) ** 2 * spectrum.values[0]))))
    U = vectors[:, : rank if keep is None else min(rank, keep(spectrum))]
    basis = _with_rows(matrix, cluster, U, diagonal, lambda rows: sampled_extension(matrix, columns, U, rows, rng), rng)
    return replace(basis, spectrum=spectrum)


def skeleton_basis(
    matrix: KernelMatrix,
    cluster: slice,
    skeleton: Skeleton,
    rank: int,
    rng: np.random.Generator,
    keep: Keep | None = None,
    *,
    diagonal: bool = True,
) -> ClusterBasis:
    """Orthonormal combinations of a few kernel columns, so that the extension to new points is exact.

    The paper's modified BBF (section 4.2.3, discussion), orthonormalised: points are chosen by pivoted QR of sampled
    rows, their columns spanned by an orthonormal Q, and Q rotated to the directions of most energy in the sampled
    columns. Only the chosen points' columns are evaluated on the whole cluster. Without ``diagonal`` nothing is set
    apart, and fewer rows determine coordinates.
    """
    height = cluster.stop - cluster.start
    n_points = min(int(SKELETON_POINTS_PER_RANK * rank), len(skeleton.columns))
    drawn = np.sort(rng.choice(height, min(_SKELETON_ROWS_PER_POINT * n_points, height), replace=False))
    scales = skeleton.scales.astype(matrix.dtype)
    seen = matrix.block(cluster.start + drawn, skeleton.columns) * scales
    pivots = sketched_pivots(seen, n_points, rng)
    points = skeleton.columns[_with_uniform(pivots, n_points, seen.shape[1], rng)]
    block = matrix.block(cluster, points)
    Q, extension = orthonormal_extension(matrix.columns[points], block)

    pivots = np.setdiff1d(important_columns(Q.T, Q.shape[1]), drawn)
    if pivots.size:
        seen = np.concatenate((seen, matrix.block(cluster.start + pivots, skeleton.columns) * scales))
    norm = energy_of(seen[: len(drawn)]) * height / len(drawn)
    rounds = DIAGONAL_ROUNDS if diagonal else 0
    rotation, part, energies = settled_rotation(
        matrix, cluster, Q, np.concatenate((drawn, pivots)), seen, skeleton, rank, rng, rounds
    )
    taken_out = float(part @ (2 * matrix.diagonal(cluster) - part))
    tail = max(norm - taken_out - float(energies.sum()), 0.0)
    spectrum = Spectrum(energies, tail, 0.0, norm, np.zeros(len(energies)))
    rank = min(rank if keep is None else min(rank, keep(spectrum)), Q.shape[1])
    rotation = rotation[:, :rank].astype(Q.dtype)
    extension = Extension(extension.points, extension.coefficients @ rotation)
    U = Q @ rotation
    if diagonal:
        basis = _with_rows(matrix, cluster, U, part, lambda rows: extension, rng)
    else:
        rows = determining_rows(U, _SURROGATE_ROWS_PER_RANK * rank, rng)
        interpolation, at = interpolate(U, rows), cluster.start + rows
        core = interpolation @ symmetric(matrix.block(at, at)) @ interpolation.T
        basis = ClusterBasis(U, rows, interpolation, symmetric(core), part, extension)
    return replace(basis, spectrum=spectrum)


def _with_uniform(pivots: IntArray, count: int, total: int, rng: np.random.Generator) -> IntArray:
    """Pivots, and others up to ``count``: only as many points as a cluster has rows would interpolate wildly."""
    others = np.setdiff1d(np.arange(total), pivots, assume_unique=True)
    return np.sort(np.concatenate((pivots, rng.choice(others, count - len(pivots), replace=False))))


def _with_rows(
    matrix: KernelMatrix,
    cluster: slice,
    U: FloatArray,
    diagonal: FloatArray,
    extend: Callable[[IntArray], Extension],
    rng: np.random.Generator,
) -> ClusterBasis:
    rows = determining_rows(U, INNER_ROWS_PER_RANK * U.shape[1], rng)
    interpolation = interpolate(U, rows)
    core, _, diagonal = core_and_diagonal(matrix, cluster, U, rows, interpolation, diagonal, LOCAL_UPDATES)
    return ClusterBasis(U, rows, interpolation, core, diagonal, extend(rows))
