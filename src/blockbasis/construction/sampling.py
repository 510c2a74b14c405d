"""Columns of the row-submatrix M_i = K(X_i, X) of a cluster that represent its column space.

Energy sampling is the default. Each column is taken with a probability that follows its energy, and is divided by the
square root of this probability. B Bᵀ is then an unbiased estimate of M_i M_iᵀ for the sampled columns B, and the
leading left singular vectors of B are close to those of M_i. The paper's Algorithms 1 to 3, which search for columns of
large volume, are in `blockbasis.construction.paper`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import Partition

#: Columns for each unit of rank, for the methods that follow the paper's setting of 2r columns.
PLAIN_COLUMNS_PER_RANK = 2

#: Rows of the cluster and columns of each other cluster that estimate the energy between the two.
_ENERGY_ROWS = 10
_ENERGY_COLUMNS = 20
#: Share of the columns drawn uniformly: the few entries that estimate an energy can miss a few large ones.
_UNIFORM_SHARE = 0.01

_LEVERAGE_OVERSAMPLING = 10


@dataclass(frozen=True)
class ColumnSample:
    """Columns sampled for one cluster.

    Parameters
    ----------
    columns : ndarray of shape (t,)
        Column indices in cluster order, each once.
    scales : ndarray of shape (t,)
        Factor of each column.
    rows : ndarray, may be empty
        Important rows, counted inside the cluster (the paper's Pi_r).
    """

    columns: IntArray
    scales: FloatArray
    rows: IntArray


def unscaled(columns: IntArray, rows: IntArray | None = None) -> ColumnSample:
    """Columns with factors of one, and the important rows where they are known."""
    empty = np.empty(0, dtype=np.intp)
    return ColumnSample(columns, np.ones(columns.shape[0]), empty if rows is None else rows)


# --- energy sampling -------------------------------------------------------------------------------------------------


def energy_sampling(
    matrix: KernelMatrix,
    cluster: slice,
    columns: Partition,
    n_columns: int,
    rng: np.random.Generator,
    rows: IntArray | None = None,
) -> ColumnSample:
    """About ``n_columns`` columns; the share of a column cluster follows its energy with ``cluster``.

    Parameters
    ----------
    matrix : KernelMatrix
    cluster : slice
        Rows of the row-submatrix.
    columns : Partition
        Clusters of the columns.
    n_columns : int
    rng : Generator
    rows : ndarray, default=None
        Sampled rows of the cluster. The columns of the cluster itself are then drawn among these rows, so that the
        diagonal part of each such column is known.
    """
    if n_columns >= matrix.shape[1] and (rows is None or len(rows) == cluster.stop - cluster.start):
        return every_column(matrix)
    energies = cluster_energies(matrix, cluster, columns, rng)
    probabilities = _inclusion_probabilities(energies, columns.sizes, min(n_columns, matrix.shape[1]))
    expected = columns.sizes * probabilities
    counts = np.minimum((expected + rng.random(len(expected))).astype(np.intp), columns.sizes)
    own = np.empty(0, dtype=np.intp)
    if rows is not None:
        i = int(np.searchsorted(columns.starts, cluster.start, side="right")) - 1
        own = rows if counts[i] >= len(rows) else rng.choice(rows, counts[i], replace=False)
        probabilities[i] = max(len(own), 1) / columns.sizes[i]
        counts[i] = 0
    chosen = np.concatenate((_one_of_each_part(columns, counts, rng), own))
    scales = np.concatenate((np.repeat(probabilities, counts), np.full(len(own), probabilities[i] if own.size else 1)))
    order = np.argsort(chosen)
    return ColumnSample(chosen[order], 1 / np.sqrt(scales[order]), np.empty(0, dtype=np.intp))


def cluster_energies(matrix: KernelMatrix, cluster: slice, columns: Partition, rng: np.random.Generator) -> FloatArray:
    """Mean squared entry between ``cluster`` and each column cluster, without the entries of points with themselves."""
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
    """``counts`` columns of each cluster, ascending and without repetition: a stratified sample.

    The points of a cluster are divided into as many parts as columns are wanted, and one column is drawn from each
    part. The parts differ in size by at most one point and begin at a random point, so that every column of a cluster
    has the same probability. The columns of all clusters are drawn at once: one call for each cluster would be slow
    when there are many.
    """
    each = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
    sizes, parts = columns.sizes[each], counts[each]
    first, after = part * sizes // parts, (part + 1) * sizes // parts
    place = first + (rng.random(len(each)) * (after - first)).astype(np.intp)
    turn = (rng.random(len(counts)) * columns.sizes).astype(np.intp)
    return np.sort(columns.starts[each] + (place + turn[each]) % sizes)


def _inclusion_probabilities(energies: FloatArray, sizes: IntArray, n_columns: int) -> FloatArray:
    """Probability of the columns of each cluster: proportional to energy, at most one, ``n_columns`` in expectation."""
    largest = float(energies.max())
    # The energies of a cluster far from all others underflow, and all columns get the same weight.
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


def uniform_sampling(matrix: KernelMatrix, n_columns: int, rng: np.random.Generator) -> ColumnSample:
    """Columns drawn uniformly, without replacement."""
    available = matrix.shape[1]
    return unscaled(np.sort(rng.choice(available, min(n_columns, available), replace=False)))


def leverage_sampling(
    matrix: KernelMatrix, cluster: slice, rank: int, n_columns: int, rng: np.random.Generator
) -> ColumnSample:
    """Columns drawn with replacement by their leverage scores for the leading ``rank`` directions.

    The scores are those of a Gaussian sketch of the row space, after Drineas, Magdon-Ismail, Mahoney and Woodruff,
    "Fast approximation of matrix coherence and statistical leverage" (2012). The sketch takes one pass over the whole
    row-submatrix, so that the cost is quadratic in the number of points, as in the paper's comparison.
    """
    scores = leverage_scores(matrix, cluster, rank, rng)
    drawn = rng.choice(matrix.shape[1], n_columns, replace=True, p=scores / scores.sum())
    columns, counts = np.unique(drawn, return_counts=True)
    scales = np.sqrt(counts * scores.sum() / (n_columns * scores[columns]))
    return ColumnSample(columns, scales, np.empty(0, dtype=np.intp))


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


def every_column(matrix: KernelMatrix) -> ColumnSample:
    """All columns: the exact row-submatrix."""
    return unscaled(np.arange(matrix.shape[1]))


def own_columns(cluster: slice) -> ColumnSample:
    """The columns of the cluster's own points, its diagonal block. MEKA takes its bases from these columns."""
    return unscaled(np.arange(cluster.start, cluster.stop))


# --- helpers ---------------------------------------------------------------------------------------------------------


def _at_most(limit: int, cluster: slice) -> int:
    return min(limit, int(cluster.stop - cluster.start))
