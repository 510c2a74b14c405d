"""A cluster's columns: which columns of its row-submatrix M_i = K(X_i, X) span what the cluster sees.

Energy sampling is the default: with each column taken with a probability that follows its energy and divided by the
square root of it, B Bᵀ is an unbiased estimate of M_i M_iᵀ, so the leading left singular vectors of B are nearly
those of M_i. Algorithms 1, 2 and 3 are the paper's (section 3.2.2): they look for columns of large volume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._typing import FloatArray, Index, IntArray
from blockbasis.matrix import KernelMatrix, tiles
from blockbasis.partition import Partition

#: Columns drawn per unit of rank: by energy, and by the methods that follow the paper's Nyström setting of 2r.
ENERGY_COLUMNS_PER_RANK = 40
PLAIN_COLUMNS_PER_RANK = 2

#: Rows of the cluster and columns of each other cluster that estimate the energy between the two.
_ENERGY_ROWS = 10
_ENERGY_COLUMNS = 20
#: Part of the columns drawn uniformly: so few samples can miss a cluster that holds a few large entries.
_UNIFORM_SHARE = 0.01

#: Rows that tell whether a cluster's points have neighbours, and the columns drawn when they have few.
_WHOLE_ROWS = 8
_ATTENTIVE_COLUMNS = 8192

#: The paper's setting of Algorithm 1, and where its pivoted QR stops: |R_jj| against |R_11|.
SAMPLING_ITERATIONS = 2
_PIVOT_TOLERANCE = 1e-12

#: Entries of a tile that pivoted QR takes at once, 1 MB of float64: it goes over all of them for each pivot, several
#: times slower from memory than from a core's L2 cache. A tile has at least so many columns for each one it keeps.
_PIVOTED_ENTRIES = 2**17
_TILE_COLUMNS_PER_PIVOT = 4

_LEVERAGE_OVERSAMPLING = 10


@dataclass(frozen=True)
class Skeleton:
    """Columns sampled for one cluster.

    Parameters
    ----------
    columns : ndarray of shape (t,)
        Column indices in cluster order, each once.
    scales : ndarray of shape (t,)
        What each column is multiplied by before a basis is taken.
    rows : ndarray, may be empty
        Important rows, counted inside the cluster (the paper's Pi_r).
    """

    columns: IntArray
    scales: FloatArray
    rows: IntArray


def _unscaled(columns: IntArray, rows: IntArray | None = None) -> Skeleton:
    empty = np.empty(0, dtype=np.intp)
    return Skeleton(columns, np.ones(columns.shape[0]), empty if rows is None else rows)


# --- energy sampling -------------------------------------------------------------------------------------------------


def energy_sampling(
    matrix: KernelMatrix, cluster: slice, columns: Partition, n_columns: int, rng: np.random.Generator
) -> Skeleton:
    """About ``n_columns`` columns, each cluster's share following the energy that ``cluster`` sees in it."""
    if n_columns >= matrix.shape[1]:
        return every_column(matrix)
    energies = _cluster_energies(matrix, cluster, columns, rng)
    probabilities = _inclusion_probabilities(energies, columns.sizes, n_columns)
    expected = columns.sizes * probabilities
    counts = np.minimum((expected + rng.random(len(expected))).astype(np.intp), columns.sizes)
    scales = np.repeat(1 / np.sqrt(probabilities), counts)
    return Skeleton(_one_of_each_part(columns, counts, rng), scales, np.empty(0, dtype=np.intp))


def attentive_sampling(
    matrix: KernelMatrix, cluster: slice, columns: Partition, n_columns: int, rng: np.random.Generator
) -> Skeleton:
    """Energy sampling, with far more columns where neighbours are so few that a sample would miss them.

    A few whole rows tell how much there is besides the diagonal. Where that is less than the diagonal itself, it may
    all come from a few pairs of near points.
    """
    picked = rng.choice(cluster.stop - cluster.start, _at_most(_WHOLE_ROWS, cluster), replace=False)
    rows = np.sort(cluster.start + picked)
    block = matrix.block(rows, slice(0, matrix.shape[1])).astype(np.float64)
    block[np.arange(len(rows)), rows] = 0
    own = matrix.diagonal(cluster)[np.sort(picked)].astype(np.float64)
    if float((block**2).sum()) < float((own**2).sum()):
        n_columns = max(n_columns, _ATTENTIVE_COLUMNS)
    return energy_sampling(matrix, cluster, columns, n_columns, rng)


def _cluster_energies(matrix: KernelMatrix, cluster: slice, columns: Partition, rng: np.random.Generator) -> FloatArray:
    """Mean squared entry between ``cluster`` and each column cluster, each point's own entry left out."""
    rows = cluster.start + rng.choice(cluster.stop - cluster.start, _at_most(_ENERGY_ROWS, cluster), replace=False)
    counts = np.minimum(columns.sizes, _ENERGY_COLUMNS)
    picked = _one_of_each_part(columns, counts, rng)
    squares = matrix.block(rows, picked).astype(np.float64) ** 2
    counted = np.ones_like(squares)
    if matrix.symmetric:
        counted[rows[:, np.newaxis] == picked] = 0
    starts = np.cumsum(counts) - counts
    total = np.add.reduceat((squares * counted).sum(axis=0), starts)
    return total / np.maximum(np.add.reduceat(counted.sum(axis=0), starts), 1)


def _one_of_each_part(columns: Partition, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """So many columns of each cluster, ascending: one from each of as many parts of its points, none twice.

    The parts differ by a point in size, but begin at a random one: every column of a cluster has the same chance. For
    all clusters at once, since a call for each of them would be most of the work where they are many.
    """
    each = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
    sizes, parts = columns.sizes[each], counts[each]
    first, after = part * sizes // parts, (part + 1) * sizes // parts
    place = first + (rng.random(len(each)) * (after - first)).astype(np.intp)
    turn = (rng.random(len(counts)) * columns.sizes).astype(np.intp)
    return np.sort(columns.starts[each] + (place + turn[each]) % sizes)


def _inclusion_probabilities(energies: FloatArray, sizes: IntArray, n_columns: int) -> FloatArray:
    """Probability of a column of each cluster: as its energy, at most one, ``n_columns`` expected in all."""
    largest = float(energies.max())
    # A cluster far from all others sees energies that have all but underflowed: nothing to choose by.
    relative = energies / largest if largest > np.finfo(np.float64).tiny else np.ones_like(energies)
    weights = (1 - _UNIFORM_SHARE) * relative + _UNIFORM_SHARE * float(relative @ sizes) / float(sizes.sum())
    certain = np.zeros(sizes.shape[0], dtype=bool)
    probabilities = np.ones(sizes.shape[0])
    while not certain.all():
        left = n_columns - sizes[certain].sum()
        probabilities[~certain] = weights[~certain] * left / (weights * sizes)[~certain].sum()
        over = ~certain & (probabilities >= 1)
        if not over.any():
            break
        certain |= over
        probabilities[over] = 1
    return probabilities


# --- plain sampling --------------------------------------------------------------------------------------------------


def uniform_sampling(matrix: KernelMatrix, n_columns: int, rng: np.random.Generator) -> Skeleton:
    """Columns drawn uniformly, without replacement."""
    available = matrix.shape[1]
    return _unscaled(np.sort(rng.choice(available, min(n_columns, available), replace=False)))


def leverage_sampling(
    matrix: KernelMatrix, cluster: slice, rank: int, n_columns: int, rng: np.random.Generator
) -> Skeleton:
    """Columns drawn with replacement by their leverage scores for the leading ``rank`` directions.

    The scores are those of a Gaussian sketch of the row space, after Drineas, Magdon-Ismail, Mahoney and Woodruff,
    "Fast approximation of matrix coherence and statistical leverage" (2012). One pass over the whole row-submatrix:
    quadratic in the number of points, as in the paper's comparison.
    """
    scores = leverage_scores(matrix, cluster, rank, rng)
    drawn = rng.choice(matrix.shape[1], n_columns, replace=True, p=scores / scores.sum())
    columns, counts = np.unique(drawn, return_counts=True)
    scales = np.sqrt(counts * scores.sum() / (n_columns * scores[columns]))
    return Skeleton(columns, scales, np.empty(0, dtype=np.intp))


def leverage_scores(matrix: KernelMatrix, cluster: slice, rank: int, rng: np.random.Generator) -> FloatArray:
    """Approximate leverage of every column of the row-submatrix, for its leading ``rank`` right directions."""
    height = cluster.stop - cluster.start
    width = min(rank + _LEVERAGE_OVERSAMPLING, height)
    sketch = np.empty((width, matrix.shape[1]))
    test = rng.standard_normal((width, height))
    for tile in tiles(matrix.shape[1], height):
        sketch[:, tile] = test @ matrix.block(cluster, tile)
    left, _, right = np.linalg.svd(sketch, full_matrices=False)
    leading = right[: min(rank, left.shape[0])]
    return np.asarray(np.einsum("ij,ij->j", leading, leading))


def every_column(matrix: KernelMatrix) -> Skeleton:
    """All columns: the exact row-submatrix."""
    return _unscaled(np.arange(matrix.shape[1]))


def own_columns(cluster: slice) -> Skeleton:
    """The cluster's own columns, its diagonal block: what MEKA takes its bases from."""
    return _unscaled(np.arange(cluster.start, cluster.stop))


# --- the paper's Algorithms 1, 2 and 3 -------------------------------------------------------------------------------


def randomized_sampling(
    matrix: KernelMatrix,
    cluster: slice,
    rank: int,
    rng: np.random.Generator,
    *,
    iterations: int = SAMPLING_ITERATIONS,
    candidates: IntArray | None = None,
) -> Skeleton:
    """Algorithm 1: important columns and rows, each by pivoted QR restricted to the other.

    Iteration s pivots s * rank columns (the paper's sets grow to q r), drops those whose diagonal entry of R is
    negligible, and the loop ends early once the pivots stay as they were.

    Parameters
    ----------
    matrix : KernelMatrix
    cluster : slice
        Rows of the row-submatrix.
    rank : int
        Rows and columns that each iteration adds.
    rng : Generator
    iterations : int, default=2
        The paper's q.
    candidates : ndarray, default=None
        Columns to choose among (Algorithm 3's pool); None is all of them (Algorithm 2).
    """
    available = matrix.shape[1] if candidates is None else len(candidates)
    height = cluster.stop - cluster.start
    rows = np.empty(0, dtype=np.intp)
    columns = rows
    before: IntArray | None = None
    for iteration in range(1, iterations + 1):
        size = iteration * rank
        rows = np.union1d(rows, rng.choice(height, min(rank, height), replace=False))
        pivots = _important_columns_of(matrix, cluster.start + rows, candidates, size)
        drawn = rng.choice(available, min(rank, available), replace=False)
        columns = np.union1d(pivots, drawn)
        rows = _important_rows_of(matrix, cluster, columns if candidates is None else candidates[columns], size)
        if before is not None and np.array_equal(np.sort(pivots), before):
            break
        before = np.sort(pivots)
    return _unscaled(columns if candidates is None else candidates[columns], np.sort(rows))


def _important_columns_of(matrix: KernelMatrix, rows: IntArray, candidates: IntArray | None, size: int) -> IntArray:
    """Pivots among the candidates (None is all columns), seen on some rows; entries are evaluated tile by tile."""

    def evaluate(tile: slice) -> FloatArray:
        columns: Index = tile if candidates is None else candidates[tile]
        return matrix.block(rows, columns)

    available = matrix.shape[1] if candidates is None else len(candidates)
    return tournament(evaluate, (len(rows), available), size)


def _important_rows_of(matrix: KernelMatrix, cluster: slice, columns: IntArray, size: int) -> IntArray:
    """Pivots among a cluster's rows, counted inside it and seen on some columns: pivoted LQ, tile by tile."""

    def evaluate(tile: slice) -> FloatArray:
        return matrix.block(slice(cluster.start + tile.start, cluster.start + tile.stop), columns).T

    return tournament(evaluate, (len(columns), cluster.stop - cluster.start), size)


def pool_of_cluster(matrix: KernelMatrix, cluster: slice, rank: int, rng: np.random.Generator) -> IntArray:
    """First loop of Algorithm 3: the cluster's points that matter to ``rank`` random columns.

    The pools of all clusters together are the candidates of the second loop, which is Algorithm 1 on them.
    """
    available = matrix.shape[1]
    drawn = rng.choice(available, min(rank, available), replace=False)
    return np.asarray(cluster.start + np.sort(_important_rows_of(matrix, cluster, drawn, rank)))


# --- columns of large volume -----------------------------------------------------------------------------------------


def important_columns(block: FloatArray, size: int) -> IntArray:
    """At most ``size`` columns of large volume: pivoted QR, cut where the diagonal of R is negligible.

    Parameters
    ----------
    block : ndarray of shape (m, n)
    size : int

    Returns
    -------
    ndarray
        Indices of the columns, in the order of the pivots; `tournament` says how they are found in a wide block.
    """
    return tournament(lambda tile: block[:, tile], block.shape, size)


def tournament(evaluate: Callable[[slice], FloatArray], shape: tuple[int, int], size: int) -> IntArray:
    """At most ``size`` columns of large volume of a matrix that is given tile by tile.

    A matrix that fits in the cache is one tile, and the result is that of pivoted QR. Of a wider one each tile's
    pivots are found by themselves, and the pivots of all tiles stand for the matrix in the next round. This is the
    tournament pivoting of Demmel, Grigori, Gu and Xiang, "Communication avoiding rank revealing QR factorization with
    column pivoting" (2015): one pass over the matrix, whose pivots reveal the rank as those of pivoted QR do.

    Parameters
    ----------
    evaluate : callable
        From a range of columns to their entries, an array of shape (m, width).
    shape : tuple of int
        Rows m and columns n of the whole matrix.
    size : int

    Returns
    -------
    ndarray
        Indices of the columns, in the order of the last round's pivots.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.sampling import tournament
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
    """Pivots of a plain pivoted QR, cut where the diagonal of R is negligible."""
    # SciPy's qr would copy a block in C order twice, and R once more, of which only the diagonal is looked at.
    work = np.array(block, order="F")
    (geqp3,) = linalg.get_lapack_funcs(("geqp3",), (work,))
    length = int(geqp3(work, lwork=-1, overwrite_a=True)[3][0])
    R, pivots, *_ = geqp3(work, lwork=length, overwrite_a=True)
    diagonal = np.abs(np.diagonal(R))
    tolerance = max(_PIVOT_TOLERANCE, 10 * float(np.finfo(diagonal.dtype).eps))
    kept = max(1, int(np.count_nonzero(diagonal > tolerance * diagonal[0])))
    return np.asarray(pivots[: min(size, kept)] - 1, dtype=np.intp)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _at_most(limit: int, cluster: slice) -> int:
    return min(limit, int(cluster.stop - cluster.start))
