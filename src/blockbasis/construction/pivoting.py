"""Columns of large volume, by tournament pivoting that reads each tile of a wide matrix once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from blockbasis._utils.typing import FloatArray, IntArray

#: Pivoted QR stops where |R_jj| / |R_11| is smaller than this.
_PIVOT_TOLERANCE = 1e-12

#: Entries of a tile, 1 MB of float64. Pivoted QR reads the whole tile for each pivot, so that the tile should fit into
#: the L2 cache of a core. A tile has at least so many columns for each pivot.
_PIVOTED_ENTRIES = 2**17
_TILE_COLUMNS_PER_PIVOT = 4


def important_columns(block: FloatArray, size: int) -> IntArray:
    """At most ``size`` columns of large volume, by pivoted QR; columns with a negligible diagonal of R are dropped.

    Parameters
    ----------
    block : ndarray of shape (m, n)
    size : int

    Returns
    -------
    ndarray
        Indices of the columns, in the order of the pivots. `tournament` describes the search in a wide block.
    """
    return tournament(lambda tile: block[:, tile], block.shape, size)


def tournament(evaluate: Callable[[slice], FloatArray], shape: tuple[int, int], size: int) -> IntArray:
    """At most ``size`` columns of large volume of a matrix that is given tile by tile.

    A matrix that fits into the cache is one tile, and the result is that of pivoted QR. A wider matrix is divided into
    tiles: the pivots of each tile are chosen independently, and the next round chooses among the pivots of all tiles.
    This is the tournament pivoting of Demmel, Grigori, Gu and Xiang, "Communication avoiding rank revealing QR
    factorization with column pivoting" (2015). It takes one pass over the matrix, and its pivots are rank-revealing.

    Parameters
    ----------
    evaluate : callable
        Takes a range of columns and returns their entries, an array of shape (m, width).
    shape : tuple of int
        Rows m and columns n of the whole matrix.
    size : int

    Returns
    -------
    ndarray
        Indices of the columns, in the order of the pivots of the last round.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.construction.pivoting import tournament
    >>> M = np.diag([1.0, 3.0, 0.0, 2.0])
    >>> tournament(lambda tile: M[:, tile], M.shape, 2).tolist()
    [1, 3]
    """
    height, length = shape
    if height == 0 or length == 0:
        return np.empty(0, dtype=np.intp)
    width = max(_PIVOTED_ENTRIES // height, _TILE_COLUMNS_PER_PIVOT * size)
    if length <= width:
        return _pivots(evaluate(slice(0, length)), size)
    found, kept = [], []
    # Tiles of equal width: a narrow one at the end would keep most of its columns.
    edges = np.linspace(0, length, -(-length // width) + 1).astype(np.intp).tolist()
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        tile = evaluate(slice(start, stop))
        best = _pivots(tile, size)
        found.append(start + best)
        kept.append(tile[:, best])
    return np.concatenate(found)[important_columns(np.concatenate(kept, axis=1), size)]


def _pivots(block: FloatArray, size: int) -> IntArray:
    """Pivots of pivoted QR; pivots with a negligible diagonal entry of R are dropped."""
    # scipy.linalg.qr would copy a block in C order twice, and R once more, although only its diagonal is needed.
    work = np.array(block, order="F")
    (geqp3,) = linalg.get_lapack_funcs(("geqp3",), (work,))
    length = int(geqp3(work, lwork=-1, overwrite_a=True)[3][0])
    R, pivots, *_ = geqp3(work, lwork=length, overwrite_a=True)
    diagonal = np.abs(np.diagonal(R))
    tolerance = max(_PIVOT_TOLERANCE, 10 * float(np.finfo(diagonal.dtype).eps))
    kept = max(1, int(np.count_nonzero(diagonal > tolerance * diagonal[0])))
    return np.asarray(pivots[: min(size, kept)] - 1, dtype=np.intp)
