"""Block-diagonal matrix U of the bases of all clusters, and its products.

A product with one vector does two operations for every float of U, so that the memory bandwidth limits its speed. BLAS
reads several short rows at once, which defeats the prefetching of the processor. ``einsum`` reads the rows one after
the other and is two to three times as fast. For several right-hand sides BLAS is faster, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import cores, map_threads, single_threaded
from blockbasis._utils.tiling import ranges

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.partition import Partition

T = TypeVar("T")
R = TypeVar("R")

#: Largest number of floats of U in one product with a vector, and of rows: longer sums have larger rounding errors.
_VECTOR_TILE = 2**20
_VECTOR_ROWS = 2**13
#: Largest number of floats of U in one product with several vectors: the tile stays in the cache of a core.
_MATRIX_TILE = 2**16
#: Number of columns of a basis below which BLAS is faster than ``einsum`` for one vector.
_NARROW = 16
#: Largest number of floats of U in a piece, and smallest number in a group of pieces, the task of a thread: short tasks
#: balance the threads. Neither depends on the number of threads, so that sums are bit-identical.
_PIECE = 2**20
_MIN_GROUP = 2**19
#: Number of rows that are permuted in one task of a thread.
_PERMUTED = 2**18
#: Number of multiplications below which a product uses one thread: starting threads takes tenths of a millisecond.
_THREADED = 2**22


class _Piece(NamedTuple):
    """Consecutive rows of one block: their view ``values``, their range in U, and whether they are the first rows."""

    values: FloatArray
    rows: slice
    columns: slice
    first: bool


@dataclass(frozen=True, eq=False)
class BlockDiagonal:
    """Block-diagonal matrix U of shape (n, R) with one block for each cluster.

    The rows of products are in the order of the caller's points.

    Parameters
    ----------
    partition : Partition
        Partition of the n points into clusters.
    ranks : ndarray of shape (n_clusters,)
        Number r_i of columns of each block; R is their sum.
    values : ndarray of shape (sum of n_i r_i,)
        Entries of the blocks of shape (n_i, r_i) in row-major order, in the order of the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.operators import BlockDiagonal
    >>> from blockbasis.partition import from_labels
    >>> partition = from_labels(np.arange(5.0)[:, np.newaxis], np.array([1, 0, 1, 0, 1]))
    >>> U = BlockDiagonal.empty(partition, [1, 2], np.float64)
    >>> U.block(0)[:] = 1
    >>> U.block(1)[:] = 2
    >>> U.freeze().expand(np.ones((3, 1))).ravel()
    array([4., 1., 4., 1., 4.])
    """

    partition: Partition
    ranks: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        expected = int(self.partition.sizes @ self.ranks)
        if self.values.shape != (expected,) or not self.values.flags.c_contiguous:
            raise ValueError(
                f"The 'values' parameter of BlockDiagonal must be contiguous and of shape ({expected},). Got shape "
                f"{self.values.shape} instead."
            )

    @classmethod
    def empty(cls, partition: Partition, ranks: Any, dtype: npt.DTypeLike) -> BlockDiagonal:
        """Return a matrix with uninitialized entries; fill every ``block(i)`` in place and call `freeze`."""
        ranks = np.array(ranks, dtype=np.intp)
        ranks.setflags(write=False)
        return cls(partition, ranks, np.empty(int(partition.sizes @ ranks), dtype=dtype))

    @classmethod
    def from_blocks(
        cls, partition: Partition, blocks: Sequence[FloatArray], dtype: npt.DTypeLike | None = None
    ) -> BlockDiagonal:
        """Return the read-only matrix of copies of the blocks in ``dtype``; None selects the dtype of the blocks."""
        chosen = np.result_type(*blocks) if dtype is None else np.dtype(dtype)
        U = cls.empty(partition, [block.shape[1] for block in blocks], chosen)
        for i, block in enumerate(blocks):
            U.block(i)[...] = block
        return U.freeze()

    def freeze(self) -> BlockDiagonal:
        """Make the values read-only; return the matrix itself."""
        self.values.setflags(write=False)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Cached views would be pickled as copies.
        return BlockDiagonal, (self.partition, self.ranks, self.values)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the entries."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers n of points and R of columns."""
        return self.partition.n_points, int(self.offsets[-1])

    @property
    def size(self) -> int:
        """Number of stored entries."""
        return int(self.values.size)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the entries."""
        return int(self.values.nbytes)

    @cached_property
    def offsets(self) -> IntArray:
        """First column of each block, and R as the last entry."""
        return np.concatenate(([0], np.cumsum(self.ranks))).astype(np.intp)

    @cached_property
    def _starts(self) -> list[int]:
        ends: list[int] = np.cumsum(self.partition.sizes * self.ranks).tolist()
        return [0, *ends]

    def block(self, i: int) -> FloatArray:
        """Return a view of block ``i``, of shape (n_i, r_i); it is writable until `freeze`."""
        height, rank = int(self.partition.sizes[i]), int(self.ranks[i])
        return self.values[self._starts[i] : self._starts[i + 1]].reshape(height, rank)

    @cached_property
    def blocks(self) -> tuple[FloatArray, ...]:
        """Read-only views of all blocks."""
        views = tuple(self.block(i) for i in range(len(self.ranks)))
        for view in views:
            view.setflags(write=False)
        return views

    def project(self, V: FloatArray) -> FloatArray:
        """Return Uᵀ V for V of shape (n, m)."""
        V = V.astype(np.result_type(V, self.values), copy=False)
        rows = self._in_cluster_order(V)
        result = np.empty((self.shape[1], V.shape[1]), dtype=V.dtype)

        def project(group: tuple[_Piece, ...]) -> list[FloatArray]:
            parts = []
            for piece in group:
                own = result[piece.columns]
                own = own if piece.first else np.empty_like(own)
                _project(piece.values, rows[piece.rows], own)
                parts.append(own)
            return parts

        for group, parts in zip(self._groups, self._map(project, self._groups, V.shape[1]), strict=True):
            for piece, part in zip(group, parts, strict=True):
                if not piece.first:
                    result[piece.columns] += part
        return result

    def expand(self, W: FloatArray) -> FloatArray:
        """Return U W for W of shape (R, m)."""
        W = W.astype(np.result_type(W, self.values), copy=False)
        rows = np.empty((self.shape[0], W.shape[1]), dtype=W.dtype)

        def expand(group: tuple[_Piece, ...]) -> None:
            for piece in group:
                _expand(piece.values, W[piece.columns], rows[piece.rows])

        self._map(expand, self._groups, W.shape[1])
        return self._in_given_order(rows)

    def _in_cluster_order(self, V: FloatArray) -> FloatArray:
        """Permute rows from the order of the points to the order of the clusters."""
        if self._in_order:
            return V
        result = np.empty_like(V, order="C")

        def permute(rows: slice) -> None:
            np.take(V, self.partition.order[rows], axis=0, out=result[rows], mode="clip")  # "raise" copies once more

        self._map(permute, ranges(0, len(V), _PERMUTED), V.shape[1])
        return result

    def _in_given_order(self, ordered: FloatArray) -> FloatArray:
        """Permute rows from the order of the clusters to the order of the points."""
        if self._in_order:
            return ordered
        result = np.empty_like(ordered)

        def permute(rows: slice) -> None:
            if ordered.shape[1] == 1:  # much faster than rows of one entry
                result[:, 0][self.partition.order[rows]] = ordered[rows, 0]
            else:
                result[self.partition.order[rows]] = ordered[rows]

        self._map(permute, ranges(0, len(ordered), _PERMUTED), ordered.shape[1])
        return result

    def row_pieces(self, floats: int = _PIECE) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield (cluster, range of rows, values) of consecutive rows with at most ``floats`` values, or of one row."""
        for i, block in enumerate(self.blocks):
            start = int(self.partition.starts[i])
            for rows in ranges(0, block.shape[0], max(1, floats // max(1, block.shape[1]))):
                yield i, slice(start + rows.start, start + rows.stop), block[rows]

    @cached_property
    def _in_order(self) -> bool:
        """Whether the points are already in cluster order, so that no permutation is needed."""
        order = self.partition.order
        return bool((order == np.arange(len(order))).all())

    @cached_property
    def _groups(self) -> tuple[tuple[_Piece, ...], ...]:
        """Pieces of all blocks, in groups that are the tasks of the threads."""
        columns = [slice(a, b) for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)]
        starts = self.partition.starts.tolist()
        # An empty cluster has no rows; its part of a projection is zero.
        empty = np.flatnonzero(self.partition.sizes == 0).tolist()
        groups, floats = [[_Piece(self.blocks[i], slice(0, 0), columns[i], True) for i in empty]], 0
        for i, rows, values in self.row_pieces(_PIECE):
            if floats >= _MIN_GROUP:
                groups.append([])
                floats = 0
            groups[-1].append(_Piece(values, rows, columns[i], rows.start == starts[i]))
            floats += values.size
        return tuple(map(tuple, groups))

    def _map(self, function: Callable[[T], R], tasks: Sequence[T], width: int) -> list[R]:
        """Apply a function to all tasks, in threads if a product with ``width`` vectors is large enough."""
        if self.size * width < _THREADED:
            return [function(task) for task in tasks]
        # The search for BLAS libraries takes milliseconds, and products with one vector do not use BLAS.
        without_blas = width == 1 and int(self.ranks.min()) >= _NARROW
        with nullcontext() if without_blas else single_threaded():
            return map_threads(function, [(task,) for task in tasks], cores())


def _project(U: FloatArray, V: FloatArray, out: FloatArray) -> None:
    """Write Uᵀ V into ``out``."""
    height, rank = U.shape
    single = V.shape[1] == 1 and rank >= _NARROW
    if height * rank <= _MATRIX_TILE and not single:
        np.matmul(U.T, V, out=out)
        return
    out[...] = 0
    for rows in _tiles(height, rank, single):
        tile = U[rows].astype(out.dtype, copy=False)
        if single:
            out[:, 0] += np.einsum("i,ij->j", V[rows, 0], tile)
        else:
            out += tile.T @ V[rows]


def _expand(U: FloatArray, W: FloatArray, out: FloatArray) -> None:
    """Write U W into ``out``."""
    height, rank = U.shape
    single = W.shape[1] == 1 and rank >= _NARROW
    if height * rank <= _MATRIX_TILE and not single:
        np.matmul(U, W, out=out)
        return
    for rows in _tiles(height, rank, single):
        tile = U[rows].astype(out.dtype, copy=False)
        if single:
            np.einsum("ij,j->i", tile, W[:, 0], out=out[rows, 0])
        else:
            np.matmul(tile, W, out=out[rows])


def _tiles(height: int, rank: int, single: bool) -> list[slice]:
    step = min(_VECTOR_TILE // rank, _VECTOR_ROWS) if single else _MATRIX_TILE // rank
    return ranges(0, height, max(1, step))
