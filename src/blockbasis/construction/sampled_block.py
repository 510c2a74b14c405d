"""Sampled rows and columns of the row-submatrix of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blockbasis._utils.linalg import column_energies
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.method import SampleSizes
from blockbasis.construction.sampling import ColumnSample, energy_sampling
from blockbasis.kernels.evaluator import CachedKernelMatrix, KernelMatrix, coincidences
from blockbasis.partition import Partition

#: Part of the rows drawn by squared distance from the centre: points unlike the others decide how far a basis carries.
_DISTANCE_SHARE = 0.5
#: Columns for each unit of rank below which directions are not told apart.
_LEAST_COLUMNS_PER_RANK = 3
#: Largest share of all columns that a cluster of isolated points samples.
_MOST_LONELY = 0.25


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
    own_entries : ndarray of shape (n_rows,)
        k(x, x) of the rows, float64.
    """

    cluster: slice
    rows: IntArray
    columns: IntArray
    scales: FloatArray
    kernel_block: FloatArray
    own_entries: FloatArray

    @cached_property
    def coincident(self) -> tuple[IntArray, IntArray]:
        """Positions at which a point meets itself."""
        return coincidences(self.rows, self.columns)

    @property
    def own_columns(self) -> FloatArray:
        """Mask of the columns that are points of the cluster."""
        return np.asarray((self.columns >= self.cluster.start) & (self.columns < self.cluster.stop))

    @cached_property
    def column_energies(self) -> FloatArray:
        """Squared norms of the columns of B."""
        return np.asarray(column_energies(self.kernel_block) * self.scales**2)

    def without(self, diagonal: FloatArray) -> FloatArray:
        """B, the diagonal part of each row taken out of its entry with itself."""
        B: FloatArray = self.kernel_block * self.scales.astype(self.kernel_block.dtype)
        if diagonal.any():
            at = self.coincident
            B[at] -= diagonal[at[0]] * self.scales[at[1]]
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
    n_columns, lonely = max(sizes.columns * rank, sizes.least_columns), sizes.lonely_columns
    if not isinstance(matrix, CachedKernelMatrix):  # a share of the entries of the matrix, unless the rank needs more
        most = max(int(sizes.most_columns * matrix.shape[1]), _LEAST_COLUMNS_PER_RANK * rank)
        n_columns, lonely = min(n_columns, most), min(lonely, max(most, int(_MOST_LONELY * matrix.shape[1])))
    if earlier is not None and min(len(earlier.rows) / len(rows), len(earlier.columns) / n_columns) >= sizes.enough:
        return earlier
    columns = energy_sampling(matrix, cluster, partition, n_columns, rng, rows)
    block = evaluate_block(matrix, cluster, rows, columns)
    if n_columns < lonely and _lonely(block):
        columns = energy_sampling(matrix, cluster, partition, lonely, rng, rows)
        block = evaluate_block(matrix, cluster, rows, columns)
    return block


def evaluate_block(matrix: KernelMatrix, cluster: slice, rows: IntArray, columns: ColumnSample) -> SampledBlock:
    """The block of the given rows and columns."""
    factor = np.sqrt((cluster.stop - cluster.start) / len(rows))
    entries = matrix.block(rows, columns.columns)
    own = matrix.diagonal(cluster)[rows - cluster.start].astype(np.float64)
    return SampledBlock(cluster, rows, columns.columns, columns.scales * factor, entries, own)


def _sample_rows(
    matrix: KernelMatrix, cluster: slice, rank: int, sizes: SampleSizes, rng: np.random.Generator
) -> IntArray:
    """All rows of a small cluster; of a large one some, half of them by distance from the centre."""
    size = cluster.stop - cluster.start
    count = max(sizes.rows * rank, sizes.least_rows)
    if size <= max(2 * count, sizes.whole):
        return np.arange(cluster.start, cluster.stop)
    points = matrix.rows[cluster]
    distances = np.einsum("ij,ij->i", *[points - points.mean(axis=0, dtype=np.float64)] * 2)
    total = float(distances.sum())
    chances = np.full(size, 1 / size)
    if total > 0:
        chances = (1 - _DISTANCE_SHARE) * chances + _DISTANCE_SHARE * distances / total
    return np.sort(cluster.start + rng.choice(size, count, replace=False, p=chances / chances.sum()))


def _lonely(block: SampledBlock) -> bool:
    """Whether the rows have less energy with other points than with themselves."""
    at_row, at_column = block.coincident
    own = float(((block.own_entries[at_row] * block.scales[at_column]) ** 2).sum())
    size = block.cluster.stop - block.cluster.start
    return bool(float(block.column_energies.sum()) - own < size * float(np.mean(block.own_entries**2)))
