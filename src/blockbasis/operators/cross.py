"""Factorization U C Vᵀ of a rectangular kernel matrix as immutable data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from blockbasis.operators.product import RealOperator

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.entries import Entries
    from blockbasis.operators.error_estimate import ErrorEstimate
    from blockbasis.operators.inner import InnerMatrix
    from blockbasis.operators.row_blocks import RowBlocks


@dataclass(frozen=True, eq=False, repr=False)
class CrossBlockBasis(RealOperator):
    """Block basis factorization K(Y, X) ~ U C Vᵀ of a rectangular kernel matrix.

    An operator for new points may have corrections: K(X_new, X) ~ (U C + N) Vᵀ + S.
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
    near : RowBlocks or None
        Correction N of an operator from `BlockBasis.extend` at the clusters near each new point, in the coordinates
        of V.
    single : scipy.sparse.csr_array of shape (m, n) or None
        Correction S of single entries of such an operator.

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
    near: RowBlocks | None = None
    single: csr_array | None = None

    def __post_init__(self) -> None:
        shape = (self.row_basis.partition.n_points, self.column_basis.partition.n_points)
        self._initialize(self.column_basis.dtype, shape)
        self.row_basis.freeze()
        self.column_basis.freeze()
        if self.single is not None:
            for array in (self.single.data, self.single.indices, self.single.indptr):
                array.setflags(write=False)

    @property
    def stored(self) -> int:
        """Number of floats that a product reads."""
        near = 0 if self.near is None else self.near.size
        single = 0 if self.single is None else int(self.single.nnz)
        return self.row_basis.size + self.inner.stored + self.column_basis.size + near + single

    @property
    def nbytes(self) -> int:
        """Number of bytes of U, C, V, N and S."""
        near = 0 if self.near is None else self.near.nbytes
        S = self.single
        single = 0 if S is None else S.data.nbytes + S.indices.nbytes + S.indptr.nbytes
        return self.row_basis.nbytes + self.inner.nbytes + self.column_basis.nbytes + near + single

    def _apply(self, V: FloatArray) -> FloatArray:
        W = self.column_basis.project(V)
        result = self.row_basis.expand(self.inner @ W)
        if self.near is not None:
            result += self.near.expand(W)
        if self.single is not None:
            result += self.single @ V
        return result

    def _adjoint(self) -> LinearOperator:
        return _TransposedCrossBlockBasis(self)

    def _transpose(self) -> LinearOperator:
        return _TransposedCrossBlockBasis(self)

    def __repr__(self) -> str:
        form = "U C Vᵀ" if self.near is None else "(U C + N) Vᵀ"
        form += "" if self.single is None else " + S"
        return f"CrossBlockBasis({self.shape[0]} x {self.shape[1]}, {form}, {self.stored} floats, {self.dtype})"


class _TransposedCrossBlockBasis(RealOperator):
    """Transpose V (Cᵀ Uᵀ + Nᵀ) + Sᵀ of a `CrossBlockBasis`."""

    def __init__(self, original: CrossBlockBasis) -> None:
        super().__init__(original.dtype, original.shape[::-1])
        self._original = original

    def _apply(self, V: FloatArray) -> FloatArray:
        B = self._original
        W = B.inner.transpose_matmul(B.row_basis.project(V))
        if B.near is not None:
            W += B.near.project(V)
        result = B.column_basis.expand(W)
        if B.single is not None:
            result += B.single.T @ V
        return result

    def _adjoint(self) -> CrossBlockBasis:
        return self._original

    def _transpose(self) -> CrossBlockBasis:
        return self._original
