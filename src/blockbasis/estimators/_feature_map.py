"""Explicit feature maps of compressed kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from blockbasis._utils.linalg import eigenpairs, energy_of, leading_eigenpairs, nystrom_factor, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis.estimators._blending import by_cluster
from blockbasis.estimators._expansion import kernel_rows
from blockbasis.operators.shortening import held_variance, shortened
from blockbasis.solvers.components import rank_slices

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.operators.inner import InnerMatrix

#: Inner matrices with more columns than _DECOMPOSED are replaced by subspace iterations, with _PRODUCTS products and
#: _MORE_VECTORS vectors beyond the number of components.
_DECOMPOSED = 1500
_PRODUCTS = 3
_MORE_VECTORS = 20
#: Eigenvalues below this share of the largest are dropped.
_NEGLIGIBLE = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-7}


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Features phi(x) = K(x, S_i) T_i L_i, where i is the cluster with the nearest centre.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (n_clusters, d)
        Centres of the clusters, in the coordinates of the kernel, like the points.
    points : tuple of ndarray of shape (m_i, d)
        S_i of each cluster.
    coefficients : tuple of ndarray of shape (m_i, r_i)
        T_i of each cluster.
    roots : tuple of ndarray of shape (r_i, n_shared + p_i)
        L_i of each cluster: first the columns that all clusters share, then the columns of the cluster.
    n_shared : int
        Number of shared columns.
    sparse : bool
        Whether the features are a sparse matrix. A dense array contains the shared columns only.

    Notes
    -----
    phi(x) is scaled down if its squared norm exceeds k(x, x). Far from the points to which T_i was fitted, the norm of
    K(x, S_i) T_i can be much too large.
    """

    kernel: Kernel
    centers: FloatArray
    points: tuple[FloatArray, ...]
    coefficients: tuple[FloatArray, ...]
    roots: tuple[FloatArray, ...]
    n_shared: int
    sparse: bool

    @classmethod
    def of(cls, A: BlockBasis, shared: FloatArray, own: Sequence[FloatArray] | None) -> FeatureMap:
        """Feature map of a factorization, from the ``shared`` and ``own`` columns of a root of its inner matrix."""
        assert A.kernel is not None
        roots = [shared[block] for block in rank_slices(A.ranks)]
        if own is not None:
            roots = [np.hstack(both) for both in zip(roots, own, strict=True)]
        return cls(
            A.kernel,
            A.partition.centers,
            tuple(extension.points for extension in A.extensions),
            # Contiguous, as after loading, so that products are bitwise equal.
            tuple(np.ascontiguousarray(extension.coefficients) for extension in A.extensions),
            tuple(np.ascontiguousarray(root, dtype=A.dtype) for root in roots),
            shared.shape[1],
            own is not None,
        )

    @property
    def _ends(self) -> IntArray:
        """Index of the column after the last one of each cluster."""
        return np.cumsum([self.n_shared, *(root.shape[1] - self.n_shared for root in self.roots)])

    @property
    def n_columns(self) -> int:
        return int(self._ends[-1])

    def __call__(self, X: FloatArray, n_jobs: int) -> FloatArray | csr_array:
        """Features of new points, as a dense array or a sparse matrix."""
        core, places = self.kernel.core, self.kernel.coordinates(X)
        clusters = by_cluster(places, self.centers)
        widths = np.empty(len(X), dtype=np.intp)
        for i, rows in clusters:
            widths[rows] = self.roots[i].shape[1]
        starts = np.concatenate(([0], np.cumsum(widths)))
        values = np.empty(starts[-1], dtype=X.dtype)

        def fill(i: int, rows: IntArray) -> None:
            found = self._features(core, places[rows], i)
            values[starts[rows][:, np.newaxis] + np.arange(found.shape[1])] = found

        pieces = [(i, rows[tile]) for i, rows in clusters for tile in tiles(len(rows), len(self.points[i]))]
        with single_threaded():
            map_threads(fill, pieces, n_jobs, "features")
        if not self.sparse:
            return values.reshape(len(X), self.n_shared)
        columns = np.empty(len(values), dtype=np.int32 if len(values) <= np.iinfo(np.int32).max else np.int64)
        for i, rows in clusters:
            columns[starts[rows][:, np.newaxis] + np.arange(self.roots[i].shape[1])] = self._columns(i)
        return csr_array((values, columns, starts.astype(columns.dtype)), shape=(len(X), self.n_columns))

    def _columns(self, i: int) -> IntArray:
        return np.concatenate((np.arange(self.n_shared), np.arange(self._ends[i], self._ends[i + 1])))

    def _features(self, core: Kernel, X: FloatArray, i: int) -> FloatArray:
        """Features of mapped points in cluster ``i``."""
        found = kernel_rows(core, X, self.points[i]) @ self.coefficients[i] @ self.roots[i]
        return shortened(found, held_variance(found), core.diagonal(X))


def leading_root(
    inner: InnerMatrix, count: int, rng: np.random.Generator, *, decomposed: int = _DECOMPOSED
) -> FloatArray:
    """Matrix W of at most ``count`` columns, where W Wᵀ approximates C and C - W Wᵀ is positive semi-definite.

    W has the leading eigenvectors of C. If C has more than ``decomposed`` columns, they are approximate, and W is
    computed by the Nystroem formula on the space that they span, so that C - W Wᵀ is positive semi-definite as well.
    """
    height = inner.shape[0]
    if height <= max(decomposed, 2 * count):
        values, vectors = leading_eigenpairs(symmetric(inner.todense()), min(count, height))
        kept = values > _NEGLIGIBLE[inner.dtype] * values[0]
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
    space = rng.standard_normal((height, count + _MORE_VECTORS))
    for _ in range(_PRODUCTS):
        space, _ = np.linalg.qr(inner @ space)
    image = inner @ space
    core = symmetric(space.T @ image)
    return nystrom_factor(image, core, floor=_NEGLIGIBLE[inner.dtype] * float(np.trace(core)), rank=count)


def own_roots(inner: InnerMatrix, shared: FloatArray, count: int) -> list[FloatArray]:
    """For each cluster, at most ``count`` columns of a root of its block of C - W Wᵀ, where W is ``shared``."""
    roots = []
    for i, block in enumerate(rank_slices(np.diff(inner.row_offsets))):
        own = symmetric(inner.block(i, i))
        values, vectors = eigenpairs(own - shared[block] @ shared[block].T)
        kept = values > _NEGLIGIBLE[inner.dtype] * float(np.trace(own))
        kept[: max(0, len(values) - count)] = False
        roots.append(vectors[:, kept] * np.sqrt(values[kept]))
    return roots


def left_out(inner: InnerMatrix, shared: FloatArray, own: Sequence[FloatArray] | None) -> float:
    """Squared Frobenius norm of C - W Wᵀ, minus L_i L_iᵀ in the diagonal blocks if clusters have their own roots.

    With G = Wᵀ W, the squared norm of C - W Wᵀ is |C|² - 2 tr(Wᵀ C W) + |G|². No matrix of the size of C is formed.
    """
    gram = shared.T @ shared
    left = inner.energy - 2 * float(np.einsum("ij,ij->", shared, inner @ shared)) + energy_of(gram)
    if own is not None:
        for i, (block, root) in enumerate(zip(rank_slices(np.diff(inner.row_offsets)), own, strict=True)):
            rest = symmetric(inner.block(i, i)) - shared[block] @ shared[block].T
            left += energy_of(rest - root @ root.T) - energy_of(rest)
    return left
