"""Rows of a basis that determine coordinates in the basis (Proposition 3.2 of the paper), by pivoted QR."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Pivoted QR stops where |R_jj| / |R_11| is smaller than this.
_PIVOT_TOLERANCE = 1e-12
#: Entries of a tile, 1 MB of float64: pivoted QR reads the whole tile for each pivot, so that the tile should fit into
#: the L2 cache of a core. A tile has at least ``_TILE_COLUMNS_PER_PIVOT`` columns for each pivot.
_PIVOTED_ENTRIES = 2**17
_TILE_COLUMNS_PER_PIVOT = 4
#: Candidates of pivoted QR for each row that it chooses; more candidates take more time and give no better rows.
_PIVOT_CANDIDATES_PER_RANK = 8
#: Rows do not determine all coordinates where the diagonal of their triangular factor has a smaller ratio than this.
_SINGULAR = 1e-10


def determining_rows(U: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Rows of U that determine coordinates stably: pivots of QR, and further rows up to ``count``.

    Half of the further rows are drawn uniformly and half by leverage. Uniform rows alone carry no information where
    most points of a cluster are isolated and their rows of U vanish. Rows by leverage alone do not represent the part
    of the kernel that is outside the basis.
    """
    height, rank = U.shape
    if count >= height:
        return np.arange(height)
    leverage = np.einsum("ij,ij->i", U, U, dtype=np.float64)
    candidates = _pivot_candidates(leverage, rank, rng)
    pivots = candidates[important_columns(U[candidates].T, rank)]
    remaining = np.setdiff1d(np.arange(height), pivots, assume_unique=True)
    weights = leverage[remaining]
    weights = weights + (weights.mean() or 1.0)
    drawn = rng.choice(remaining, count - pivots.shape[0], replace=False, p=weights / weights.sum())
    return np.sort(np.concatenate((pivots, drawn)))


def _pivot_candidates(leverage: FloatArray, rank: int, rng: np.random.Generator) -> IntArray:
    """Candidates for pivots: all rows, or a sample by leverage that spans the row space when the rows are many."""
    height = leverage.shape[0]
    count = _PIVOT_CANDIDATES_PER_RANK * rank
    if 2 * count >= height or np.count_nonzero(leverage) <= count:
        return np.arange(height)
    return np.sort(rng.choice(height, count, replace=False, p=leverage / leverage.sum()))


def row_pseudo_inverse(U: FloatArray, rows: IntArray) -> FloatArray:
    """Pseudo-inverse of ``U[rows]``, in float64; the transpose when ``rows`` are all rows of an orthonormal U."""
    selected = U[rows].astype(np.float64)
    if len(selected) == U.shape[0]:
        return selected.T
    if len(selected) < U.shape[1]:
        return np.linalg.pinv(selected)
    Q, R = np.linalg.qr(selected)
    diagonal = np.abs(np.diagonal(R))
    if diagonal.min() <= _SINGULAR * diagonal.max():
        return np.linalg.pinv(selected)
    return np.asarray(linalg.solve_triangular(R, Q.T, check_finite=False))


# --- columns of large volume -----------------------------------------------------------------------------------------


def important_columns(block: FloatArray, count: int) -> IntArray:
    """At most ``count`` columns of large volume, by pivoted QR, in the order of the pivots: see `tournament`."""
    return tournament(lambda tile: block[:, tile], block.shape, count)


def tournament(evaluate: Callable[[slice], FloatArray], shape: tuple[int, int], count: int) -> IntArray:
    """At most ``count`` columns of large volume of a matrix that is evaluated tile by tile.

    A matrix that fits into the cache is one tile, and the result is that of pivoted QR. A wider matrix is divided into
    tiles: the pivots of each tile are chosen independently, and the next round chooses among the pivots of all tiles.
    Tournament pivoting takes one pass over the matrix, and its pivots are rank-revealing.

    Parameters
    ----------
    evaluate : callable
        Takes a range of columns and returns their entries, an array of shape (m, width).
    shape : tuple of int
        Rows m and columns n of the whole matrix.
    count : int

    Returns
    -------
    ndarray
        Indices of the columns, in the order of the pivots of the last round. Columns with a negligible diagonal entry
        of R are dropped.

    References
    ----------
    J. W. Demmel, L. Grigori, M. Gu and H. Xiang, "Communication avoiding rank revealing QR factorization with column
    pivoting", SIAM Journal on Matrix Analysis and Applications 36 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.construction.coordinates import tournament
    >>> M = np.diag([1.0, 3.0, 0.0, 2.0])
    >>> tournament(lambda tile: M[:, tile], M.shape, 2).tolist()
    [1, 3]
    """
    height, length = shape
    if height == 0 or length == 0:
        return np.empty(0, dtype=np.intp)
    width = max(_PIVOTED_ENTRIES // height, _TILE_COLUMNS_PER_PIVOT * count)
    if length <= width:
        return _pivots(evaluate(slice(0, length)), count)
    winners, winning_columns = [], []
    # Tiles of equal width: a narrow one at the end would keep most of its columns.
    edges = np.linspace(0, length, -(-length // width) + 1).astype(np.intp).tolist()
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        tile = evaluate(slice(start, stop))
        pivots = _pivots(tile, count)
        winners.append(start + pivots)
        winning_columns.append(tile[:, pivots])
    return np.concatenate(winners)[important_columns(np.concatenate(winning_columns, axis=1), count)]


def _pivots(block: FloatArray, count: int) -> IntArray:
    """Pivots of pivoted QR; pivots with a negligible diagonal entry of R are dropped."""
    # scipy.linalg.qr would copy a block in C order twice, and R once more, although only its diagonal is needed.
    work = np.array(block, order="F")
    (geqp3,) = linalg.get_lapack_funcs(("geqp3",), (work,))
    length = int(geqp3(work, lwork=-1, overwrite_a=True)[3][0])
    R, pivots, *_ = geqp3(work, lwork=length, overwrite_a=True)
    diagonal = np.abs(np.diagonal(R))
    tolerance = max(_PIVOT_TOLERANCE, 10 * float(np.finfo(diagonal.dtype).eps))
    effective_rank = max(1, int(np.count_nonzero(diagonal > tolerance * diagonal[0])))
    return np.asarray(pivots[: min(count, effective_rank)] - 1, dtype=np.intp)
