"""Leading singular vectors of a sampled block, and the squared error of the bases that they span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import column_energies, leading_eigenpairs

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.construction.sampling import SampledBlock

#: Random directions beyond the rank, and power iterations, of a randomized singular value decomposition.
OVERSAMPLING = 8
_POWER_ITERATIONS = 1
#: A side at most this many times the number of directions is decomposed whole: a random range would save nothing.
_DIRECT = 3
#: Directions of singular values below this many rounding units of the largest one are dropped.
_ROUNDINGS = 10.0
#: Where the relative squared residual is below this, the difference of two norms has too few digits.
_CANCELLED = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 2e-5}


@dataclass(frozen=True)
class Directions:
    """Leading singular triplets of a matrix B.

    Parameters
    ----------
    vectors : ndarray of shape (n_rows, width)
        Left singular vectors V.
    energies : ndarray of shape (width,)
        Squared singular values, descending.
    right : ndarray of shape (n_columns, width)
        Bᵀ V: right singular vectors times their singular values.
    """

    vectors: FloatArray
    energies: FloatArray
    right: FloatArray

    def leading(self, count: int) -> Directions:
        """The first ``count`` triplets."""
        return Directions(self.vectors[:, :count], self.energies[:count], self.right[:, :count])

    def resolved(self, rank: int, dtype: np.dtype[np.floating]) -> Directions:
        """At most ``rank`` triplets, those above the rounding of entries of the given type; at least one."""
        largest = max(float(self.energies[0]), np.finfo(float).tiny)
        floor = (_ROUNDINGS * float(np.finfo(dtype).eps)) ** 2 * largest
        return self.leading(max(1, min(rank, int(np.count_nonzero(self.energies > floor)))))


def leading_directions(B: FloatArray, width: int, rng: np.random.Generator) -> Directions:
    """The ``width`` leading singular triplets of B, by a random range and a power iteration (the paper's Algorithm 4).

    A small matrix is decomposed whole. In float32, singular values are resolved down to about 1e-6 of the largest.
    """
    height, length = B.shape
    width = min(width, height, length)
    if height <= _DIRECT * width and height <= length:
        vectors, energies = _right_rotation(B.T, width)
        return Directions(vectors, energies, (B.T @ vectors.astype(B.dtype)).astype(np.float64, copy=False))
    if length <= _DIRECT * width:
        return rotated_directions(B, np.linalg.qr(B)[0], width)
    # Columns of B span its range nearly as well as random combinations of columns, and cost no product.
    range_ = np.linalg.qr(B[:, rng.choice(length, width, replace=False)])[0]
    return rotated_directions(B, power_iteration(B, range_, _POWER_ITERATIONS), width)


def power_iteration(B: FloatArray, range_: FloatArray, iterations: int = 1) -> FloatArray:
    """Orthonormal basis of (B Bᵀ)^iterations times the given vectors."""
    for _ in range(iterations):
        range_ = np.linalg.qr(B @ (B.T @ range_))[0]
    return range_


def rotated_directions(B: FloatArray, range_: FloatArray, width: int) -> Directions:
    """Singular triplets of the projection of B to the span of orthonormal vectors."""
    projected = B.T @ range_
    rotation, energies = _right_rotation(projected, width)
    vectors, right = range_ @ rotation.astype(range_.dtype), projected @ rotation.astype(projected.dtype)
    return Directions(vectors.astype(np.float64, copy=False), energies, right.astype(np.float64, copy=False))


def _right_rotation(tall: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """The ``width`` leading right singular vectors of a tall matrix, and the squared singular values.

    The Gram matrix of float32 entries is computed in float64: no digit is lost, in a third of the time of QR.
    """
    if tall.dtype == np.float32:
        tall = tall.astype(np.float64)
        values, vectors = leading_eigenpairs(tall.T @ tall, width)
        return vectors, np.maximum(values, 0)
    U, s, _ = np.linalg.svd(np.asarray(np.linalg.qr(tall, mode="r")).T)
    return U[:, :width], s[:width] ** 2


def residual_profile(
    block: SampledBlock, B: FloatArray, vectors: FloatArray, right: FloatArray, *, changed: bool = True
) -> FloatArray:
    """Squared error of the whole matrix at ranks 0, 1, ...

    A direction outside the basis is an error of rows and, by symmetry, of columns; the cluster's diagonal block counts
    once.

    Parameters
    ----------
    block : SampledBlock
    B : ndarray of shape (n_rows, n_columns)
        Scaled entries of the block, without its diagonal part.
    vectors : ndarray of shape (n_rows, r)
        Orthonormal.
    right : ndarray of shape (n_columns, r)
        Bᵀ times the vectors.
    changed : bool, default=True
        Whether a diagonal part was subtracted from B.
    """
    energies = column_energies(B) if changed else block.column_energies
    residual = energies - np.einsum("ij,ij->i", right, right)
    if float(residual.sum()) < _CANCELLED[B.dtype] * float(energies.sum()):
        residual = column_energies(B - vectors.astype(B.dtype, copy=False) @ right.T.astype(B.dtype, copy=False))
    row_error, own_error = (
        np.maximum(float(residual[mask].sum()), 0.0)
        + np.concatenate((np.cumsum(np.einsum("ij,ij->j", right[mask], right[mask])[::-1])[::-1], [0.0]))
        for mask in (slice(None), block.own_columns)
    )
    return np.asarray(np.maximum(2 * row_error - own_error, 0))
