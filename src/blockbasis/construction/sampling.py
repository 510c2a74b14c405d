"""Sampled rows and columns of the row-submatrix M_i = K(X_i, X) of a cluster.

Energy sampling is the default. Each column is drawn with a probability that follows its energy, and is divided by the
square root of this probability. For the sampled columns B, B Bᵀ is then an unbiased estimate of M_i M_iᵀ, and the
leading left singular vectors of B are close to those of M_i. The paper's Algorithms 1 to 3, which search for columns of
large volume, are in `blockbasis.construction.paper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import column_energies
from blockbasis._utils.tiling import tiles
from blockbasis.kernels.evaluator import CachedKernelMatrix, KernelMatrix, coincidences

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.construction.method import SampleSizes
    from blockbasis.partition import Partition

#: Columns for each unit of rank, for the methods that follow the paper's setting of 2r columns.
PLAIN_COLUMNS_PER_RANK = 2
#: Rows of the cluster and columns of each other cluster whose entries estimate the energy between the two.
_ENERGY_ROWS = 10
_ENERGY_COLUMNS = 20
#: Share of the columns drawn uniformly: the few entries that estimate an energy can miss a few large ones.
_UNIFORM_SHARE = 0.01
#: Random directions beyond the rank in the sketch that estimates leverage scores.
_LEVERAGE_OVERSAMPLING = 10
#: Share of the rows drawn by squared distance from the centre: the basis must be accurate at outlying points too.
_DISTANCE_SHARE = 0.5
#: Columns for each unit of rank below which singular vectors are not resolved.
_MIN_COLUMNS_PER_RANK = 3
#: Largest share of all columns that is sampled for a cluster of isolated points.
_MAX_ISOLATED_SHARE = 0.25


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
    return ColumnSample(columns, np.ones(columns.shape[0]), np.empty(0, dtype=np.intp) if rows is None else rows)


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
    drawn = np.concatenate((_stratified_columns(columns, counts, rng), own))
    inclusion = np.concatenate(
        (np.repeat(probabilities, counts), np.full(len(own), probabilities[i] if own.size else 1))
    )
    order = np.argsort(drawn)
    return ColumnSample(drawn[order], 1 / np.sqrt(inclusion[order]), np.empty(0, dtype=np.intp))


def cluster_energies(matrix: KernelMatrix, cluster: slice, columns: Partition, rng: np.random.Generator) -> FloatArray:
    """Mean squared entry between ``cluster`` and each column cluster, without the entries of points with themselves."""
    size = cluster.stop - cluster.start
    rows = cluster.start + rng.choice(size, min(_ENERGY_ROWS, size), replace=False)
    counts = np.minimum(columns.sizes, _ENERGY_COLUMNS)
    drawn = _stratified_columns(columns, counts, rng)
    squares = matrix.block(rows, drawn).astype(np.float64) ** 2
    counted = np.ones_like(squares)
    if matrix.symmetric:
        counted[rows[:, np.newaxis] == drawn] = 0
    starts = np.cumsum(counts) - counts
    total = np.add.reduceat((squares * counted).sum(axis=0), starts)
    return total / np.maximum(np.add.reduceat(counted.sum(axis=0), starts), 1)


def _stratified_columns(columns: Partition, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """``counts`` columns of each cluster, ascending and without repetition: a stratified sample.

    The points of a cluster are divided into as many strata as columns are drawn from it, and one column is drawn from
    each stratum. The strata differ in size by at most one point and begin at a random point, so that every column of a
    cluster has the same probability. The columns of all clusters are drawn in one call: one call for each cluster would
    be slow when there are many clusters.
    """
    cluster = np.repeat(np.arange(len(counts)), counts)
    stratum = np.arange(len(cluster)) - np.repeat(np.cumsum(counts) - counts, counts)
    sizes, n_strata = columns.sizes[cluster], counts[cluster]
    start, stop = stratum * sizes // n_strata, (stratum + 1) * sizes // n_strata
    position = start + (rng.random(len(cluster)) * (stop - start)).astype(np.intp)
    rotation = (rng.random(len(counts)) * columns.sizes).astype(np.intp)
    return np.sort(columns.starts[cluster] + (position + rotation[cluster]) % sizes)


def _inclusion_probabilities(energies: FloatArray, sizes: IntArray, n_columns: int) -> FloatArray:
    """Probability of the columns of each cluster: proportional to energy, at most one, ``n_columns`` in expectation."""
    largest = float(energies.max())
    # The energies of a cluster far from all others underflow, and all columns get the same weight.
    relative = energies / largest if largest > np.finfo(np.float64).tiny else np.ones_like(energies)
    weights = (1 - _UNIFORM_SHARE) * relative + _UNIFORM_SHARE * float(relative @ sizes) / float(sizes.sum())
    certain = np.zeros(sizes.shape[0], dtype=bool)
    probabilities = np.ones(sizes.shape[0])
    while not certain.all():
        n_uncertain = n_columns - sizes[certain].sum()
        probabilities[~certain] = weights[~certain] * n_uncertain / (weights * sizes)[~certain].sum()
        above_one = ~certain & (probabilities >= 1)
        if not above_one.any():
            break
        certain |= above_one
        probabilities[above_one] = 1
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
    """Approximate leverage of every column of the row-submatrix, for its leading ``rank`` right singular vectors."""
    height = cluster.stop - cluster.start
    width = min(rank + _LEVERAGE_OVERSAMPLING, height)
    sketch = np.empty((width, matrix.shape[1]))
    test_matrix = rng.standard_normal((width, height))
    for tile in tiles(matrix.shape[1], height):
        sketch[:, tile] = test_matrix @ matrix.block(cluster, tile)
    U, _, Vt = np.linalg.svd(sketch, full_matrices=False)
    leading = Vt[: min(rank, U.shape[0])]
    return np.asarray(np.einsum("ij,ij->j", leading, leading))


def every_column(matrix: KernelMatrix) -> ColumnSample:
    """All columns: the exact row-submatrix."""
    return unscaled(np.arange(matrix.shape[1]))


def own_columns(cluster: slice) -> ColumnSample:
    """The columns of the cluster's own points, its diagonal block. MEKA takes its bases from these columns."""
    return unscaled(np.arange(cluster.start, cluster.stop))


