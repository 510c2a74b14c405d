"""The factorization as immutable data, with its products, in the order of the caller's points."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from blockbasis._typing import FloatArray, IntArray
from blockbasis._validation import check_points
from blockbasis.accuracy import ErrorEstimate
from blockbasis.basis import BlockDiagonal
from blockbasis.extension import Extension
from blockbasis.inner import Cutoff, InnerMatrix
from blockbasis.kernels import Kernel
from blockbasis.partition import Partition
from blockbasis.settling import diagonal_of


@dataclass(frozen=True)
class Entries:
    """Kernel entries that a factorization evaluated.

    Parameters
    ----------
    bases : int
        For the bases, the diagonal blocks of the inner matrix with them.
    inner : int
        For the other blocks of the inner matrix.
    planning : int
        For the choice of clusters and ranks, and for the check against exact rows.
    """

    bases: int
    inner: int
    planning: int = 0

    @property
    def total(self) -> int:
        return self.bases + self.inner + self.planning


class Product(LinearOperator):
    """SciPy's contract over one method: ``_apply(V)`` for real V of shape (columns, m) and of the operator's dtype."""

    @abstractmethod
    def _apply(self, V: FloatArray) -> FloatArray:
        """The product."""

    def _matmat(self, V: Any) -> FloatArray:
        V = np.asarray(V)
        if np.iscomplexobj(V):
            return self._matmat(V.real) + 1j * self._matmat(V.imag)
        return self._apply(np.asarray(V, dtype=self.dtype))

    def _matvec(self, v: Any) -> FloatArray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def todense(self) -> FloatArray:
        """The approximation as an array: for small matrices and for tests."""
        return self._apply(np.eye(self.shape[1], dtype=self.dtype))


@dataclass(frozen=True, eq=False, repr=False)
class BlockBasis(Product):
    """K ~ U C Uᵀ + D: a kernel matrix in block basis form, as `blockbasis.factorize` returns it.

    A `scipy.sparse.linalg.LinearOperator`; every array in it is read-only.

    Parameters
    ----------
    kernel : Kernel or None
        What `extend` evaluates; None after loading a factorization of a user's own function.
    basis : BlockDiagonal
        U, one orthonormal block for each cluster.
    inner : InnerMatrix
        C, symmetric.
    diagonal_part : ndarray of shape (n,) or None
        D, in the order of the caller's points.
    extensions : tuple of Extension
        How each cluster's basis continues to new points.
    entries : Entries
        Kernel entries evaluated to build it.
    cutoff : Cutoff or None
        What was cut off from C, when that was asked for.
    error_estimate : ErrorEstimate or None
        Relative Frobenius error, when a tolerance or a budget was asked for: from exact rows not used before.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0)
    >>> A
    BlockBasis(300 x 300, U C Uᵀ + D, 3 clusters, ranks 20 to 20, 27.1 floats per point, float64)
    >>> bool(np.allclose(A @ X, A.todense() @ X))
    True
    """

    kernel: Kernel | None
    basis: BlockDiagonal
    inner: InnerMatrix
    diagonal_part: FloatArray | None
    extensions: tuple[Extension, ...]
    entries: Entries
    cutoff: Cutoff | None = None
    error_estimate: ErrorEstimate | None = None

    def __post_init__(self) -> None:
        n = self.partition.n_points
        object.__setattr__(self, "shape", (n, n))
        object.__setattr__(self, "dtype", self.basis.blocks[0].dtype)
        for array in (*self.basis.blocks, *self._optional_arrays()):
            array.setflags(write=False)

    def _optional_arrays(self) -> list[FloatArray]:
        arrays = [array for ext in self.extensions for array in (ext.points, ext.coefficients)]
        return arrays if self.diagonal_part is None else [*arrays, self.diagonal_part]

    @property
    def partition(self) -> Partition:
        return self.basis.partition

    @property
    def bases(self) -> tuple[FloatArray, ...]:
        """U_i of each cluster, of shape (n_i, r_i), rows in cluster order."""
        return self.basis.blocks

    @property
    def ranks(self) -> IntArray:
        return self.basis.ranks

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters

    @property
    def stored(self) -> int:
        """Floats that a product reads: U, each kept entry of C once per symmetric pair, D. The paper's memory."""
        return self.basis.size + self.inner.stored + (0 if self.diagonal_part is None else self.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept: the extension and the partition too."""
        partition = self.partition
        arrays = [partition.order, partition.starts, partition.centers, partition.radii, *self.basis.blocks]
        return self.inner.nbytes + sum(array.nbytes for array in [*arrays, *self._optional_arrays()])

    def _apply(self, V: FloatArray) -> FloatArray:
        result = self.basis.expand(self.inner @ self.basis.project(V))
        if self.diagonal_part is not None:
            result += self.diagonal_part[:, np.newaxis] * V
        return result

    def _adjoint(self) -> BlockBasis:
        return self

    def _transpose(self) -> BlockBasis:
        return self

    def diagonal(self) -> FloatArray:
        """Diagonal of the approximation."""
        values = np.empty(self.shape[0], dtype=self.dtype)
        values[self.partition.order] = held_diagonal(self.basis, self.inner)
        return values if self.diagonal_part is None else values + self.diagonal_part

    def frobenius_norm(self) -> float:
        """Root of the sum of all squared entries, from the factors: U is orthonormal."""
        energy = self.inner.energy
        if self.diagonal_part is not None:
            D = self.diagonal_part.astype(np.float64)
            # |U C Uᵀ + D|² = |C|² + 2 <diag(U C Uᵀ), D> + |D|²
            energy += float(D @ (2 * self.diagonal() - D))
        return math.sqrt(max(energy, 0.0))

    def extend(self, X_new: Any) -> CrossBlockBasis:
        """Operator for K(X_new, X), without touching the points factored.

        Each new point takes the basis of the cluster with the nearest centre: K(x, X) ~ u(x) C_i Uᵀ.

        Parameters
        ----------
        X_new : array-like of shape (m, d)

        Returns
        -------
        CrossBlockBasis
            Of shape (m, n).

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> A = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0)
        >>> X_new = np.array([[0.1, 0.2], [-0.5, 1.0]])
        >>> exact = bb.Gaussian(3.0)(X_new, X)
        >>> bool(np.abs(A.extend(X_new).todense() - exact).max() < 1e-4)
        True
        """
        if self.kernel is None:
            raise ValueError(
                "This factorization was made with a kernel callable, which a file cannot hold. Give it again: "
                "blockbasis.load(path, kernel=function)."
            )
        n_features = self.partition.centers.shape[1]
        X = check_points(X_new, name="X_new", caller="extend", n_features=n_features, dtype=self.dtype)
        rows = self.partition.regroup(X)
        ordered = X[rows.order]
        blocks = tuple(
            self.kernel.block(ordered[rows.cluster(i)], extension.points) @ extension.coefficients
            if rows.sizes[i]
            else np.empty((0, extension.coefficients.shape[1]), dtype=self.dtype)
            for i, extension in enumerate(self.extensions)
        )
        return CrossBlockBasis(BlockDiagonal(rows, blocks), self.inner, self.basis)

    def __repr__(self) -> str:
        n = self.shape[0]
        form = "U C Uᵀ" if self.diagonal_part is None else "U C Uᵀ + D"
        return (
            f"BlockBasis({n} x {n}, {form}, {self.n_clusters} clusters, "
            f"ranks {self.ranks.min()} to {self.ranks.max()}, {self.stored / n:.1f} floats per point, {self.dtype})"
        )


def held_diagonal(basis: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """Diagonal of U C Uᵀ, in cluster order."""
    pieces = [diagonal_of(U, inner.block(i, i)) for i, U in enumerate(basis.blocks)]
    return np.concatenate(pieces)


@dataclass(frozen=True, eq=False, repr=False)
class CrossBlockBasis(Product):
    """K(Y, X) ~ U C Vᵀ, as `blockbasis.factorize_cross` and `BlockBasis.extend` return it.

    Parameters
    ----------
    row_basis, column_basis : BlockDiagonal
        U over the clusters of Y, V over those of X.
    inner : InnerMatrix
        C; its block rows follow U's clusters, its block columns V's.
    entries : Entries or None
        Kernel entries evaluated to build it; None when it extends a factorization.

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

    def __post_init__(self) -> None:
        shape = (self.row_basis.partition.n_points, self.column_basis.partition.n_points)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", self.column_basis.blocks[0].dtype)
        for array in (*self.row_basis.blocks, *self.column_basis.blocks):
            array.setflags(write=False)

    @property
    def stored(self) -> int:
        """Floats that a product reads."""
        return self.row_basis.size + self.inner.stored + self.column_basis.size

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        blocks = (*self.row_basis.blocks, *self.column_basis.blocks)
        return self.inner.nbytes + sum(block.nbytes for block in blocks)

    def _apply(self, V: FloatArray) -> FloatArray:
        return self.row_basis.expand(self.inner @ self.column_basis.project(V))

    def _adjoint(self) -> LinearOperator:
        return _Transposed(self)

    def _transpose(self) -> LinearOperator:
        return _Transposed(self)

    def __repr__(self) -> str:
        return f"CrossBlockBasis({self.shape[0]} x {self.shape[1]}, U C Vᵀ, {self.stored} floats, {self.dtype})"


class _Transposed(Product):
    """(U C Vᵀ)ᵀ = V Cᵀ Uᵀ."""

    def __init__(self, original: CrossBlockBasis) -> None:
        super().__init__(original.dtype, original.shape[::-1])
        self._original = original

    def _apply(self, V: FloatArray) -> FloatArray:
        of = self._original
        return of.column_basis.expand(of.inner.transpose_matmul(of.row_basis.project(V)))

    def _adjoint(self) -> CrossBlockBasis:
        return self._original

    def _transpose(self) -> CrossBlockBasis:
        return self._original
