"""Sampled columns of a cluster into its orthonormal basis U_i.

Besides U_i a basis carries what the later stages need of the cluster: the rows that determine coordinates in U_i
(Proposition 3.2 of the paper), the diagonal that blocks of low rank cannot hold, and a way to extend U_i to new points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from blockbasis._linalg import semidefinite_part
from blockbasis._typing import FloatArray, IntArray
from blockbasis.directions import (
    OVERSAMPLING,
    ColumnDirections,
    Columns,
    Directions,
    GramDirections,
    directions_of,
    energy_of,
    gather,
    randomized_svd,
    triangle,
)
from blockbasis.matrix import KernelMatrix, coincidences
from blockbasis.partition import Partition
from blockbasis.sampling import Skeleton, important_columns

#: Rows per unit of rank that determine coordinates: in the inner matrix, and while the diagonal settles.
INNER_ROWS_PER_RANK = 8
_SURROGATE_ROWS_PER_RANK = 3
_SETTLING_ROWS_PER_RANK = 4
#: Directions with singular values below so many roundings of the largest are not kept.
_NEGLIGIBLE = 10
#: How often the basis is rebuilt from the matrix less its diagonal part: at least, and at most while a definite C
#: would discard more than this share of what the basis leaves.
DIAGONAL_ROUNDS = 3
_MOST_ROUNDS = 12
SETTLED_SHARE = 0.1
#: No diagonal part is wanted at first where a basis leaves no more than this share of the diagonal's energy.
_NEARLY_NOTHING = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-5}

#: Points per unit of rank that a basis is extended from: fitted afterwards, or spanning it.
_EXTENSION_POINTS_PER_RANK = 2.0
SKELETON_POINTS_PER_RANK = 2.5
_SKELETON_ROWS_PER_POINT = 2
_PIVOT_OVERSAMPLING = 8
#: Singular values below this share of the largest are left out of an extension: they would amplify rounding. Columns
#: of points so far away that the kernel has vanished extend nothing.
_VANISHED = 1e-150
_AMPLIFIED = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-6}
#: Pivoted QR looks at this many candidates for each one it is to choose; more make it slow and no better.
_PIVOT_CANDIDATES_PER_RANK = 8
_POINT_CANDIDATES = 4


@dataclass(frozen=True)
class Extension:
    """How a cluster's basis continues to new points: u(x) = K(x, points) coefficients.

    Parameters
    ----------
    points : ndarray of shape (m, d)
    coefficients : ndarray of shape (m, r)
    """

    points: FloatArray
    coefficients: FloatArray


@dataclass(frozen=True)
class Spectrum:
    """Energy of the columns that a basis was taken from, the diagonal part left out.

    Parameters
    ----------
    values : ndarray of shape (w,)
        Squared norm of the columns along the leading directions, a few more than the basis has vectors. Descending,
        unless they come from other columns than the basis.
    tail : float
        Sum of the squared singular values that are not among ``values``.
    own_share : float
        Share of the cluster's own columns in the energy of the last directions.
    norm : float
        Squared Frobenius norm of the row-submatrix, the diagonal part included.
    regained : ndarray of shape (w,)
        Energy on the diagonal that a diagonal part takes over when only the first 0, 1, ... directions are kept.
    discarded : float
        Energy of its own block that a positive semi-definite C cannot hold.
    """

    values: FloatArray
    tail: float
    own_share: float
    norm: float
    regained: FloatArray
    discarded: float = 0.0


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


@dataclass(frozen=True)
class BlockDiagonal:
    """The block-diagonal orthonormal matrix of all clusters' bases, in the order of the caller's points."""

    partition: Partition
    blocks: tuple[FloatArray, ...]

    @classmethod
    def of(cls, partition: Partition, bases: Sequence[ClusterBasis], dtype: np.dtype[Any]) -> BlockDiagonal:
        """The vectors of all clusters' bases, copied and rounded to ``dtype``."""
        return cls(partition, tuple(np.array(basis.vectors, dtype=dtype, order="C") for basis in bases))

    @property
    def ranks(self) -> IntArray:
        return np.array([block.shape[1] for block in self.blocks], dtype=np.intp)

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    def project(self, V: FloatArray) -> FloatArray:
        """Uᵀ V for V of shape (n, m)."""
        V = V[self.partition.order]
        pieces = [block.T @ V[self.partition.cluster(i)] for i, block in enumerate(self.blocks)]
        return np.concatenate(pieces)

    def expand(self, W: FloatArray) -> FloatArray:
        """U W for W of shape (R, m)."""
        result = np.empty((self.partition.n_points, W.shape[1]), dtype=np.result_type(W, *self.blocks[:1]))
        offsets = np.concatenate(([0], np.cumsum(self.ranks)))
        for i, block in enumerate(self.blocks):
            result[self.partition.order[self.partition.cluster(i)]] = block @ W[offsets[i] : offsets[i + 1]]
        return result


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
        extension = _own_extension(matrix.rows[points], block)
    else:
        points = np.union1d(points, others)
        extension = _fit_extension(matrix.rows[points], matrix.block(cluster, points), identity)
    return ClusterBasis(identity, every, np.eye(size), _symmetric(block), np.zeros(size), extension)


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
    extension = _sampled_extension(matrix, columns, U, rows, rng) if matrix.symmetric else None
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
    columns, vectors, diagonal, spectrum = _settled(matrix, cluster, skeleton, rank, rng, rounds)
    rank = min(rank, max(1, int(np.count_nonzero(spectrum.values > _negligible(matrix) ** 2 * spectrum.values[0]))))
    U = vectors[:, : rank if keep is None else min(rank, keep(spectrum))]
    basis = _with_rows(
        matrix, cluster, U, diagonal, lambda rows: _sampled_extension(matrix, columns, U, rows, rng), rng
    )
    return replace(basis, spectrum=spectrum)


