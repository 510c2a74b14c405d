"""Rows in the coordinates of a block-diagonal basis, most blocks of which are zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Matrix N of shape (m, R) whose columns are divided among clusters; a cluster has entries in some rows only.

    Parameters
    ----------
    n_rows : int
        Number m of rows.
    rows : tuple of ndarray of shape (m_j,)
        Rows of the entries of each cluster, in ascending order.
    blocks : tuple of ndarray of shape (m_j, r_j)
        Entries of these rows in the r_j columns of the cluster; R is the sum of all r_j.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.operators.row_blocks import RowBlocks
    >>> N = RowBlocks(3, (np.array([0, 2]), np.array([2])), (np.ones((2, 1)), np.full((1, 2), 5.0)))
    >>> N.expand(np.eye(3))
    array([[1., 0., 0.],
           [0., 0., 0.],
           [1., 5., 5.]])
    """

    n_rows: int
    rows: tuple[IntArray, ...]
    blocks: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        for array in (*self.rows, *self.blocks):
            array.setflags(write=False)

    @property
    def size(self) -> int:
        """Number of stored entries."""
        return sum(block.size for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the entries and of their rows."""
        return sum(array.nbytes for array in (*self.rows, *self.blocks))

    @cached_property
    def _columns(self) -> tuple[slice, ...]:
        ends = np.cumsum([block.shape[1] for block in self.blocks]).tolist()
        return tuple(slice(end - block.shape[1], end) for end, block in zip(ends, self.blocks, strict=True))

    def expand(self, W: FloatArray) -> FloatArray:
        """Return N W for W of shape (R, p)."""
        result = np.zeros((self.n_rows, W.shape[1]), dtype=W.dtype)
        for rows, block, columns in zip(self.rows, self.blocks, self._columns, strict=True):
            result[rows] += block @ W[columns]
        return result

    def project(self, V: FloatArray) -> FloatArray:
        """Return Nᵀ V for V of shape (m, p)."""
        parts = [block.T @ V[rows] for rows, block in zip(self.rows, self.blocks, strict=True)]
        return np.concatenate(parts)
