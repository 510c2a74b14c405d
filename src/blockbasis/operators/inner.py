"""C: the inner matrix of a factorization, a symmetric or rectangular matrix of blocks, some of them zero.

C is kept in contiguous panels. A panel holds blocks (i, j) of one block row i, side by side. Of each block it holds the
leading rows, as many as the panel is high, and some leading columns; the other entries of the block are zero. A block
row whose blocks are not trimmed has one panel. When C is symmetric only j >= i are kept, each off-diagonal block once,
and a product uses it twice while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from blockbasis._utils.parallel import cores, map_threads, single_threaded
from blockbasis._utils.typing import FloatArray, Index, IntArray

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
class Panel:
    """Leading parts of some blocks of one block row, side by side.

    Parameters
    ----------
    row : int
        The block row.
    columns : ndarray of shape (m,)
        The block columns, ascending.
    widths : ndarray of shape (m,)
        Leading columns of each block.
    values : ndarray of shape (height, widths.sum())
    """

    row: int
    columns: IntArray
    widths: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        for array in (self.columns, self.widths, self.values):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays are writable until the panel is made anew.
        return Panel, (self.row, self.columns, self.widths, self.values)

    @property
    def height(self) -> int:
        return int(self.values.shape[0])


@dataclass(frozen=True, eq=False)
class InnerMatrix:
    """A matrix of k by m blocks, some of them zero, or zero but for leading rows and columns.

    Parameters
    ----------
    row_offsets, column_offsets : ndarray of shape (k + 1,), (m + 1,)
        Where each block row and block column starts.
    panels : tuple of Panel
        By block row, each block in at most one of them. When ``symmetric``, the blocks from the diagonal on. A diagonal
        block is whole, and the first block of the first panel of its row.
    symmetric : bool
    """

    row_offsets: IntArray
    column_offsets: IntArray
    panels: tuple[Panel, ...]
    symmetric: bool

    def __post_init__(self) -> None:
        for array in (self.row_offsets, self.column_offsets):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Views that were kept would be pickled as copies.
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
        """C from the kept blocks of each block row, side by side; ``kept`` has their block columns."""
        widths = np.diff(column_offsets)
        panels = [Panel(i, own, widths[own], panel) for i, (own, panel) in enumerate(zip(kept, values, strict=True))]
        return cls(row_offsets, column_offsets, tuple(panels), symmetric)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.row_offsets[-1]), int(self.column_offsets[-1])

    @property
    def n_rows(self) -> int:
        """Number of block rows."""
        return len(self.row_offsets) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.panels[0].values.dtype

    @cached_property
    def kept(self) -> tuple[IntArray, ...]:
        """The block columns kept in each block row, ascending; of a symmetric C those from the diagonal on."""
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
        """Number of different entries: a pair of symmetric ones counts once."""
        kept = sum(panel.values.size for panel in self.panels)
        if self.symmetric:
            ranks = np.diff(self.row_offsets)
            kept -= int((ranks * (ranks - 1) // 2).sum())
        return kept

    @property
    def density(self) -> float:
        """Fraction of the blocks that are kept."""
        k = self.n_rows
        kept = sum(len(panel.columns) for panel in self.panels)
        return (2 * kept - k) / k**2 if self.symmetric else kept / (k * (len(self.column_offsets) - 1))

    @property
    def trimmed(self) -> bool:
        """Whether a kept block is stored with some of its rows or columns only."""
        return not all(self._is_whole(i) for i in range(self.n_rows))

    @property
    def full(self) -> bool:
        """Whether all entries are stored."""
        return self.density == 1 and not self.trimmed

    def _is_whole(self, i: int) -> bool:
        """Whether the kept blocks of block row ``i`` are not trimmed."""
        own, widths = self._by_row[i], np.diff(self.column_offsets)
        height = int(self.row_offsets[i + 1] - self.row_offsets[i])
        return all(panel.height == height and (panel.widths == widths[panel.columns]).all() for panel in own)

    @property
    def energy(self) -> float:
        """Sum of the squared entries of C."""
        energy = 0.0
        for panel in self.panels:
            squares = np.einsum("ij,ij->j", panel.values, panel.values, dtype=np.float64)
            # Blocks beside the diagonal one stand for two.
            energy += squares.sum() + (squares[self._own(panel) :].sum() if self.symmetric else 0.0)
        return float(energy)

    def _own(self, panel: Panel) -> int:
        """Columns of a panel that belong to a diagonal block of a symmetric C."""
        diagonal = self.symmetric and len(panel.columns) > 0 and panel.columns[0] == panel.row
        return panel.height if diagonal else 0

    @property
    def nbytes(self) -> int:
        return sum(panel.values.nbytes for panel in self.panels)

    def columns_of(self, i: int) -> Index:
        """Columns of C that `row_panel` covers; a slice when they are in one piece."""
        kept = self.kept[i]
        return _columns(kept, np.diff(self.column_offsets)[kept], self.column_offsets)

    def row_panel(self, i: int) -> FloatArray:
        """The kept blocks of block row ``i``, side by side, with the zeros of trimmed blocks."""
        own = self._by_row[i]
        if len(own) == 1 and self._is_whole(i):
            return own[0].values
        return np.concatenate([self.block(i, int(j)) for j in self.kept[i]], axis=1)

    def _place(self, panel: Panel) -> tuple[slice, Index]:
        """Rows and columns of C at which a panel stands."""
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

        if sum(panel.values.size for panel in self.panels) * W.shape[1] < _THREADED:
            return product(strips)
        # Each sum has its own strips, whatever the number of threads: the result has the same bits for all.
        with single_threaded():
            sums = map_threads(product, [(strips[i::_SUMS],) for i in range(_SUMS)], cores())
        for other in sums[1:]:
            sums[0] += other
        return sums[0]

    def block(self, i: int, j: int) -> FloatArray:
        """Block (i, j), zero where it is not kept."""
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
        """The same structure with other entries in the panels."""
        panels = (replace(panel, values=own) for panel, own in zip(self.panels, values, strict=True))
        return replace(self, panels=tuple(panels))

    def astype(self, dtype: npt.DTypeLike) -> InnerMatrix:
        return self.with_panels(panel.values.astype(dtype, copy=False) for panel in self.panels)

    def todense(self) -> FloatArray:
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
        """Sparse k by m matrix with a one for each stored block: of a symmetric C those on and above the diagonal."""
        starts = np.concatenate(([0], np.cumsum([len(columns) for columns in self.kept])))
        ones = np.ones(int(starts[-1]), dtype=np.int8)
        shape = self.n_rows, len(self.column_offsets) - 1
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
    """The leading ``widths`` columns of each block column; a slice when they are in one piece."""
    if kept.size == 0:
        return np.empty(0, dtype=np.intp)
    starts = offsets[kept]
    if (starts[1:] == starts[:-1] + widths[:-1]).all():
        return slice(int(starts[0]), int(starts[-1] + widths[-1]))
    return np.concatenate([np.arange(a, a + w) for a, w in zip(starts.tolist(), widths.tolist(), strict=True)])


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