def sampled_spectrum(
    matrix: KernelMatrix,
    cluster: slice,
    skeleton: Skeleton,
    fresh: Skeleton | None,
    rank: int,
    rng: np.random.Generator,
    rounds: int,
) -> Spectrum:
    """Spectrum of the basis that `sampled_basis` would return, without the rest of it.

    Its energies are those of ``fresh`` columns: of the columns that a basis was fitted to, it leaves too little. None
    are wanted where these were all.
    """
    _, vectors, diagonal, spectrum = _settled(matrix, cluster, skeleton, rank, rng, rounds)
    if fresh is None:
        return spectrum
    columns = ColumnDirections(gather(matrix, cluster, fresh), cluster)
    columns.deflate(diagonal)
    energies = columns.energies(vectors)
    return replace(spectrum, values=energies, tail=max(columns.energy - float(energies.sum()), 0.0))


def _settled(
    matrix: KernelMatrix, cluster: slice, skeleton: Skeleton, rank: int, rng: np.random.Generator, rounds: int
) -> tuple[Columns, FloatArray, FloatArray, Spectrum]:
    """Columns, their leading left singular vectors without the diagonal part, that part, and the spectrum."""
    source: Directions = directions_of(matrix, cluster, skeleton, rank + OVERSAMPLING)
    result = _settle(matrix, cluster, source, rank, rng, rounds)
    if isinstance(source, GramDirections) and not source.resolves(result[-1].values[:rank]):
        columns = source.columns if source.whole else gather(matrix, cluster, skeleton)
        result = _settle(matrix, cluster, ColumnDirections(columns, cluster), rank, rng, rounds)
    return result


