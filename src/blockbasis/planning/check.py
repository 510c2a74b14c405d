"""Check of a draft against exact kernel entries, at a cost that does not depend on n.

The checked points are a stratified sample from all clusters, with more points where the expected error is larger. The
exact entries between all checked points are evaluated. Each entry is weighted by the number of entries of the matrix
that it represents, which gives unbiased estimates of the squared error and the squared norm of the whole matrix. Bases
are nested, so that the same entries give the error of all smaller ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import offsets
from blockbasis.construction.diagonal import limit_rows
from blockbasis.construction.inner_matrix import smallest_within
from blockbasis.kernels.evaluator import CachedKernelMatrix, KernelMatrix
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.planning.goal import n_checked

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.construction.pipeline import Draft
    from blockbasis.operators.inner import InnerMatrix
    from blockbasis.partition import Partition

#: Least number of checked points of each cluster.
_MIN_POINTS_PER_CLUSTER = 2
#: Share of the points of a cluster in the stratum far from its centre, share of its checked points in this stratum,
#: and the least number of these.
_FAR_SHARE = 0.1
_FAR_CHECKED_SHARE = 0.35
_MIN_STRATUM = 4
#: Least number of checked points of a strip: its entries mostly stay in a core's cache.
_STRIP_WIDTH = 128
#: Relative precision of a squared spectral norm, and the safety factor of a norm estimated from a sample of points.
_SPECTRAL_PRECISION = 1e-4
_SPECTRAL_MARGIN = 1.1
#: Largest factor by which the predicted error of a cluster is corrected, relative to the other clusters.
_MAX_CORRECTION = 2.0


@dataclass(frozen=True)
class Measured:
    """Squared error and squared norm of the whole matrix, estimated from the checked points.

    Parameters
    ----------
    error, norm : float
    stderr : float
        Standard error of ``error``.
    per_cluster : ndarray of shape (n_clusters,)
        Squared error in the rows of each cluster.
    exact : bool
        Whether all points are checked.
    spectral : float
        Squared spectral norm of the error; infinite where it was not computed.
    """

    error: float
    norm: float
    stderr: float
    per_cluster: FloatArray
    exact: bool
    spectral: float = math.inf

    def upper(self, standard_errors: float) -> float:
        """Upper bound of the squared error, this many standard errors above the estimate."""
        return self.error + standard_errors * self.stderr

    def relative(self) -> ErrorEstimate:
        """Relative error with its standard error."""
        if self.norm <= 0:
            return ErrorEstimate(0.0, 0.0, self.exact)
        value = math.sqrt(max(self.error, 0.0) / self.norm)
        return ErrorEstimate(value, self.stderr / (2 * value * self.norm) if value else 0.0, self.exact)


def corrections(predicted: FloatArray, measured: Measured) -> FloatArray:
    """Measured over predicted error of each cluster, relative to that of the other clusters, within limits."""
    positive = (predicted > 0) & (measured.per_cluster > 0)
    factors = np.ones(len(predicted))
    if positive.any():
        ratios = np.log(measured.per_cluster[positive]) - np.log(predicted[positive])
        limit = math.log(_MAX_CORRECTION)
        factors[positive] = np.exp(np.clip(ratios - np.median(ratios), -limit, limit))
    return factors


@dataclass(frozen=True)
class Strip:
    """Exact entries on and above the diagonal, in the columns of the checked points of consecutive clusters.

    Parameters
    ----------
    clusters : slice
        Range of clusters.
    columns : slice
        Range of their checked points.
    exact : ndarray of shape (columns.stop, n_columns)
    weights : ndarray of shape (n_columns, n_columns)
        Number of pairs of points that each pair of these checked points represents.
    """

    clusters: slice
    columns: slice
    exact: FloatArray
    weights: FloatArray


class HeldOutCheck:
    """Exact entries between checked points, and the error of drafts on these entries.

    Parameters
    ----------
    matrix : KernelMatrix
    partition : Partition
    expected : ndarray of shape (n_clusters,)
        Squared error expected of each cluster.
    rng : Generator
    count : int, default=None
        Number of checked points; None selects all points where their entries are cached, and `n_checked` otherwise.
    """

    def __init__(
        self,
        matrix: KernelMatrix,
        partition: Partition,
        expected: FloatArray,
        rng: np.random.Generator,
        count: int | None = None,
    ) -> None:
        self.partition = partition
        if count is None:
            n = partition.n_points
            count = n if isinstance(matrix, CachedKernelMatrix) else n_checked(n)  # cached entries cost nothing
        strata = _draw_strata(matrix, partition, expected, count, rng)
        self.points = [np.concatenate([stratum.points for stratum in own]) for own in strata]
        self.strata = [stratum for own in strata for stratum in own]
        self.exact = all(stratum.size == len(stratum.points) for stratum in self.strata)
        self.blocks = _consecutive([len(own) for own in self.points])
        diagonals = [matrix.diagonal(c)[p - c.start] for c, p in zip(partition.clusters, self.points, strict=True)]
        self.kernel_diagonal = np.concatenate(diagonals).astype(np.float64)
        counts = [len(stratum.points) for stratum in self.strata]
        self.row_weights = np.repeat([stratum.size / len(stratum.points) for stratum in self.strata], counts)
        self._rounded_weights = self.row_weights.astype(matrix.dtype)
        self.strips = self._evaluated_strips(matrix)
        self.norm = float(self._weighted_rows(np.square(strip.exact) for strip in self.strips).sum())

    def _evaluated_strips(self, matrix: KernelMatrix) -> list[Strip]:
        """Exact entries on and above the diagonal, in strips of whole clusters."""
        points = np.concatenate(self.points)
        positions = _consecutive([len(stratum.points) for stratum in self.strata])
        strips = []
        for clusters in _groups([len(own) for own in self.points], _STRIP_WIDTH):
            columns = slice(self.blocks[clusters.start].start, self.blocks[clusters.stop - 1].stop)
            exact = matrix.block(points[: columns.stop], points[columns])
            np.fill_diagonal(exact[columns], self.kernel_diagonal[columns])
            members = [
                (stratum, own)
                for stratum, own in zip(self.strata, positions, strict=True)
                if columns.start <= own.start < columns.stop
            ]
            weights = _pair_weights(members, self._rounded_weights[columns], columns.start)
            strips.append(Strip(clusters, columns, exact, weights))
        return strips

    def _weighted_rows(self, squares: Iterable[FloatArray]) -> FloatArray:
        """Row sums of a symmetric matrix given by strips, each entry weighted by the number of pairs it represents."""
        weights, totals = self._rounded_weights, np.zeros(len(self.row_weights))
        for strip, entries in zip(self.strips, squares, strict=True):
            own, above = strip.columns, slice(0, strip.columns.start)
            totals[above] += weights[above] * (entries[above] @ weights[own])
            totals[own] += weights[own] * (weights[above] @ entries[above])
            totals[own] += np.einsum("ij,ij->i", entries[own], strip.weights)
        return totals

    def with_missed_pairs(self, kept: NDArray[np.bool_], budget: float) -> NDArray[np.bool_]:
        """Mask of the pairs of clusters to keep: the given ones, and those of too much energy at the checked points.

        The few sampled entries by which pairs were dropped can miss rare large entries, and higher ranks would not
        reduce the error of a dropped block. The energy of all dropped blocks is at most ``budget``.
        """
        if kept.all():
            return kept
        starts = [block.start for block in self.blocks]
        energies = np.zeros(kept.shape)
        for strip in self.strips:
            squares = np.square(strip.exact) * self._rounded_weights[: strip.columns.stop, np.newaxis]
            squares *= self._rounded_weights[strip.columns]
            column_starts = [start - strip.columns.start for start in starts[strip.clusters]]
            rows = np.add.reduceat(squares, starts[: strip.clusters.stop], axis=0, dtype=np.float64)
            energies[: strip.clusters.stop, strip.clusters] = 2 * np.add.reduceat(rows, column_starts, axis=1)
        i, j = np.nonzero(np.triu(~kept, 1))
        dropped, _ = smallest_within(energies[i, j], budget)
        result = np.ones_like(kept)
        result[i[dropped], j[dropped]] = result[j[dropped], i[dropped]] = False
        return result

    def evaluate(self, matrix: KernelMatrix, draft: Draft, n_jobs: int) -> list[FloatArray]:
        """Basis functions of every cluster at its checked points."""

        def values(i: int) -> FloatArray:
            basis = draft.bases[i]
            if basis.vectors is not None:
                return np.asarray(basis.vectors[self.points[i] - basis.cluster.start], dtype=np.float64)
            return basis.evaluate(matrix, self.points[i])

        return map_threads(values, [(i,) for i in range(self.partition.n_clusters)], n_jobs, "check")

    def measure(
        self, draft: Draft, values: list[FloatArray], ranks: IntArray, *, diagonal: bool, spectral: bool = False
    ) -> Measured:
        """Error of a draft truncated to the given ranks."""
        strips = self._errors(draft, values, ranks, diagonal=diagonal)
        largest = math.inf
        if spectral:
            errors = [error.copy() for error in strips]
            largest, strips = self._spectral_norm(errors), iter(errors)
        rows = self._weighted_rows(np.multiply(error, error, out=error) for error in strips)
        variance = 0.0
        positions = _consecutive([len(stratum.points) for stratum in self.strata])
        for stratum, own in zip(self.strata, positions, strict=True):
            count = len(stratum.points)
            if 1 < count < stratum.size:  # a checked point contributes a row and a column
                variance += count * float(np.var(2 * rows[own], ddof=1)) * (1 - count / stratum.size)
        per_cluster = np.add.reduceat(rows, [block.start for block in self.blocks])
        return Measured(float(rows.sum()), self.norm, math.sqrt(variance), per_cluster, self.exact, largest)

    def _errors(
        self, draft: Draft, values: list[FloatArray], ranks: IntArray, *, diagonal: bool
    ) -> Iterator[FloatArray]:
        """Strips of the error; each is valid until the next one is computed."""
        inner, limited = draft.inner, []
        for i, (functions, block) in enumerate(zip(values, self.blocks, strict=True)):
            leading = functions[:, : ranks[i]].copy()  # limited in place
            if draft.bases[i].vectors is None:
                limit_rows(leading, inner.block(i, i)[: ranks[i], : ranks[i]], self.kernel_diagonal[block])
            limited.append(leading.astype(self.strips[0].exact.dtype, copy=False))
        products = _leading_products(inner, ranks, limited)
        starts = offsets(ranks)
        scratch = np.empty(max(strip.exact.size for strip in self.strips), dtype=products.dtype)
        for strip in self.strips:
            error = scratch[: strip.exact.size].reshape(strip.exact.shape)
            np.copyto(error, strip.exact)
            first = strip.columns.start
            for j in range(strip.clusters.start, strip.clusters.stop):
                block, own = self.blocks[j], slice(self.blocks[j].start - first, self.blocks[j].stop - first)
                error[: block.stop, own] -= products[: block.stop, starts[j] : starts[j + 1]] @ limited[j].T
                error[block, : own.start] = error[first : block.start, own].T
            if diagonal:  # D makes the diagonal exact, except where that of U C Uᵀ exceeds it: D is not negative
                own_errors = np.einsum("ii->i", error[strip.columns])
                np.minimum(own_errors, 0, out=own_errors)
            yield error

    def _spectral_norm(self, errors: list[FloatArray]) -> float:
        """Squared spectral norm of the error; an estimate from a sample of points is too large on average."""
        scaled = np.empty((len(self.row_weights),) * 2)
        for strip, error in zip(self.strips, errors, strict=True):
            scaled[: strip.columns.stop, strip.columns] = error
            scaled[strip.columns, : strip.columns.start] = error[: strip.columns.start].T
        scaled *= np.sqrt(np.outer(self.row_weights, self.row_weights))
        if not scaled.any():
            return 0.0
        if len(scaled) < 3:
            return float(np.linalg.norm(scaled, 2)) ** 2
        start = np.sqrt(self.row_weights)
        (largest,) = eigsh(scaled, 1, which="LM", tol=_SPECTRAL_PRECISION, v0=start, return_eigenvectors=False)
        return float(largest) ** 2 * (1.0 if self.exact else _SPECTRAL_MARGIN)


def _leading_products(inner: InnerMatrix, ranks: IntArray, values: list[FloatArray]) -> FloatArray:
    """Y C in the leading coordinates, from the blocks of C on and above the diagonal."""
    starts = inner.row_offsets[:-1]
    kept = np.zeros(inner.shape[0], dtype=bool)
    for start, rank in zip(starts, ranks, strict=True):
        kept[start : start + rank] = True
    position = np.cumsum(kept) - 1
    result = np.zeros((sum(len(own) for own in values), int(ranks.sum())), dtype=values[0].dtype)
    top = 0
    for i, own in enumerate(values):
        columns = np.arange(inner.shape[1])[inner.columns_of(i)]
        leading = kept[columns]
        panel = inner.row_panel(i)[: ranks[i], leading].astype(own.dtype, copy=False)
        result[top : top + len(own), position[columns[leading]]] = own @ panel
        top += len(own)
    return result


@dataclass(frozen=True)
class Stratum:
    """Checked points, drawn uniformly from ``size`` points of one cluster."""

    points: IntArray
    size: int


def _draw_strata(
    matrix: KernelMatrix, partition: Partition, expected: FloatArray, total: int, rng: np.random.Generator
) -> list[list[Stratum]]:
    """Strata of every cluster; half of the checked points in proportion to its size, half by its expected error."""
    n, sizes = partition.n_points, partition.sizes
    if total >= n:
        return [[Stratum(np.arange(c.start, c.stop), c.stop - c.start)] for c in partition.clusters]
    by_error = np.sqrt(sizes * np.maximum(expected, 0))
    share = sizes / n / 2 + (by_error / by_error.sum() / 2 if by_error.sum() > 0 else sizes / n / 2)
    counts = np.minimum(np.maximum(np.rint(total * share).astype(np.intp), _MIN_POINTS_PER_CLUSTER), sizes)
    return [
        _strata(matrix, cluster, int(count), rng) for cluster, count in zip(partition.clusters, counts, strict=True)
    ]


def _strata(matrix: KernelMatrix, cluster: slice, count: int, rng: np.random.Generator) -> list[Stratum]:
    """Strata of a cluster: near its centre, and far from it, where few points can have much of the error."""
    size = cluster.stop - cluster.start
    far = int(_FAR_SHARE * size)
    n_far = min(int(_FAR_CHECKED_SHARE * count), far)
    if n_far < _MIN_STRATUM:
        return [Stratum(np.sort(cluster.start + rng.choice(size, count, replace=False)), size)]
    points = matrix.rows[cluster]
    centred = points - points.mean(axis=0, dtype=np.float64)
    order = np.argpartition(np.einsum("ij,ij->i", centred, centred), size - far)
    return [
        Stratum(np.sort(cluster.start + rng.choice(members, drawn, replace=False)), len(members))
        for members, drawn in ((order[: size - far], min(count - n_far, size - far)), (order[size - far :], n_far))
    ]


def _consecutive(counts: Sequence[int]) -> list[slice]:
    """Consecutive ranges of the given lengths."""
    ends = np.cumsum(counts).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _groups(counts: Sequence[int], width: int) -> list[slice]:
    """Consecutive clusters, as slices, that have about ``width`` points together, or one cluster that has more."""
    groups, start, total = [], 0, 0
    for i, count in enumerate(counts):
        total += count
        if total >= width or i == len(counts) - 1:
            groups.append(slice(start, i + 1))
            start, total = i + 1, 0
    return groups


def _pair_weights(strata: Sequence[tuple[Stratum, slice]], row_weights: FloatArray, first: int) -> FloatArray:
    """Number of pairs of points that each pair of the checked points of a strip represents.

    Each stratum comes with its range among all checked points; the strip begins at position ``first``.
    """
    weights = row_weights[:, np.newaxis] * row_weights
    for stratum, position in strata:
        count, size = len(stratum.points), stratum.size
        own = slice(position.start - first, position.stop - first)
        weights[own, own] = size * (size - 1) / (count * (count - 1)) if count > 1 else 0.0
    np.fill_diagonal(weights, row_weights)
    return weights
