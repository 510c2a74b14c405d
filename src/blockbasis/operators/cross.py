"""Factorization U C Vᵀ of a rectangular kernel matrix as immutable data."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.sparse.linalg import LinearOperator

from blockbasis._utils.typing import FloatArray
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.inner import InnerMatrix
from blockbasis.operators.product import RealOperator


@dataclass(frozen=True, eq=False, repr=False)
class CrossBlockBasis(RealOperator):
    """Block basis factorization K(Y, X) ~ U C Vᵀ of a rectangular kernel matrix.

    `blockbasis.factorize_cross` and `BlockBasis.extend` return it. It is a `scipy.sparse.linalg.LinearOperator`, and
    its arrays are read-only.

    Parameters
    ----------
    row_basis, column_basis : BlockDiagonal
        Bases U of the clusters of Y and V of the clusters of X.
    inner : InnerMatrix
        Inner matrix C with one block row for each cluster of Y and one block column for each cluster of X.
    entries : Entries or None
        Numbers of kernel entries evaluated during the construction; None for an operator from `BlockBasis.extend`.
    error_estimate : ErrorEstimate or None
        Relative Frobenius error of an operator from `BlockBasis.extend`, estimated from a sample of exact entries
        between new points and landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> B = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0).extend(X[:5] + 0.1)
    >>> B
    CrossBlockBasis(5 x 300, U C Vᵀ, 7930 floats, float64)
    """

    row_basis: BlockDiagonal
    inner: InnerMatrix
    column_basis: BlockDiagonal
    entries: Entries | None = None
    error_estimate: ErrorEstimate | None = None

    def __post_init__(self) -> None:
        shape = (self.row_basis.partition.n_points, self.column_basis.partition.n_points)
        self._initialize(self.column_basis.dtype, shape)
        self.row_basis.freeze()
        self.column_basis.freeze()

    @property
    def stored(self) -> int:
        """Number of floats that a product reads."""
        return self.row_basis.size + self.inner.stored + self.column_basis.size

    @property
    def nbytes(self) -> int:
        """Number of bytes of U, C and V."""
        return self.row_basis.nbytes + self.inner.nbytes + self.column_basis.nbytes

    def _apply(self, V: FloatArray) -> FloatArray:
        return self.row_basis.expand(self.inner @ self.column_basis.project(V))

    def _adjoint(self) -> LinearOperator:
        return _TransposedCrossBlockBasis(self)

    def _transpose(self) -> LinearOperator:
        return _TransposedCrossBlockBasis(self)

    def __repr__(self) -> str:
        return f"CrossBlockBasis({self.shape[0]} x {self.shape[1]}, U C Vᵀ, {self.stored} floats, {self.dtype})"


class _TransposedCrossBlockBasis(RealOperator):
    """Transpose V Cᵀ Uᵀ of a `CrossBlockBasis`."""

    def __init__(self, original: CrossBlockBasis) -> None:
        super().__init__(original.dtype, original.shape[::-1])
        self._original = original

    def _apply(self, V: FloatArray) -> FloatArray:
        B = self._original
        return B.column_basis.expand(B.inner.transpose_matmul(B.row_basis.project(V)))

    def _adjoint(self) -> CrossBlockBasis:
        return self._original

    def _transpose(self) -> CrossBlockBasis:
        return self._original