def _settle(
    matrix: KernelMatrix, cluster: slice, source: Directions, rank: int, rng: np.random.Generator, rounds: int
) -> tuple[Columns, FloatArray, FloatArray, Spectrum]:
    width = rank + OVERSAMPLING
    norm = source.energy
    own_entries = matrix.diagonal(cluster).astype(np.float64)
    diagonal = np.zeros_like(own_entries)
    regained, discarded = np.zeros(0), 0.0
    vectors, energies = source.leading(width, rng)
    if rounds and _beyond(source, energies[:rank]) > _NEARLY_NOTHING[matrix.dtype] * float(own_entries @ own_entries):
        diagonal = _unshared(own_entries, cluster, source.columns)
        source.deflate(diagonal)
        vectors, energies = source.leading(width, rng)
    done = 0
    while done < rounds or (0 < done < _MOST_ROUNDS and discarded > SETTLED_SHARE * _beyond(source, energies[:rank])):
        U = vectors[:, :rank]
        rows = determining_rows(U, _SETTLING_ROWS_PER_RANK * rank, rng)
        core, definite, diagonal = _core_and_diagonal(
            matrix, cluster, U, rows, interpolate(U, rows), diagonal, _PASSING_UPDATES
        )
        regained = regained_by_diagonal(U, definite)
        discarded = max(energy_of(core) - energy_of(definite), 0.0)
        source.deflate(diagonal)
        vectors, energies = source.leading(width, rng)
        done += 1
    last = slice(-OVERSAMPLING, None)
    total = float(energies[last].sum())
    own_share = min(source.own_energy(vectors[:, last]) / total, 1.0) if total > 0 else 1.0
    regained = np.append(regained, np.zeros(len(energies)))[: len(energies)]
    spectrum = Spectrum(energies, _beyond(source, energies), own_share, norm, regained, discarded)
    return source.columns, vectors, diagonal, spectrum


def _beyond(source: Directions, energies: FloatArray) -> float:
    """Energy of the columns that is not among ``energies``."""
    return max(source.energy - float(energies.sum()), 0.0)


