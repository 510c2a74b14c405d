"""Directions of a cluster and the diagonal part beside them, found in turn.

Blocks of low rank cannot hold the diagonal of a kernel of small bandwidth, and what a diagonal part should hold depends
on what the directions do. A basis from the columns, what its block leaves on the diagonal, the columns less that, the
next basis: until a positive semi-definite C would discard little of what the basis holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blockbasis._linalg import diagonal_of as diagonal_of
from blockbasis._linalg import semidefinite_part, symmetric
from blockbasis._typing import FloatArray, IntArray
from blockbasis.coordinates import determining_rows, interpolate
from blockbasis.directions import (
    OVERSAMPLING,
    ColumnDirections,
    Columns,
    Directions,
    GramDirections,
    directions_of,
    energy_of,
    gather,
    triangle,
)
from blockbasis.matrix import KernelMatrix, coincidences
from blockbasis.sampling import Skeleton

#: Rows per unit of rank that determine coordinates while the diagonal settles.
_ROWS_PER_RANK = 4
#: How often the basis is rebuilt from the matrix less its diagonal part: at least, and at most while a definite C
#: would discard more than this share of what the basis leaves.
DIAGONAL_ROUNDS = 3
_MOST_ROUNDS = 12
SETTLED_SHARE = 0.1
#: No diagonal part is wanted at first where a basis leaves no more than this share of the diagonal's energy.
_NEARLY_NOTHING = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-5}
#: Updates of core and diagonal against each other on the same rows; they evaluate no kernel entry. Fewer will do while
#: the basis still changes.
LOCAL_UPDATES = 20
_PASSING_UPDATES = 6
#: They close half of a gap or less: each goes farther than it would. Up to 2 that is stable, since what is held of the
#: diagonal grows with what is added to it by no more than that.
STRIDE = 1.6
_SETTLED = 1e-6


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
    _, vectors, diagonal, spectrum = settled(matrix, cluster, skeleton, rank, rng, rounds)
    if fresh is None:
        return spectrum
    columns = ColumnDirections(gather(matrix, cluster, fresh), cluster)
    columns.deflate(diagonal)
    energies = columns.energies(vectors)
    return replace(spectrum, values=energies, tail=max(columns.energy - float(energies.sum()), 0.0))


def settled(
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
        rows = determining_rows(U, _ROWS_PER_RANK * rank, rng)
        core, definite, diagonal = core_and_diagonal(
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


def settled_rotation(
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
            some = determining_rows(U, _ROWS_PER_RANK * U.shape[1], rng)
            inverted = interpolate(U, some)
            *_, diagonal = core_and_diagonal(matrix, cluster, U, some, inverted, diagonal, _PASSING_UPDATES)
    return rotation, diagonal, s**2


def core_and_diagonal(
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
    block = symmetric(matrix.block(at, at))
    values = matrix.diagonal(cluster).astype(np.float64)
    whole = interpolation @ block @ interpolation.T
    for _ in range(updates):
        core = symmetric(whole - (interpolation * diagonal[rows]) @ interpolation.T)
        # Two near points in an empty neighbourhood: their block less its whole diagonal has eigenvalues a and -a. What
        # is left when the negative one is gone puts a back on the diagonal, and one direction then holds the pair.
        definite = semidefinite_part(core)
        held = diagonal_of(U, definite)
        left = np.clip(values - held, 0, values)
        if np.abs(left - diagonal).max() <= _SETTLED * np.abs(values).max():
            break
        diagonal = np.clip(diagonal + STRIDE * (left - diagonal), 0, values)
    return core, definite, left


def regained_by_diagonal(U: FloatArray, core: FloatArray) -> FloatArray:
    """Squared norm of what the diagonal of U C Uᵀ loses when only the first 0, 1, ... directions are kept."""
    added = U * (U @ (2 * np.triu(core, 1) + np.diag(np.diagonal(core))).astype(U.dtype))
    lost = np.cumsum(added[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.einsum("ij,ij->j", lost, lost, dtype=np.float64))
