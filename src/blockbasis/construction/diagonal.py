"""The diagonal part D, and the core C_ii of a cluster.

Blocks of low rank cannot represent the diagonal of a kernel of small bandwidth. The best D depends on the core, and the
best core on D, so that both are fitted in turn: the core to the block minus D, and D to the diagonal minus that of the
core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis.construction.coordinates import determining_rows, row_pseudo_inverse
from blockbasis.construction.directions import (
    OVERSAMPLING,
    Directions,
    leading_directions,
    power_iteration,
    rotated_directions,
)

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.construction.method import SampleSizes
    from blockbasis.construction.sampling import SampledBlock
    from blockbasis.kernels.evaluator import KernelMatrix

#: Over-relaxation of the updates of D. One update removes at most half of the difference: a factor below 2 is stable.
_OVER_RELAXATION = 1.6
#: The updates end when D changes by less than this share of the largest diagonal entry.
_CONVERGED = 1e-6
#: Rows of a basis are scaled down where their diagonal entry of U C Uᵀ exceeds that of K by this factor.
_EXCESS = 1.5
#: A diagonal part is fitted where the diagonal has more than this share of the squared error of a basis, in this many
#: updates.
_DIAGONAL_SHARE = 0.1
_DIAGONAL_UPDATES = 6
#: Rows for each unit of rank that determine the core while the diagonal part is fitted.
_CORE_ROWS = 4
#: No diagonal part is fitted where the squared error is at most this share of the diagonal's energy.
_NEGLIGIBLE_ERROR = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


def directions_and_diagonal(
    matrix: KernelMatrix, block: SampledBlock, rank: int, sizes: SampleSizes, rng: np.random.Generator
) -> tuple[Directions, FloatArray, FloatArray]:
    """Leading directions of a sampled block, its diagonal part, and the block B without the diagonal part.

    The entry of a sampled point with itself must not determine the basis. Where the diagonal has a share of the error,
    directions and diagonal part are computed in turn, in ``sizes.diagonal_rounds`` rounds.
    """
    diagonal = np.zeros(len(block.rows))
    width = rank + OVERSAMPLING
    B = block.minus_diagonal(diagonal)
    directions = leading_directions(B, width, rng)
    if not sizes.diagonal_rounds or not _diagonal_matters(block, B, directions.leading(rank), sizes.negligible):
        return directions, diagonal, B
    diagonal = upper_bound = unshared_diagonal(block.kernel_diagonal, block.kernel_block, block.coincident)
    range_ = directions.vectors.astype(B.dtype, copy=False)
    for _ in range(sizes.diagonal_rounds):
        B = block.minus_diagonal(diagonal)  # its singular values decay slowly
        range_ = rotated_directions(B, power_iteration(B, range_, sizes.power_iterations), width).vectors.astype(
            B.dtype, copy=False
        )
        values = range_[:, :rank].astype(np.float64) * np.sqrt(len(block.rows) / block.size)
        determining = determining_rows(values, _CORE_ROWS * values.shape[1], rng)
        rows = block.rows[determining]
        scale = np.sqrt(block.size / len(block.rows))
        pseudo_inverse = row_pseudo_inverse(values * scale, determining) * scale
        _, diagonal = fit_core(
            matrix.block(rows, rows),
            pseudo_inverse,
            determining,
            values,
            block.kernel_diagonal,
            diagonal,
            upper_bound,
            updates=_DIAGONAL_UPDATES,
        )
    B = block.minus_diagonal(diagonal)
    return rotated_directions(B, range_, width), diagonal, B


def _diagonal_matters(block: SampledBlock, B: FloatArray, directions: Directions, negligible: float) -> bool:
    """Whether the diagonal has a share of the squared error of the directions, or of the error that is negligible."""
    row, column = block.coincident
    if not row.size:
        return False
    energy = float(block.column_energies.sum())
    rounding = float(np.finfo(B.dtype).eps)  # of the difference
    error = max(energy - float(directions.energies.sum()), max(negligible, rounding) * energy)
    approximated = np.einsum("ij,ij->i", directions.vectors[row], directions.right[column]) / block.scales[column]
    diagonal_error = float(np.mean((block.kernel_diagonal[row] - approximated) ** 2)) * block.size
    floor = _NEGLIGIBLE_ERROR[block.kernel_block.dtype] * float(block.kernel_diagonal @ block.kernel_diagonal)
    return bool(diagonal_error > max(_DIAGONAL_SHARE * error, floor))


def fit_core(
    block: FloatArray,
    pseudo_inverse: FloatArray,
    determining: IntArray,
    values: FloatArray,
    kernel_diagonal: FloatArray,
    diagonal: FloatArray,
    upper_bound: FloatArray,
    updates: int,
) -> tuple[FloatArray, FloatArray]:
    """Core C_ii and diagonal part of a cluster, fitted to each other on sampled rows.

    Parameters
    ----------
    block : ndarray of shape (m, m)
        Kernel entries between the determining rows.
    pseudo_inverse : ndarray of shape (r, m)
        Pseudo-inverse of ``values[determining]``.
    determining : ndarray of shape (m,)
        Positions of the determining rows among the sampled ones.
    values : ndarray of shape (n_rows, r)
        The basis on the sampled rows.
    kernel_diagonal : ndarray of shape (n_rows,)
        k(x, x) of the sampled rows.
    diagonal : ndarray of shape (n_rows,)
        Initial diagonal part.
    upper_bound : ndarray of shape (n_rows,)
        Upper bound of the diagonal part.
    updates : int
        Largest number of updates.

    Returns
    -------
    core : ndarray of shape (r, r)
        Positive semi-definite.
    diagonal : ndarray of shape (n_rows,)
        k(x, x) minus the diagonal of the approximation by the core, clipped to between 0 and ``upper_bound``.
    """
    full_core = pseudo_inverse @ symmetric(block) @ pseudo_inverse.T
    for _ in range(updates):
        core = semidefinite_part(symmetric(full_core - (pseudo_inverse * diagonal[determining]) @ pseudo_inverse.T))
        residual = np.clip(kernel_diagonal - diagonal_of(values, core), 0, upper_bound)
        if np.abs(residual - diagonal).max(initial=0.0) <= _CONVERGED * np.abs(kernel_diagonal).max(initial=0.0):
            break
        diagonal = np.clip(diagonal + _OVER_RELAXATION * (residual - diagonal), 0, upper_bound)
    return core, residual


def unshared_diagonal(
    kernel_diagonal: FloatArray, block: FloatArray, coincident: tuple[IntArray, IntArray]
) -> FloatArray:
    """k(x, x) minus the largest entry of x with another sampled point, at least zero.

    The 2 by 2 block of two near points is the sum of this diagonal and a matrix of rank one. A larger diagonal part
    would make the rest of the block indefinite, whether the two points are in one cluster or in two.
    """
    off_diagonal = np.abs(block)
    off_diagonal[coincident] = 0
    return np.asarray(np.clip(kernel_diagonal - off_diagonal.max(axis=1, initial=0.0), 0, kernel_diagonal))


def limit_rows(values: FloatArray, core: FloatArray, kernel_diagonal: FloatArray) -> FloatArray:
    """Scale down, in place, basis rows whose diagonal entry of U C Uᵀ is too large; return the diagonal entries.

    The rows of points that are unlike the sampled rows can be too large by orders of magnitude.
    """
    diagonal = diagonal_of(values, core)
    limit = _EXCESS * kernel_diagonal
    excessive = diagonal > limit
    if excessive.any():
        values[excessive] *= np.sqrt(limit[excessive] / diagonal[excessive])[:, np.newaxis]
        diagonal[excessive] = limit[excessive]
    return diagonal
