"""Inner matrix C of a factorization, a symmetric or rectangular matrix of blocks, some of which are zero.

C is stored in contiguous panels. A panel has blocks (i, j) of one block row i, side by side. It stores the leading rows
of each block, as many as the height of the panel, and some leading columns; the other entries of a block are zero. A
block row without trimmed blocks has one panel. A symmetric C stores only the blocks with j >= i. A product uses each
off-diagonal block twice while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from blockbasis._utils.parallel import cores, map_threads, single_threaded

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Index, IntArray

#: Number of entries of a strip, the part of a panel that a symmetric product uses twice: it stays in the cache.
_STRIP = 2**16
#: Number of multiplications below which a product uses one thread: starting threads would take longer.
_THREADED = 2**22
#: Number of partial sums of a product with threads. It is fixed, so that the result does not depend on the threads.
_SUMS = 8


@dataclass(frozen=True, eq=False)
class Panel:
    """Leading rows and columns of blocks of one block row, side by side.

    Parameters
    ----------
    row : int
        Index of the block row.
    columns : ndarray of shape (m,)
        Indices of the block columns, in ascending order.
    widths : ndarray of shape (m,)
        Number of stored columns of each block.
    values : ndarray of shape (height, widths.sum())
        Stored entries of the blocks.
    """

    row: int
    columns: IntArray
    widths: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        for array in (self.columns, self.widths, self.values):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor makes unpickled arrays read-only.
        return Panel, (self.row, self.columns, self.widths, self.values)

    @property
    def height(self) -> int:
        """Number of stored rows of the blocks."""
        return int(self.values.shape[0])


class _Strip(NamedTuple):
    """Consecutive columns of a panel and their positions in C.

    ``block`` is the submatrix of C with the given rows and columns. Its transpose, without the first ``own`` columns,
    which belong to the diagonal block, has the rows ``mirror``.
    """

    block: FloatArray
    rows: slice
    columns: Index
    own: int
    mirror: Index


@dataclass(frozen=True, eq=False)
class InnerMatrix:
    """Matrix of k by m blocks, some of which are zero or trimmed to leading rows and columns.

    Parameters
    ----------
    row_offsets, column_offsets : ndarray of shape (k + 1,), (m + 1,)
        First row of each block row and first column of each block column, followed by the number of rows or columns.
    panels : tuple of Panel
        Panels in the order of the block rows. A block is in at most one panel. A symmetric matrix stores the blocks on
        and above the diagonal; a diagonal block is not trimmed, and is the first block of the first panel of its row.
    symmetric : bool
        Whether the blocks below the diagonal are the transposes of the blocks above the diagonal.
    """

    row_offsets: IntArray
    column_offsets: IntArray
    panels: tuple[Panel, ...]
    symmetric: bool

    def __post_init__(self) -> None:
        for array in (self.row_offsets, self.column_offsets):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Cached views would be pickled as copies.
        return InnerMatrix, (self.row_offsets, self.column_offsets, self.panels, self.symmetric)

    @classmethod
    def of_whole_blocks(
        cls,
        row_offsets: IntArray,
        column_offsets: IntArray,
        kept: Sequence[IntArray],
        values: Sequence[FloatArray],
        *,
        symmetric: bool,
    ) -> InnerMatrix:
        """Return C from the nonzero blocks of each block row, side by side, and their block columns ``kept``."""
        widths = np.diff(column_offsets)
        panels = [Panel(i, own, widths[own], panel) for i, (own, panel) in enumerate(zip(kept, values, strict=True))]
        return cls(row_offsets, column_offsets, tuple(panels), symmetric)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return int(self.row_offsets[-1]), int(self.column_offsets[-1])

    @property
    def n_rows(self) -> int:
        """Number of block rows."""
        return len(self.row_offsets) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the entries."""
        return self.panels[0].values.dtype

    @cached_property
    def kept(self) -> tuple[IntArray, ...]:
        """Block columns of the stored blocks of each block row, in ascending order."""
        none = np.empty(0, dtype=np.intp)
        kept = [np.sort(np.concatenate([none, *(panel.columns for panel in own)])) for own in self._by_row]
        for columns in kept:
            columns.setflags(write=False)
        return tuple(kept)

    @cached_property
    def _by_row(self) -> tuple[tuple[Panel, ...], ...]:
        rows: list[list[Panel]] = [[] for _ in range(self.n_rows)]
        for panel in self.panels:
            rows[panel.row].append(panel)
        return tuple(tuple(own) for own in rows)

    @property
    def stored(self) -> int:
        """Number of stored entries; a pair of symmetric entries counts once."""
        kept = sum(panel.values.size for panel in self.panels)
        if self.symmetric:
            ranks = np.diff(self.row_offsets)
            kept -= int((ranks * (ranks - 1) // 2).sum())
        return kept

    @property
    def density(self) -> float:
        """Fraction of the blocks that are not zero."""
        k = self.n_rows
        kept = sum(len(panel.columns) for panel in self.panels)
        return (2 * kept - k) / k**2 if self.symmetric else kept / (k * (len(self.column_offsets) - 1))

    @property
    def trimmed(self) -> bool:
        """Whether a block is stored without some of its rows or columns."""
        return not all(self._is_whole(i) for i in range(self.n_rows))

    @property
    def full(self) -> bool:
        """Whether all entries are stored."""
        return self.density == 1 and not self.trimmed

    def _is_whole(self, i: int) -> bool:
        """Return whether the stored blocks of block row ``i`` are not trimmed."""
        own, widths = self._by_row[i], np.diff(self.column_offsets)
        height = int(self.row_offsets[i + 1] - self.row_offsets[i])
        return all(panel.height == height and (panel.widths == widths[panel.columns]).all() for panel in own)

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of C."""
        energy = 0.0
        for panel in self.panels:
            squares = np.einsum("ij,ij->j", panel.values, panel.values, dtype=np.float64)
            # An off-diagonal block of a symmetric C occurs twice.
            energy += squares.sum() + (squares[self._own(panel) :].sum() if self.symmetric else 0.0)
        return float(energy)

    def _own(self, panel: Panel) -> int:
        """Return the number of columns of a panel that belong to the diagonal block of a symmetric C."""
        diagonal = self.symmetric and len(panel.columns) > 0 and panel.columns[0] == panel.row
        return panel.height if diagonal else 0

    @property
    def nbytes(self) -> int:
        """Number of bytes of the stored entries."""
        return sum(panel.values.nbytes for panel in self.panels)

    def columns_of(self, i: int) -> Index:
        """Return the columns of C that `row_panel` covers; a slice if they are consecutive."""
        kept = self.kept[i]
        return _columns(kept, np.diff(self.column_offsets)[kept], self.column_offsets)

    def row_panel(self, i: int) -> FloatArray:
        """Return the stored blocks of block row ``i`` side by side, trimmed blocks padded with zeros."""
        own = self._by_row[i]
        if len(own) == 1 and self._is_whole(i):
            return own[0].values
        return np.concatenate([self.block(i, int(j)) for j in self.kept[i]], axis=1)

    def _place(self, panel: Panel) -> tuple[slice, Index]:
        """Return the rows and columns of a panel in C."""
        start = int(self.row_offsets[panel.row])
        return slice(start, start + panel.height), _columns(panel.columns, panel.widths, self.column_offsets)

    @cached_property
    def _strips(self) -> tuple[_Strip, ...]:
        strips = []
        for panel in self.panels:
            rows, columns = self._place(panel)
            height, width = panel.values.shape
            step = max(height, _STRIP // max(height, 1), 1)
            for start in range(0, width, step):
                part = slice(start, min(start + step, width))
                own = self._own(panel) if start == 0 else 0
                mirror = _part(columns, part.start + own, part.stop)
                strips.append(_Strip(panel.values[:, part], rows, _part(columns, part.start, part.stop), own, mirror))
        return tuple(strips)

    def __matmul__(self, W: FloatArray) -> FloatArray:
        """Return C W for W of shape (n_columns, m)."""
        return self._sum(W, self.shape[0], transposed=False)

    def transpose_matmul(self, W: FloatArray) -> FloatArray:
        """Return Cᵀ W."""
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

        if sum(panel.values.size for panel in self.panels) * W.shape[1] < _THREADED:
            return product(strips)
        # The strips of a partial sum do not depend on the number of threads, so that the result is bit-identical.
        with single_threaded():
            sums = map_threads(product, [(strips[i::_SUMS],) for i in range(_SUMS)], cores())
        for other in sums[1:]:
            sums[0] += other
        return sums[0]

    def block(self, i: int, j: int) -> FloatArray:
        """Return block (i, j); zeros if it is not stored."""
        if self.symmetric and j < i:
            return self.block(j, i).T
        height = int(self.row_offsets[i + 1] - self.row_offsets[i])
        width = int(self.column_offsets[j + 1] - self.column_offsets[j])
        for panel in self._by_row[i]:
            position = int(np.searchsorted(panel.columns, j))
            if position < len(panel.columns) and panel.columns[position] == j:
                stop = int(panel.widths[: position + 1].sum())
                part = panel.values[:, stop - int(panel.widths[position]) : stop]
                if part.shape == (height, width):
                    return part
                return np.pad(part, ((0, height - part.shape[0]), (0, width - part.shape[1])))
        return np.zeros((height, width), dtype=self.dtype)

    def with_panels(self, values: Iterable[FloatArray]) -> InnerMatrix:
        """Return a matrix of the same structure with other values of the panels."""
        panels = (replace(panel, values=own) for panel, own in zip(self.panels, values, strict=True))
        return replace(self, panels=tuple(panels))

    def astype(self, dtype: npt.DTypeLike) -> InnerMatrix:
        """Return the matrix with entries in another dtype."""
        return self.with_panels(panel.values.astype(dtype, copy=False) for panel in self.panels)

    def todense(self) -> FloatArray:
        """Return C as a dense array."""
        dense = np.zeros(self.shape, dtype=self.dtype)
        for panel in self.panels:
            rows, columns = self._place(panel)
            dense[rows, columns] = panel.values
            if self.symmetric:
                dense[columns, rows] = panel.values.T
        return dense

    def with_entries(self, dense: FloatArray) -> InnerMatrix:
        """The same structure, its entries taken from a dense matrix."""
        return self.with_panels(dense[self._place(panel)].copy() for panel in self.panels)

    # --- the graph of the blocks -------------------------------------------------------------------------------------

    def graph(self) -> csr_array:
        """Return the sparse k by m matrix with a 1 for each stored block."""
        starts = np.concatenate(([0], np.cumsum([len(columns) for columns in self.kept])))
        ones = np.ones(int(starts[-1]), dtype=np.int8)
        shape = self.n_rows, len(self.column_offsets) - 1
        return csr_array((ones, np.concatenate(self.kept), starts), shape=shape)

    def components(self) -> tuple[IntArray, ...]:
        """Return the clusters of each connected component of the graph of a symmetric C, in ascending order.

        Blocks between two components are zero, so that C is block-diagonal after a permutation of the clusters.
        """
        if not self.symmetric:
            raise ValueError("Only a symmetric inner matrix has connected components.")
        _, labels = connected_components(self.graph(), directed=False)
        order = np.argsort(labels, kind="stable")
        return tuple(np.split(order, np.cumsum(np.bincount(labels))[:-1]))

    def component(self, clusters: IntArray) -> InnerMatrix:
        """Return the submatrix of C of one of its `components`, without a copy of the values."""
        if len(clusters) == self.n_rows:
            return self
        offsets = np.concatenate(([0], np.cumsum(np.diff(self.row_offsets)[clusters]))).astype(np.intp)
        panels = tuple(
            replace(panel, row=position, columns=np.searchsorted(clusters, panel.columns))
            for position, i in enumerate(clusters.tolist())
            for panel in self._by_row[i]
        )
        return InnerMatrix(offsets, offsets, panels, symmetric=True)


def _columns(kept: IntArray, widths: IntArray, offsets: IntArray) -> Index:
    """Return the leading ``widths`` columns of each block column; a slice if they are consecutive."""
    if kept.size == 0:
        return np.empty(0, dtype=np.intp)
    starts = offsets[kept]
    if (starts[1:] == starts[:-1] + widths[:-1]).all():
        return slice(int(starts[0]), int(starts[-1] + widths[-1]))
    return np.concatenate([np.arange(a, a + w) for a, w in zip(starts.tolist(), widths.tolist(), strict=True)])


def _part(columns: Index, start: int, stop: int) -> Index:
    """Return the columns of C of columns ``start`` to ``stop`` of a panel."""
    return slice(columns.start + start, columns.start + stop) if isinstance(columns, slice) else columns[start:stop]


@dataclass(frozen=True)
class Cutoff:
    """Record of the blocks of the inner matrix that were set to zero.

    Parameters
    ----------
    dropped : float
        Fraction of the blocks that were set to zero.
    error : float
        Upper estimate of the additional relative Frobenius error. The matrix can become indefinite: no eigenvalue
        decreases by more than ``error`` times the Frobenius norm of the matrix.
    """

    dropped: float
    error: float
