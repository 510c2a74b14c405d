"""Leading directions of a sampled block, the diagonal part beside them, and the error that they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._utils.linalg import column_energies, leading_eigenpairs
from blockbasis._utils.typing import FloatArray
from blockbasis.construction.coordinates import determining_rows, interpolate
from blockbasis.construction.diagonal import fit_core, unshared_diagonal
from blockbasis.construction.method import SampleSizes
from blockbasis.construction.sampled_block import SampledBlock
from blockbasis.kernels.evaluator import KernelMatrix

#: Random directions beyond the rank, and power iterations, of a randomized singular value decomposition.
OVERSAMPLING = 8
_POWER_ITERATIONS = 1
#: A random range wider than this part of the matrix gains nothing over the whole space.
_DIRECT = 3
#: Directions of singular values below so many roundings of the largest are not kept.
_NEGLIGIBLE = 10.0
#: A diagonal part is fitted where the diagonal has more than this share of the error that a basis leaves.
_DIAGONAL_SHARE = 0.1
_DIAGONAL_UPDATES = 6
#: Rows for each unit of rank that determine the core while the diagonal part is fitted.
_CORE_ROWS = 4
#: Where less than this share of the energy is missed, the difference of two norms has too few digits.
_CANCELLED = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 2e-5}
#: No diagonal part is wanted where the directions leave no more than this share of the diagonal's energy.
_NEARLY_NOTHING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


@dataclass(frozen=True)
class Directions:
    """Leading singular triplets: ``right`` holds Bᵀ vectors, not normalised, and ``energies`` the squared values."""

    vectors: FloatArray
    energies: FloatArray
    right: FloatArray

    def leading(self, count: int) -> Directions:
        return Directions(self.vectors[:, :count], self.energies[:count], self.right[:, :count])


def leading_directions(B: FloatArray, width: int, rng: np.random.Generator) -> Directions:
    """The ``width`` leading singular triplets of B, by a random range and a power iteration (the paper's Algorithm 4).

    A small matrix is decomposed whole. In float32 directions are told apart down to about 1e-6 of the largest.
    """
    height, length = B.shape
    width = min(width, height, length)
    if height <= _DIRECT * width and height <= length:
        small, energies = _right_rotation(B.T, width)
        return Directions(small, energies, (B.T @ small.astype(B.dtype)).astype(np.float64, copy=False))
    range_ = np.linalg.qr(B)[0] if length <= _DIRECT * width else _leading_range(B, width, rng)
    return rotated_directions(B, range_, width)


def _leading_range(B: FloatArray, width: int, rng: np.random.Generator) -> FloatArray:
    """Orthonormal vectors that span the leading directions, from random columns and power iterations.

    Columns of B span its range nearly as well as random combinations of columns, and cost no product.
    """
    range_ = np.linalg.qr(B[:, rng.choice(B.shape[1], width, replace=False)])[0]
    return power_iteration(B, range_, _POWER_ITERATIONS)


def power_iteration(B: FloatArray, range_: FloatArray, times: int = 1) -> FloatArray:
    """Orthonormal vectors that span a power of B Bᵀ times the given ones."""
    for _ in range(times):
        range_ = np.linalg.qr(B @ (B.T @ range_))[0]
    return range_


def rotated_directions(B: FloatArray, range_: FloatArray, width: int) -> Directions:
    """Singular triplets of the projection of B to orthonormal vectors."""
    projected = B.T @ range_
    small, energies = _right_rotation(projected, width)
    vectors, right = range_ @ small.astype(range_.dtype), projected @ small.astype(projected.dtype)
    return Directions(vectors.astype(np.float64, copy=False), energies, right.astype(np.float64, copy=False))


def _right_rotation(projected: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """The ``width`` leading right singular vectors of a tall matrix, and the squared singular values.

    Entries in float32 are squared in float64, which loses nothing and takes a third of the time of the factorization.
    """
    if projected.dtype == np.float32:
        tall = projected.astype(np.float64)
        values, vectors = leading_eigenpairs(tall.T @ tall, width)
        return vectors, np.maximum(values, 0)
    left, s, _ = np.linalg.svd(np.asarray(np.linalg.qr(projected, mode="r")).T)
    return left[:, :width], s[:width] ** 2


def resolved(directions: Directions, rank: int, dtype: np.dtype[np.floating]) -> Directions:
    """At most ``rank`` directions, those above the rounding of entries of the given type; at least one."""
    floor = (_NEGLIGIBLE * float(np.finfo(dtype).eps)) ** 2 * max(float(directions.energies[0]), np.finfo(float).tiny)
    return directions.leading(max(1, min(rank, int(np.count_nonzero(directions.energies > floor)))))


def directions_and_diagonal(
    matrix: KernelMatrix,
    block: SampledBlock,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    diagonal: bool,
) -> tuple[Directions, FloatArray, FloatArray]:
    """Leading directions of a block, the diagonal part beside them, and B without it.

    Blocks of low rank cannot hold the diagonal of a kernel of small bandwidth, and a sampled column must not steer the
    basis by the one entry in which its point meets itself. Where that matters, basis and diagonal part are found in
    turn.
    """
    part = np.zeros(len(block.rows))
    width = rank + OVERSAMPLING
    B = block.without(part)
    found = leading_directions(B, width, rng)
    if not diagonal or not _diagonal_matters(block, B, found.leading(rank), sizes.negligible):
        return found, part, B
    part = largest = unshared_diagonal(block.own_entries, block.kernel_block, block.coincident)
    range_ = found.vectors.astype(B.dtype, copy=False)
    size = block.cluster.stop - block.cluster.start
    for _ in range(sizes.diagonal_rounds):
        B = block.without(part)  # its singular values decay slowly
        range_ = rotated_directions(B, power_iteration(B, range_, sizes.power_iterations), width).vectors.astype(
            B.dtype, copy=False
        )
        values = range_[:, :rank].astype(np.float64) * np.sqrt(len(block.rows) / size)
        determining = determining_rows(values, _CORE_ROWS * values.shape[1], rng)
        at = block.rows[determining]
        scale = np.sqrt(size / len(block.rows))
        interpolation = interpolate(values * scale, determining) * scale
        entries = matrix.block(at, at)
        _, part = fit_core(
            entries, interpolation, determining, values, block.own_entries, part, largest, updates=_DIAGONAL_UPDATES
        )
    B = block.without(part)
    return rotated_directions(B, range_, width), part, B


def _diagonal_matters(block: SampledBlock, B: FloatArray, found: Directions, negligible: float) -> bool:
    """Whether the diagonal has a share of the error that the directions leave, or that is allowed."""
    at = block.coincident
    if not at[0].size:
        return False
    norm = float(block.column_energies.sum())
    rounding = float(np.finfo(B.dtype).eps)  # of the difference
    left = max(norm - float(found.energies.sum()), max(negligible, rounding) * norm)
    held = np.einsum("ij,ij->i", found.vectors[at[0]], found.right[at[1]]) / block.scales[at[1]]
    missing = float(np.mean((block.own_entries[at[0]] - held) ** 2)) * (block.cluster.stop - block.cluster.start)
    nothing = _NEARLY_NOTHING[block.kernel_block.dtype] * float(block.own_entries @ block.own_entries)
    return bool(missing > max(_DIAGONAL_SHARE * left, nothing))


def residual_profile(
    block: SampledBlock, B: FloatArray, vectors: FloatArray, right: FloatArray, *, changed: bool = True
) -> tuple[FloatArray, float]:
    """Squared error of the whole matrix at ranks 0, 1, ..., and the squared norm of B.

    A lost direction counts as a row and as a column, in the cluster's own block only once. ``right`` holds Bᵀ times the
    orthonormal ``vectors``. ``changed`` tells whether a diagonal part was taken out of B.
    """
    own = block.own_columns
    columns = column_energies(B) if changed else block.column_energies
    norm = float(columns.sum())
    missed = columns - np.einsum("ij,ij->i", right, right)
    if float(missed.sum()) < _CANCELLED[B.dtype] * norm:
        rest = B - vectors.astype(B.dtype, copy=False) @ right.T.astype(B.dtype, copy=False)
        missed = column_energies(rest)
    left, own_left = (
        np.maximum(float(missed[mask].sum()), 0.0)
        + np.concatenate((np.cumsum(np.einsum("ij,ij->j", right[mask], right[mask])[::-1])[::-1], [0.0]))
        for mask in (slice(None), own)
    )
    return np.maximum(2 * left - own_left, 0), norm
