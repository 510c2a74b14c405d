"""The inverse of U C Uᵀ + D' for a positive diagonal D', by a factorization of the size of C.

With D'^(-1/2) U = Q R, cluster by cluster, and S = R C Rᵀ,

    U C Uᵀ + D' = D'^(1/2) (I + Q S Qᵀ) D'^(1/2),

The columns of Q are orthonormal for every D', also if those of U are so up to rounding only. All arrays are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis._utils.tiling import ranges
from blockbasis.solvers.components import ComponentFactorization, factorize_shifted, rank_slices
from blockbasis.solvers.components import congruent as congruent

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.inner import InnerMatrix

#: Points of a cluster whose part of an inverse is computed at once: a cluster may have most of the points.
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Woodbury:
    """The inverse (U C Uᵀ + D')^-1 as a factorization.

    Parameters
    ----------
    basis : BlockDiagonal
        Block-diagonal matrix U.
    diagonal : ndarray of shape (n,)
        Diagonal of D', in the order of the caller's points.
    triangles : tuple of arrays
        Upper triangular factor R_i of each cluster.
    inner_factorization : ComponentFactorization
        Factorization of I + S.
    """

    basis: BlockDiagonal
    diagonal: FloatArray
    triangles: tuple[FloatArray, ...]
    inner_factorization: ComponentFactorization

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the inverse times B, for B of shape (n, m)."""
        scaled = B / self.diagonal[:, np.newaxis]
        inner = triangular_solve(self.triangles, self.basis.project(scaled), transposed=True)
        inner = triangular_solve(self.triangles, inner - self.inner_factorization.solve(inner))
        return np.asarray(scaled - self.basis.expand(inner) / self.diagonal[:, np.newaxis])

    def logdet(self) -> float:
        """Return the logarithm of the determinant of U C Uᵀ + D'."""
        return float(np.log(self.diagonal).sum()) + self.inner_factorization.logdet()

    def explained(self, inner: InnerMatrix) -> FloatArray:
        """Return C Uᵀ (U C Uᵀ + D')^-1 U C = C Rᵀ (I + S)^-1 R C."""
        values = np.zeros(inner.shape)
        small = self.inner_factorization
        for part, factorization in zip(small.components, small.factorizations, strict=True):
            C = part.inner.todense().astype(np.float64, copy=False)
            blocks = rank_slices(np.diff(part.inner.row_offsets))
            pairs = zip(part.clusters, blocks, strict=True)
            scaled = np.concatenate([self.triangles[i] @ C[block] for i, block in pairs])
            own = scaled.T @ factorization.solve(scaled)
            at = part.columns if isinstance(part.columns, slice) else np.ix_(part.columns, part.columns)
            values[(at, at) if isinstance(at, slice) else at] = (own + own.T) / 2
        return values

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of the inverse, from the diagonal block of (I + S)^-1 of each cluster."""
        values = np.empty(self.diagonal.shape[0])
        order, clusters = self.basis.partition.order, self.basis.partition.clusters
        inverses = self.inner_factorization.inverse_blocks(rank_slices(self.basis.ranks))
        for cluster, U, R, inverse in zip(clusters, self.basis.blocks, self.triangles, inverses, strict=True):
            for tile in ranges(0, len(U), _ROWS):
                own = order[cluster][tile]
                scaled = U[tile] / np.sqrt(self.diagonal[own])[:, np.newaxis]
                Q = linalg.solve_triangular(R, scaled.T, trans=1, check_finite=False).T
                inside = np.einsum("ij,ij->i", Q @ inverse, Q)
                outside = np.maximum(1 - np.einsum("ij,ij->i", Q, Q), 0)  # of the orthogonal complement of Q
                values[own] = (outside + inside) / self.diagonal[own]
        return values


def woodbury(basis: BlockDiagonal, inner: InnerMatrix, diagonal: FloatArray) -> Woodbury:
    """Factorize U C Uᵀ + D'; raise a LinAlgError if it is not positive definite."""
    triangles = orthonormalizing(basis, diagonal)
    return Woodbury(basis, diagonal, triangles, factorize_shifted(inner, triangles))


def orthonormalizing(basis: BlockDiagonal, diagonal: FloatArray) -> tuple[FloatArray, ...]:
    """Return the triangular factor R_i of each cluster for which D'^(-1/2) U_i R_i^-1 has orthonormal columns."""
    scale = np.sqrt(diagonal)[basis.partition.order][:, np.newaxis]
    clusters = zip(basis.blocks, basis.partition.clusters, strict=True)
    return tuple(np.asarray(np.linalg.qr(U / scale[cluster], mode="r")) for U, cluster in clusters)


def triangular_solve(triangles: tuple[FloatArray, ...], W: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Return R^-1 W, or R^-T W if ``transposed``."""
    blocks = rank_slices(np.array([len(R) for R in triangles]))
    pieces = [
        linalg.solve_triangular(R, W[block], trans=int(transposed), check_finite=False)
        for R, block in zip(triangles, blocks, strict=True)
    ]
    return np.concatenate(pieces)
