"""The inverse of U C Uᵀ + D' for a positive diagonal D', through one matrix of the size of C.

With D'^(-1/2) U = Q R, cluster by cluster, and S = R C Rᵀ,

    U C Uᵀ + D' = D'^(1/2) (I + Q S Qᵀ) D'^(1/2),

and Q is orthonormal whatever D' is and however U was rounded. All of it is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from blockbasis._linalg import DEFINITE, eigenpairs
from blockbasis._typing import FloatArray, IntArray
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix

#: Negative eigenvalues of so many roundings of the largest come from the precision in which C is stored.
_ROUNDINGS = 10
_EPS = float(np.finfo(np.float64).eps)


class Shifted(Protocol):
    """I + S for a small symmetric S, positive definite, factored."""

    def solve(self, W: FloatArray) -> FloatArray:
        """(I + S)^-1 W."""

    def logdet(self) -> float:
        """Logarithm of the determinant of I + S."""

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Diagonal blocks of (I + S)^-1."""


@dataclass(frozen=True, eq=False)
class CholeskyShifted:
    """I + S = L Lᵀ: the cheapest for one system."""

    factor: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        return np.asarray(linalg.cho_solve((self.factor, True), W, check_finite=False))

    def logdet(self) -> float:
        return 2 * float(np.log(np.diagonal(self.factor)).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        inverse, _ = linalg.lapack.dtrtri(self.factor, lower=1)
        for block in blocks:
            columns = inverse[block.start :, block]  # zero above the diagonal
            yield columns.T @ columns


@dataclass(frozen=True, eq=False)
class SpectralShifted:
    """S = V diag(values) Vᵀ, every value above -1: S may be scaled at no cost."""

    values: FloatArray
    vectors: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        return np.asarray(self.vectors @ ((self.vectors.T @ W) / (1 + self.values)[:, np.newaxis]))

    def logdet(self) -> float:
        return float(np.log1p(self.values).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        for block in blocks:
            rows = self.vectors[block]
            yield (rows / (1 + self.values)) @ rows.T


def cholesky(S: FloatArray) -> CholeskyShifted | None:
    """I + S factored, None when it is not positive definite; only the upper triangle of S is read, and overwritten."""
    check_conditioning(float(np.diagonal(S).max(initial=0.0)))
    S[np.diag_indices_from(S)] += 1
    try:
        # Transposed the array is in LAPACK's order, and factored in place.
        return CholeskyShifted(linalg.cholesky(S.T, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None


def spectral(values: FloatArray, vectors: FloatArray, precision: float) -> SpectralShifted:
    """I + S from the eigenpairs of S; a LinAlgError when it is not positive definite beyond rounding."""
    largest = float(values.max(initial=0.0))
    check_conditioning(largest)
    if values.min(initial=0.0) <= -0.5:
        # Rounding competes with the ridge: S is known to ``noise`` only, and so are its eigenvalues below.
        noise = max(DEFINITE, _ROUNDINGS * precision) * largest
        values = np.where((values < 0) & (values >= -noise), 0.0, values)
    if values.min(initial=0.0) <= -1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is not positive definite: A has eigenvalues down to about {values.min():.3g} times the ridge "
            "(and its diagonal part). Give a larger ridge, or factorize without cutoff= and with algorithm='default', "
            "which keeps A positive semi-definite."
        )
    return SpectralShifted(values, vectors)


def check_conditioning(largest: float) -> None:
    """Refuse what float64 cannot solve at all."""
    if not largest * _EPS < 1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is singular to working precision: A is about {largest:.1g} times what the ridge (and the "
            "diagonal part of A) adds. Give a larger ridge."
        )


@dataclass(frozen=True, eq=False)
class Woodbury:
    """(U C Uᵀ + D')^-1 in factored form.

    Parameters
    ----------
    basis : BlockDiagonal
        U.
    diagonal : ndarray of shape (n,)
        D', in the order of the caller's points.
    triangles : tuple of arrays
        R of each cluster, upper triangular.
    small : Shifted
        I + S.
    """

    basis: BlockDiagonal
    diagonal: FloatArray
    triangles: tuple[FloatArray, ...]
    small: Shifted

    def solve(self, B: FloatArray) -> FloatArray:
        """The inverse times B, of shape (n, m)."""
        scaled = B / self.diagonal[:, np.newaxis]
        inner = triangular_solve(self.triangles, self.basis.project(scaled), transposed=True)
        inner = triangular_solve(self.triangles, inner - self.small.solve(inner))
        return np.asarray(scaled - self.basis.expand(inner) / self.diagonal[:, np.newaxis])

    def logdet(self) -> float:
        return float(np.log(self.diagonal).sum()) + self.small.logdet()

    def between(self, W: FloatArray) -> FloatArray:
        """Wᵀ Uᵀ (U C Uᵀ + D')^-1 U W for W of shape (R, m), with Uᵀ (U C Uᵀ + D')^-1 U = Rᵀ (I + S)^-1 R."""
        blocks = rank_slices(self.basis.ranks)
        scaled = np.concatenate([R @ W[block] for R, block in zip(self.triangles, blocks, strict=True)])
        values = scaled.T @ self.small.solve(scaled)
        return np.asarray((values + values.T) / 2)

    def inverse_diagonal(self) -> FloatArray:
        """Diagonal of the inverse: of each cluster only its own block of (I + S)^-1 counts."""
        values = np.empty(self.diagonal.shape[0])
        order, clusters = self.basis.partition.order, self.basis.partition.clusters
        inverses = self.small.inverse_blocks(rank_slices(self.basis.ranks))
        for cluster, U, R, inverse in zip(clusters, self.basis.blocks, self.triangles, inverses, strict=True):
            own = order[cluster]
            scaled = U / np.sqrt(self.diagonal[own])[:, np.newaxis]
            Q = linalg.solve_triangular(R, scaled.T, trans=1, check_finite=False).T
            held = np.einsum("ij,ij->i", Q @ inverse, Q)
            left_out = np.maximum(1 - np.einsum("ij,ij->i", Q, Q), 0)
            values[own] = (left_out + held) / self.diagonal[own]
        return values


def woodbury(basis: BlockDiagonal, inner: InnerMatrix, diagonal: FloatArray) -> Woodbury:
    """Factor U C Uᵀ + D'; a LinAlgError when it is not positive definite."""
    triangles = orthonormalizing(basis, diagonal)
    small: Shifted | None = cholesky(upper_congruent(inner, triangles))
    if small is None:
        small = spectral(*eigenpairs(congruent(inner, triangles)), precision_of(inner))
    return Woodbury(basis, diagonal, triangles, small)


def precision_of(inner: InnerMatrix) -> float:
    """Rounding unit in which C is stored."""
    return float(np.finfo(inner.panels[0].dtype).eps)


def orthonormalizing(basis: BlockDiagonal, diagonal: FloatArray) -> tuple[FloatArray, ...]:
    """R of each cluster, so that D'^(-1/2) U R^-1 is orthonormal."""
    scale = np.sqrt(diagonal)[basis.partition.order][:, np.newaxis]
    clusters = zip(basis.blocks, basis.partition.clusters, strict=True)
    return tuple(np.asarray(np.linalg.qr(U / scale[cluster], mode="r")) for U, cluster in clusters)


def triangular_solve(triangles: tuple[FloatArray, ...], W: FloatArray, *, transposed: bool = False) -> FloatArray:
    """R^-1 W, or R^-T W."""
    blocks = rank_slices(np.array([len(R) for R in triangles]))
    pieces = [
        linalg.solve_triangular(R, W[block], trans=int(transposed), check_finite=False)
        for R, block in zip(triangles, blocks, strict=True)
    ]
    return np.concatenate(pieces)


def congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """R C Rᵀ as a new dense array."""
    S = upper_congruent(inner, triangles)
    for block in rank_slices(np.diff(inner.row_offsets)):
        S[block.stop :, block] = S[block, block.stop :].T
    return S


def upper_congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """The same, zero in the blocks below the diagonal: all that a Cholesky factorization reads, at half the cost."""
    S = np.zeros(inner.shape)
    blocks = rank_slices(np.diff(inner.row_offsets))
    for i, (R, block) in enumerate(zip(triangles, blocks, strict=True)):
        S[block, inner.columns_of(i)] = R @ inner.panels[i]
    for R, block in zip(triangles, blocks, strict=True):
        S[: block.stop, block] = S[: block.stop, block] @ R.T
    return S


def rank_slices(ranks: IntArray) -> list[slice]:
    """The range of each cluster among the R columns of U."""
    ends = np.cumsum(ranks).tolist()
    return [slice(end - int(rank), end) for end, rank in zip(ends, ranks, strict=True)]