# --- sampled rows and columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampledBlock:
    """B = K(rows, columns), scaled so that B Bᵀ estimates the row-submatrix times its transpose.

    Parameters
    ----------
    cluster : slice
    rows, columns : ndarray
        Indices of points.
    scales : ndarray of shape (n_columns,)
        Factors of the columns.
    kernel_block : ndarray of shape (n_rows, n_columns)
        Entries without the factors.
    kernel_diagonal : ndarray of shape (n_rows,)
        k(x, x) of the rows, float64.
    """

    cluster: slice
    rows: IntArray
    columns: IntArray
    scales: FloatArray
    kernel_block: FloatArray
    kernel_diagonal: FloatArray

    @property
    def size(self) -> int:
        """Number of points of the cluster."""
        return int(self.cluster.stop - self.cluster.start)

    @cached_property
    def coincident(self) -> tuple[IntArray, IntArray]:
        """Positions of the entries of a point with itself, as row and column indices of the block."""
        return coincidences(self.rows, self.columns)

    @property
    def own_columns(self) -> FloatArray:
        """Mask of the columns that are points of the cluster."""
        return np.asarray((self.columns >= self.cluster.start) & (self.columns < self.cluster.stop))

    @cached_property
    def column_energies(self) -> FloatArray:
        """Squared norms of the columns of B."""
        return np.asarray(column_energies(self.kernel_block) * self.scales**2)

    def minus_diagonal(self, diagonal: FloatArray) -> FloatArray:
        """B without the diagonal part: that of each row is subtracted from the entry of its point with itself."""
        B: FloatArray = self.kernel_block * self.scales.astype(self.kernel_block.dtype)
        if diagonal.any():
            row, column = self.coincident
            B[row, column] -= diagonal[row] * self.scales[column]
        return B


def sample_block(
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    earlier: SampledBlock | None = None,
) -> SampledBlock:
    """Rows and columns of cluster ``i`` for a basis of the given rank; an earlier block where it is large enough."""
    cluster = partition.cluster(i)
    rows = _sample_rows(matrix, cluster, rank, sizes, rng)
    n_columns, n_isolated = max(sizes.columns * rank, sizes.min_columns), sizes.isolated_columns
    if not isinstance(matrix, CachedKernelMatrix):  # a share of the entries of the matrix, unless the rank needs more
        limit = max(int(sizes.max_column_share * matrix.shape[1]), _MIN_COLUMNS_PER_RANK * rank)
        n_columns = min(n_columns, limit)
        n_isolated = min(n_isolated, max(limit, int(_MAX_ISOLATED_SHARE * matrix.shape[1])))
    if earlier is not None:
        available = min(len(earlier.rows) / len(rows), len(earlier.columns) / n_columns)
        if available >= sizes.reuse_share:
            return earlier
    block = evaluate_block(matrix, cluster, rows, energy_sampling(matrix, cluster, partition, n_columns, rng, rows))
    if n_columns < n_isolated and _isolated(block):
        columns = energy_sampling(matrix, cluster, partition, n_isolated, rng, rows)
        block = evaluate_block(matrix, cluster, rows, columns)
    return block


def evaluate_block(matrix: KernelMatrix, cluster: slice, rows: IntArray, sample: ColumnSample) -> SampledBlock:
    """Evaluate the block of the given rows and columns."""
    factor = np.sqrt((cluster.stop - cluster.start) / len(rows))
    entries = matrix.block(rows, sample.columns)
    kernel_diagonal = matrix.diagonal(cluster)[rows - cluster.start].astype(np.float64)
    return SampledBlock(cluster, rows, sample.columns, sample.scales * factor, entries, kernel_diagonal)


def _sample_rows(
    matrix: KernelMatrix, cluster: slice, rank: int, sizes: SampleSizes, rng: np.random.Generator
) -> IntArray:
    """All rows of a small cluster; a sample of a large one, half of it by distance from the centre."""
    size = cluster.stop - cluster.start
    count = max(sizes.rows * rank, sizes.min_rows)
    if size <= max(2 * count, sizes.all_rows_size):
        return np.arange(cluster.start, cluster.stop)
    points = matrix.rows[cluster]
    squared_distances = np.einsum("ij,ij->i", *[points - points.mean(axis=0, dtype=np.float64)] * 2)
    total = float(squared_distances.sum())
    weights = np.full(size, 1 / size)
    if total > 0:
        weights = (1 - _DISTANCE_SHARE) * weights + _DISTANCE_SHARE * squared_distances / total
    return np.sort(cluster.start + rng.choice(size, count, replace=False, p=weights / weights.sum()))


def _isolated(block: SampledBlock) -> bool:
    """Whether the points of the rows have less energy with all other points than with themselves."""
    row, column = block.coincident
    with_themselves = float(((block.kernel_diagonal[row] * block.scales[column]) ** 2).sum())
    energy = float(block.column_energies.sum())
    return bool(energy - with_themselves < block.size * float(np.mean(block.kernel_diagonal**2)))
