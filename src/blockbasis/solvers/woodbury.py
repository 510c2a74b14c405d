"""The inverse of U C Uᵀ + D' for a positive diagonal D', through one matrix of the size of C.

With D'^(-1/2) U = Q R, cluster by cluster, and S = R C Rᵀ,

    U C Uᵀ + D' = D'^(1/2) (I + Q S Qᵀ) D'^(1/2),

and Q is orthonormal whatever D' is and however U was rounded. All of it is float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._utils.typing import FloatArray
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix
from blockbasis.solvers.components import ByComponents, factored, rank_slices
from blockbasis.solvers.components import congruent as congruent


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
    small : ByComponents
        I + S.
    """

    basis: BlockDiagonal
    diagonal: FloatArray
    triangles: tuple[FloatArray, ...]
    small: ByComponents

    def solve(self, B: FloatArray) -> FloatArray:
        """The inverse times B, of shape (n, m)."""
        scaled = B / self.diagonal[:, np.newaxis]
        inner = triangular_solve(self.triangles, self.basis.project(scaled), transposed=True)
        inner = triangular_solve(self.triangles, inner - self.small.solve(inner))
        return np.asarray(scaled - self.basis.expand(inner) / self.diagonal[:, np.newaxis])

    def logdet(self) -> float:
        return float(np.log(self.diagonal).sum()) + self.small.logdet()

    def explained(self, inner: InnerMatrix) -> FloatArray:
        """C Uᵀ (U C Uᵀ + D')^-1 U C, where Uᵀ (U C Uᵀ + D')^-1 U = Rᵀ (I + S)^-1 R."""
        values = np.zeros(inner.shape)
        for part, form in zip(self.small.parts, self.small.forms, strict=True):
            C = part.inner.todense().astype(np.float64, copy=False)
            blocks = rank_slices(np.diff(part.inner.row_offsets))
            pairs = zip(part.clusters, blocks, strict=True)
            scaled = np.concatenate([self.triangles[i] @ C[block] for i, block in pairs])
            own = scaled.T @ form.solve(scaled)
            at = part.columns if isinstance(part.columns, slice) else np.ix_(part.columns, part.columns)
            values[(at, at) if isinstance(at, slice) else at] = (own + own.T) / 2
        return values

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
    return Woodbury(basis, diagonal, triangles, factored(inner, triangles))


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
