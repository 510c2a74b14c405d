"""C: the inner matrix of a factorization, a symmetric or rectangular matrix of blocks, some of them zero.

C is kept as one contiguous panel per block row: panel i holds the kept blocks (i, j), side by side. When C is symmetric
only j >= i are kept, each off-diagonal block once, and a product uses it twice while it is in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from blockbasis._parallel import cores, map_threads, single_threaded
from blockbasis._typing import FloatArray, Index, IntArray

#: Entries of a strip, a part of a panel that a symmetric product uses twice: it stays in the cache of a core.
_STRIP = 2**16
#: Multiplications below which threads cost more than they save, and into how many sums the others are divided.
_THREADED = 2**22
_SUMS = 8


class _Strip(NamedTuple):
    """Some columns of a panel: ``block`` stands in ``rows`` and ``columns`` of C, ``mirror`` in the transposed place.

    The first columns of ``block``, up to ``own``, belong to the diagonal block, which has no mirror image.
    """

    block: FloatArray
    rows: slice
    columns: Index
    own: int
    mirror: Index


@dataclass(frozen=True, eq=False)
class InnerMatrix:
    """A matrix of k by m blocks, some of them zero.

    Parameters
    ----------
    row_offsets, column_offsets : ndarray of shape (k + 1,), (m + 1,)
        Where each block row and block column starts.
    kept : tuple of k int arrays
        The block columns kept in each block row, ascending. When ``symmetric``, those from the diagonal on, the
        diagonal block always among them.
    panels : tuple of k arrays
        The kept blocks of each block row, side by side.
    symmetric : bool
    """

    row_offsets: IntArray
    column_offsets: IntArray
    kept: tuple[IntArray, ...]
    panels: tuple[FloatArray, ...]
    symmetric: bool

    def __post_init__(self) -> None:
        for array in (self.row_offsets, self.column_offsets, *self.kept, *self.panels):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Views that were kept would be pickled as copies.
        return InnerMatrix, (self.row_offsets, self.column_offsets, self.kept, self.panels, self.symmetric)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.row_offsets[-1]), int(self.column_offsets[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.panels[0].dtype

    @property
    def stored(self) -> int:
        """Number of different entries: a pair of symmetric ones counts once."""
        kept = sum(panel.size for panel in self.panels)
        if self.symmetric:
            ranks = np.diff(self.row_offsets)
            kept -= int((ranks * (ranks - 1) // 2).sum())
        return kept

    @property
    def density(self) -> float:
        """Fraction of the blocks that are kept."""
        k = len(self.kept)
        kept = sum(len(columns) for columns in self.kept)
        return (2 * kept - k) / k**2 if self.symmetric else kept / (k * (len(self.column_offsets) - 1))

    @property
    def energy(self) -> float:
        """Sum of the squared entries of C."""
        energy = 0.0
        for panel in self.panels:
            squares = np.einsum("ij,ij->j", panel, panel, dtype=np.float64)
            # A symmetric panel starts with the diagonal block; the blocks after it stand for two.
            energy += squares.sum() + (squares[panel.shape[0] :].sum() if self.symmetric else 0.0)
        return float(energy)

    @property
    def nbytes(self) -> int:
        return sum(panel.nbytes for panel in self.panels)

    def columns_of(self, i: int) -> Index:
        """Columns of C that panel ``i`` covers; a slice when they are in one piece."""
        return self._columns[i]

    @cached_property
    def _columns(self) -> tuple[Index, ...]:
        return tuple(_columns(kept, self.column_offsets) for kept in self.kept)

    @cached_property
    def _strips(self) -> tuple[_Strip, ...]:
        strips = []
        offsets = self.row_offsets.tolist()
        for i, (panel, columns) in enumerate(zip(self.panels, self._columns, strict=True)):
            height, width = panel.shape
            rows = slice(offsets[i], offsets[i + 1])
            step = max(height, _STRIP // max(height, 1), 1)
            for start in range(0, width, step):
                part = slice(start, min(start + step, width))
                own = height if self.symmetric and start == 0 else 0
                mirror = _part(columns, part.start + own, part.stop)
                strips.append(_Strip(panel[:, part], rows, _part(columns, part.start, part.stop), own, mirror))
        return tuple(strips)

    def __matmul__(self, W: FloatArray) -> FloatArray:
        """C W for W of shape (columns, m)."""
        return self._sum(W, self.shape[0], transposed=False)

    def transpose_matmul(self, W: FloatArray) -> FloatArray:
        """Cᵀ W."""
        return self @ W if self.symmetric else self._sum(W, self.shape[1], transposed=True)

    def _sum(self, W: FloatArray, height: int, *, transposed: bool) -> FloatArray:
        strips = self._strips
        dtype = np.result_type(W, self.dtype)

        def product(some: tuple[_Strip, ...]) -> FloatArray:
            result = np.zeros((height, W.shape[1]), dtype=dtype)
            for block, rows, columns, own, mirror in some:
                if not transposed:
                    result[rows] += block @ W[columns]
                if transposed or (self.symmetric and block.shape[1] > own):
                    result[mirror] += block[:, own:].T @ W[rows]
            return result

        if sum(panel.size for panel in self.panels) * W.shape[1] < _THREADED:
            return product(strips)
        # Each sum has its own strips, whatever the number of threads: the result has the same bits for all.
        with single_threaded():
            sums = map_threads(product, [(strips[i::_SUMS],) for i in range(_SUMS)], cores())
        for other in sums[1:]:
            sums[0] += other
        return sums[0]

    def block(self, i: int, j: int) -> FloatArray:
        """Block (i, j), zero when it is not kept."""
        if self.symmetric and j < i:
            return self.block(j, i).T
        height = int(self.row_offsets[i + 1] - self.row_offsets[i])
        width = int(self.column_offsets[j + 1] - self.column_offsets[j])
        position = int(np.searchsorted(self.kept[i], j))
        if position == len(self.kept[i]) or self.kept[i][position] != j:
            return np.zeros((height, width), dtype=self.panels[i].dtype)
        before = self.kept[i][:position]
        start = int((self.column_offsets[before + 1] - self.column_offsets[before]).sum())
        return self.panels[i][:, start : start + width]

    def astype(self, dtype: npt.DTypeLike) -> InnerMatrix:
        return replace(self, panels=tuple(panel.astype(dtype, copy=False) for panel in self.panels))

    def todense(self) -> FloatArray:
        dense = np.zeros(self.shape, dtype=self.dtype)
        for i, panel in enumerate(self.panels):
            rows = slice(self.row_offsets[i], self.row_offsets[i + 1])
            dense[rows, self.columns_of(i)] = panel
            if self.symmetric:
                dense[self.columns_of(i), rows] = panel.T
        return dense

    def with_entries(self, dense: FloatArray) -> InnerMatrix:
        """The same blocks, their entries taken from a dense matrix."""
        panels = tuple(
            dense[self.row_offsets[i] : self.row_offsets[i + 1], self.columns_of(i)].copy()
            for i in range(len(self.panels))
        )
        return replace(self, panels=panels)

    # --- the graph of the blocks -------------------------------------------------------------------------------------

    def graph(self) -> csr_array:
        """Sparse k by m matrix with a one for each stored block: of a symmetric C those on and above the diagonal."""
        counts = [len(columns) for columns in self.kept]
        starts = np.concatenate(([0], np.cumsum(counts)))
        ones = np.ones(int(starts[-1]), dtype=np.int8)
        shape = len(self.kept), len(self.column_offsets) - 1
        return csr_array((ones, np.concatenate(self.kept), starts), shape=shape)

    def components(self) -> tuple[IntArray, ...]:
        """Clusters of each connected component of the graph of a symmetric C, ascending.

        Blocks between two components are zero: up to the order of the clusters, C is block-diagonal.
        """
        if not self.symmetric:
            raise ValueError("Only a symmetric inner matrix has connected components.")
        _, labels = connected_components(self.graph(), directed=False)
        order = np.argsort(labels, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(labels))[:-1]))

    def component(self, clusters: IntArray) -> InnerMatrix:
        """The part of C that belongs to one of its `components`; shares the panels."""
        if len(clusters) == len(self.kept):
            return self
        ranks = np.diff(self.row_offsets)[clusters]
        offsets = np.concatenate(([0], np.cumsum(ranks))).astype(np.intp)
        kept = tuple(np.searchsorted(clusters, self.kept[i]) for i in clusters)
        return InnerMatrix(offsets, offsets, kept, tuple(self.panels[i] for i in clusters), symmetric=True)


def _columns(kept: IntArray, offsets: IntArray) -> Index:
    if kept.size == 0:
        return np.empty(0, dtype=np.intp)
    if kept[-1] - kept[0] + 1 == len(kept):
        return slice(int(offsets[kept[0]]), int(offsets[kept[-1] + 1]))
    return np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in kept.tolist()])


def _part(columns: Index, start: int, stop: int) -> Index:
    """Columns ``start`` to ``stop`` of a panel, as columns of C."""
    return slice(columns.start + start, columns.start + stop) if isinstance(columns, slice) else columns[start:stop]


@dataclass(frozen=True)
class Cutoff:
    """What was cut off from the inner matrix.

    Parameters
    ----------
    dropped : float
        Fraction of the blocks set to zero.
    error : float
        Upper estimate of the relative Frobenius error that this adds. Cut-off blocks can also cost positive
        semi-definiteness: against the matrix before the cut no eigenvalue falls by more than ``error`` times its
        Frobenius norm.
    """

    dropped: float
    error: float