def _unshared(own_entries: FloatArray, cluster: slice, columns: Columns) -> FloatArray:
    """What each point shares with no other: the diagonal part if its nearest among the columns were its only one.

    Two points, alone with each other, leave this on the diagonal and one direction. Where a point's row of U is all its
    own, any diagonal part would settle at once, so that it matters where it starts.
    """
    shared = np.abs(columns.values[:, : len(columns.points)]) / columns.scales
    shared[coincidences(cluster, columns.points)] = 0
    return np.asarray(np.clip(own_entries - shared.max(axis=1, initial=0.0), 0, own_entries))


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
    pivots = _sketched_pivots(seen, n_points, rng)
    points = skeleton.columns[_with_uniform(pivots, n_points, seen.shape[1], rng)]
    block = matrix.block(cluster, points)
    Q, extension = _orthonormal_extension(matrix.columns[points], block)

    pivots = np.setdiff1d(important_columns(Q.T, Q.shape[1]), drawn)
    if pivots.size:
        seen = np.concatenate((seen, matrix.block(cluster.start + pivots, skeleton.columns) * scales))
    norm = energy_of(seen[: len(drawn)]) * height / len(drawn)
    rounds = DIAGONAL_ROUNDS if diagonal else 0
    rotation, part, energies = _settled_rotation(
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
        core = interpolation @ _symmetric(matrix.block(at, at)) @ interpolation.T
        basis = ClusterBasis(U, rows, interpolation, _symmetric(core), part, extension)
    return replace(basis, spectrum=spectrum)


def _with_uniform(pivots: IntArray, count: int, total: int, rng: np.random.Generator) -> IntArray:
    """Pivots, and others up to ``count``: only as many points as a cluster has rows would interpolate wildly."""
    others = np.setdiff1d(np.arange(total), pivots, assume_unique=True)
    return np.sort(np.concatenate((pivots, rng.choice(others, count - len(pivots), replace=False))))


def _settled_rotation(
    matrix: KernelMatrix,
    cluster: slice,
    Q: FloatArray,
    rows: IntArray,
    seen: FloatArray,
    skeleton: Skeleton,
    rank: int,
    rng: np.random.Generator,
    rounds: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rotation of Q to the directions of most energy in the columns less the diagonal part, that part, the energies."""
    _, at, own = np.intersect1d(cluster.start + rows, skeleton.columns, return_indices=True)
    spikes = seen[at, own].copy()
    inverse = interpolate(Q, rows)
    diagonal = np.zeros(Q.shape[0])
    for settling in range(rounds + 1):
        seen[at, own] = spikes - diagonal[rows[at]] * skeleton.scales[own]
        rotation, s, _ = np.linalg.svd(triangle((inverse @ seen.astype(np.float64)).T).T)
        if settling < rounds:
            U = Q @ rotation[:, :rank].astype(Q.dtype)
            some = determining_rows(U, _SETTLING_ROWS_PER_RANK * U.shape[1], rng)
            inverted = interpolate(U, some)
            *_, diagonal = _core_and_diagonal(matrix, cluster, U, some, inverted, diagonal, _PASSING_UPDATES)
    return rotation, diagonal, s**2


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
    core, _, diagonal = _core_and_diagonal(matrix, cluster, U, rows, interpolation, diagonal, _LOCAL_UPDATES)
    return ClusterBasis(U, rows, interpolation, core, diagonal, extend(rows))


# --- rows that determine coordinates, and the diagonal ---------------------------------------------------------------


def determining_rows(U: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Rows of U from which coordinates follow stably: pivots, then others up to ``count``.

    The others are drawn half uniformly and half by leverage. Uniform rows alone are wasted where most of a cluster's
    points are isolated and their rows of U vanish; leverage alone misses what the basis does not hold.
    """
    height, rank = U.shape
    if count >= height:
        return np.arange(height)
    leverage = np.einsum("ij,ij->i", U, U, dtype=np.float64)
    candidates = _likely_pivots(leverage, rank, rng)
    pivots = candidates[important_columns(U[candidates].T, rank)]
    others = np.setdiff1d(np.arange(height), pivots, assume_unique=True)
    chances = leverage[others]
    chances = chances + (chances.mean() or 1.0)
    drawn = rng.choice(others, count - pivots.shape[0], replace=False, p=chances / chances.sum())
    return np.sort(np.concatenate((pivots, drawn)))


def _likely_pivots(leverage: FloatArray, rank: int, rng: np.random.Generator) -> IntArray:
    """Rows to pivot among: all, or when they are many, enough of them drawn by leverage to span the row space."""
    height = leverage.shape[0]
    count = _PIVOT_CANDIDATES_PER_RANK * rank
    if 2 * count >= height or np.count_nonzero(leverage) <= count:
        return np.arange(height)
    return np.sort(rng.choice(height, count, replace=False, p=leverage / leverage.sum()))


def interpolate(U: FloatArray, rows: IntArray) -> FloatArray:
    """Pseudo-inverse of ``U[rows]``, in float64; the transpose when the rows are all of them."""
    chosen = U[rows].astype(np.float64)
    return chosen.T if rows.shape[0] == U.shape[0] else np.linalg.pinv(chosen)


#: Updates of core and diagonal against each other on the same rows; they evaluate no kernel entry. Fewer will do while
#: the basis still changes.
_LOCAL_UPDATES = 20
_PASSING_UPDATES = 6
#: They close half of a gap or less: each goes farther than it would. Up to 2 that is stable, since what is held of the
#: diagonal grows with what is added to it by no more than that.
STRIDE = 1.6
_SETTLED = 1e-6


def _core_and_diagonal(
    matrix: KernelMatrix,
    cluster: slice,
    U: FloatArray,
    rows: IntArray,
    interpolation: FloatArray,
    diagonal: FloatArray,
    updates: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """C_ii of the cluster from its determining rows, its definite part, and what that leaves of the diagonal of K."""
    at = cluster.start + rows
    block = _symmetric(matrix.block(at, at))
    values = matrix.diagonal(cluster).astype(np.float64)
    whole = interpolation @ block @ interpolation.T
    for _ in range(updates):
        core = _symmetric(whole - (interpolation * diagonal[rows]) @ interpolation.T)
        # Two near points in an empty neighbourhood: their block less its whole diagonal has eigenvalues a and -a. What
        # is left when the negative one is gone puts a back on the diagonal, and one direction then holds the pair.
        definite = semidefinite_part(core)
        held = diagonal_of(U, definite)
        left = np.clip(values - held, 0, values)
        if np.abs(left - diagonal).max() <= _SETTLED * np.abs(values).max():
            break
        diagonal = np.clip(diagonal + STRIDE * (left - diagonal), 0, values)
    return core, definite, left


def diagonal_of(U: FloatArray, core: FloatArray) -> FloatArray:
    """Diagonal of U C Uᵀ."""
    return np.asarray(np.einsum("ij,ij->i", U @ core.astype(U.dtype, copy=False), U))


def regained_by_diagonal(U: FloatArray, core: FloatArray) -> FloatArray:
    """Squared norm of what the diagonal of U C Uᵀ loses when only the first 0, 1, ... directions are kept."""
    added = U * (U @ (2 * np.triu(core, 1) + np.diag(np.diagonal(core))).astype(U.dtype))
    lost = np.cumsum(added[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.einsum("ij,ij->j", lost, lost, dtype=np.float64))


def _symmetric(M: FloatArray) -> FloatArray:
    M = M.astype(np.float64)
    return (M + M.T) / 2


# --- extension to new points -----------------------------------------------------------------------------------------


def _sampled_extension(
    matrix: KernelMatrix, columns: Columns, U: FloatArray, rows: IntArray, rng: np.random.Generator
) -> Extension:
    """Extension fitted to U by least squares, from sampled columns of large volume."""
    available = columns.points.shape[0]
    n_points = min(int(_EXTENSION_POINTS_PER_RANK * U.shape[1]), available)
    among = np.sort(rng.choice(available, min(_POINT_CANDIDATES * n_points, available), replace=False))
    chosen = among[_sketched_pivots(columns.values[np.ix_(rows, among)], n_points, rng)]
    block = (columns.values[:, chosen] / columns.scales[chosen]).astype(matrix.dtype, copy=False)
    return _fit_extension(matrix.columns[columns.points[chosen]], block, U.astype(matrix.dtype, copy=False))


def _own_extension(points: FloatArray, block: FloatArray) -> Extension:
    """Extension of the identity from the cluster's own points: the pseudo-inverse of its block, cut like all others."""
    values, vectors = np.linalg.eigh(_symmetric(block))
    kept = values > max(_AMPLIFIED[block.dtype] * values[-1], _VANISHED)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return Extension(points, inverse.astype(block.dtype))


def _fit_extension(points: FloatArray, block: FloatArray, U: FloatArray) -> Extension:
    Q, extension = _orthonormal_extension(points, block)
    return Extension(points, extension.coefficients @ (Q.T @ U))


def _orthonormal_extension(points: FloatArray, block: FloatArray) -> tuple[FloatArray, Extension]:
    """Orthonormal Q = block @ coefficients, without the directions in which rounding would be amplified."""
    Q, R = np.linalg.qr(block.astype(np.float64))
    left, s, right = np.linalg.svd(R, full_matrices=False)
    kept = max(1, int(np.count_nonzero(s > _AMPLIFIED[block.dtype] * s[0])))
    inverse = 1 / s[:kept] if s[0] > _VANISHED else np.zeros(kept)
    coefficients = (right[:kept].T * inverse).astype(block.dtype)
    return (Q @ left[:, :kept]).astype(block.dtype), Extension(points, coefficients)


def _sketched_pivots(block: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """At most ``count`` columns of large volume, pivoted on a Gaussian sketch of the rows: much cheaper than on all."""
    height = count + _PIVOT_OVERSAMPLING
    if block.shape[0] > height:
        block = rng.standard_normal((height, block.shape[0]), dtype=block.dtype.type) @ block
    return np.sort(important_columns(block, count))
