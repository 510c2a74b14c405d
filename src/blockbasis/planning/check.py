"""Check of a draft against exact kernel entries, at a cost that does not depend on n.

A stratified sample of points is drawn from all clusters, with more points where the expected error is larger, and the
exact entries between all sampled points are evaluated. Each entry is weighted by the number of entries of the matrix
that it represents, which gives unbiased estimates of the squared error and the squared norm of the whole matrix. Bases
are nested, so that the same entries give the error of all smaller ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction.diagonal import limit_rows
from blockbasis.construction.pipeline import Draft
from blockbasis.matrix import KernelMatrix
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.inner import InnerMatrix
from blockbasis.partition import Partition

#: Number of checked points; all points are checked where there are at most ``_FEW_POINTS``.
_POINTS = 1536
_FEW_POINTS = 4096
_POINTS_PER_CLUSTER = 2
#: Share of the points of a cluster that are far from its centre, share of its checked points among them, and the least
#: number of these.
_FAR_POINTS = 0.1
_FAR_CHECKS = 0.35
_LEAST_STRATUM = 4
#: Precision of a squared spectral norm, and the factor that raises a norm estimated from a sample of points.
_SPECTRAL_PRECISION = 1e-4
_SPECTRAL_MARGIN = 1.1


@dataclass(frozen=True)
class Measured:
    """Squared error and squared norm of the whole matrix, from checked entries.

    Parameters
    ----------
    error, norm : float
    stderr : float
        Standard error of ``error``.
    per_cluster : ndarray of shape (n_clusters,)
        Squared error in the rows of each cluster.
    exact : bool
        Whether all entries were checked.
    spectral : float
        Squared spectral norm of the error, where it was asked for.
    """

    error: float
    norm: float
    stderr: float
    per_cluster: FloatArray
    exact: bool
    spectral: float = math.inf

    def upper(self, deviations: float) -> float:
        """Upper bound of the squared error, ``deviations`` standard errors above the estimate."""
        return self.error + deviations * self.stderr

    def relative(self) -> ErrorEstimate:
        """Relative error with its standard error."""
        if self.norm <= 0:
            return ErrorEstimate(0.0, 0.0, self.exact)
        value = math.sqrt(max(self.error, 0.0) / self.norm)
        return ErrorEstimate(value, self.stderr / (2 * value * self.norm) if value else 0.0, self.exact)


def n_checked(n: int) -> int:
    """Number of checked points for ``n`` points."""
    return n if n <= _FEW_POINTS else _POINTS


class HeldOutCheck:
    """Exact entries between checked points, and the error of drafts on these entries.

    Parameters
    ----------
    matrix : KernelMatrix
    partition : Partition
    expected : ndarray of shape (n_clusters,)
        Squared error expected of each cluster.
    rng : Generator
    """

    def __init__(
        self, matrix: KernelMatrix, partition: Partition, expected: FloatArray, rng: np.random.Generator
    ) -> None:
        self.partition = partition
        drawn = _draw(matrix, partition, expected, rng)
        self.points = [np.concatenate([stratum.points for stratum in strata]) for strata in drawn]
        self.strata = [stratum for strata in drawn for stratum in strata]
        self.every = all(stratum.size == len(stratum.points) for stratum in self.strata)
        self.blocks = _consecutive([len(own) for own in self.points])
        at = np.concatenate(self.points)
        self.exact = matrix.block(at, at)
        own = [matrix.diagonal(c)[p - c.start] for c, p in zip(partition.clusters, self.points, strict=True)]
        self.own_entries = np.concatenate(own).astype(np.float64)
        np.fill_diagonal(self.exact, self.own_entries)
        self._scratch = np.empty_like(self.exact)
        counts = [len(stratum.points) for stratum in self.strata]
        self.row_weights = np.repeat([stratum.size / len(stratum.points) for stratum in self.strata], counts)
        self.weights = _pair_weights(self.strata, self.row_weights.astype(matrix.dtype))
        self.norm = float((self.weights * self.exact**2).sum(dtype=np.float64))

    def with_missed_pairs(self, kept: NDArray[np.bool_], budget: float) -> NDArray[np.bool_]:
        """Pairs of clusters to keep, with those dropped that the checked entries show to hold more than a budget.

        The few samples that pairs are told by can miss rare large entries, which no higher rank would make up for.
        """
        if kept.all():
            return kept
        starts = [block.start for block in self.blocks]
        squares = self.weights * self.exact**2
        energies = 2 * np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
        i, j = np.nonzero(np.triu(~kept, 1))
        order = np.argsort(energies[i, j], kind="stable")
        missed = order[int(np.searchsorted(np.cumsum(energies[i, j][order]), budget, side="right")) :]
        kept = kept.copy()
        kept[i[missed], j[missed]] = kept[j[missed], i[missed]] = True
        return kept

    def evaluate(self, matrix: KernelMatrix, draft: Draft, n_jobs: int) -> list[FloatArray]:
        """Basis functions of every cluster at its checked points."""

        def one(i: int) -> FloatArray:
            basis = draft.bases[i]
            if basis.vectors is not None:
                return np.asarray(basis.vectors[self.points[i] - basis.cluster.start], dtype=np.float64)
            return basis.evaluate(matrix, self.points[i])

        return map_threads(one, [(i,) for i in range(self.partition.n_clusters)], n_jobs, "check")

    def measure(
        self, draft: Draft, values: list[FloatArray], ranks: IntArray, *, diagonal: bool, spectral: bool = False
    ) -> Measured:
        """Error of a draft truncated to the given ranks."""
        error = self._error(draft, values, ranks)
        own = np.diagonal(error)
        # D makes the diagonal exact, except where that of U C Uᵀ exceeds it: D is not negative.
        np.fill_diagonal(error, np.minimum(own, 0) if diagonal else own)
        largest = self._spectral_norm(error) if spectral else math.inf
        squared = np.multiply(error, error, out=error)
        squared *= self.weights
        rows = squared.sum(axis=1).astype(np.float64, copy=False)
        variance = 0.0
        for stratum, drawn in zip(self.strata, _consecutive([len(each.points) for each in self.strata]), strict=True):
            count = len(stratum.points)
            if 1 < count < stratum.size:  # a checked point contributes a row and a column
                variance += count * float(np.var(2 * rows[drawn], ddof=1)) * (1 - count / stratum.size)
        per_cluster = np.array([float(rows[block].sum()) for block in self.blocks])
        return Measured(float(rows.sum()), self.norm, math.sqrt(variance), per_cluster, self.every, largest)

    def _error(self, draft: Draft, values: list[FloatArray], ranks: IntArray) -> FloatArray:
        error = self._scratch  # a new array for each of several measures would cost a page fault for every page
        np.copyto(error, self.exact)
        inner, limited = draft.inner, []
        for i, (own, block) in enumerate(zip(values, self.blocks, strict=True)):
            kept = own[:, : ranks[i]].copy()  # limited in place
            if draft.bases[i].vectors is None:
                limit_rows(kept, inner.block(i, i)[: ranks[i], : ranks[i]], self.own_entries[block])
            limited.append(kept)
        coordinates = _leading_panels(inner, ranks, limited).astype(error.dtype, copy=False)
        ends = np.concatenate(([0], np.cumsum(ranks)))
        for j, own in enumerate(limited):  # blocks on and above the diagonal, then their mirror images
            above, columns = slice(0, self.blocks[j].stop), self.blocks[j]
            error[above, columns] -= coordinates[above, ends[j] : ends[j + 1]] @ own.T.astype(error.dtype, copy=False)
            error[columns, : columns.start] = error[: columns.start, columns].T
        return error

    def _spectral_norm(self, error: FloatArray) -> float:
        """Squared spectral norm of the error; an estimate from a sample of points is too large on average."""
        scaled = error * np.sqrt(np.outer(self.row_weights, self.row_weights))
        if not scaled.any():
            return 0.0
        if len(scaled) < 3:
            return float(np.linalg.norm(scaled, 2)) ** 2
        start = np.sqrt(self.row_weights)
        (largest,) = eigsh(scaled, 1, which="LM", tol=_SPECTRAL_PRECISION, v0=start, return_eigenvectors=False)
        return float(largest) ** 2 * (1.0 if self.every else _SPECTRAL_MARGIN)


def _leading_panels(inner: InnerMatrix, ranks: IntArray, values: list[FloatArray]) -> FloatArray:
    """Y C in the leading coordinates, from the blocks of C on and above the diagonal."""
    starts = inner.row_offsets[:-1]
    kept = np.zeros(inner.shape[0], dtype=bool)
    for start, rank in zip(starts, ranks, strict=True):
        kept[start : start + rank] = True
    position = np.cumsum(kept) - 1
    result = np.zeros((sum(len(own) for own in values), int(ranks.sum())))
    top = 0
    for i, own in enumerate(values):
        columns = np.arange(inner.shape[1])[inner.columns_of(i)]
        leading = kept[columns]
        result[top : top + len(own), position[columns[leading]]] = own @ inner.panels[i][: ranks[i], leading]
        top += len(own)
    return result


@dataclass(frozen=True)
class Stratum:
    """Checked points, drawn uniformly from ``size`` points of one cluster."""

    points: IntArray
    size: int


def _draw(
    matrix: KernelMatrix, partition: Partition, expected: FloatArray, rng: np.random.Generator
) -> list[list[Stratum]]:
    """Strata of every cluster; half of the checked points in proportion to its size, half by its expected error."""
    n, sizes = partition.n_points, partition.sizes
    wanted = n_checked(n)
    if wanted == n:
        return [[Stratum(np.arange(c.start, c.stop), c.stop - c.start)] for c in partition.clusters]
    by_error = np.sqrt(sizes * np.maximum(expected, 0))
    share = sizes / n / 2 + (by_error / by_error.sum() / 2 if by_error.sum() > 0 else sizes / n / 2)
    counts = np.minimum(np.maximum(np.rint(wanted * share).astype(np.intp), _POINTS_PER_CLUSTER), sizes)
    return [
        _strata(matrix, cluster, int(count), rng) for cluster, count in zip(partition.clusters, counts, strict=True)
    ]


def _strata(matrix: KernelMatrix, cluster: slice, count: int, rng: np.random.Generator) -> list[Stratum]:
    """Checked points of a cluster: near its centre, and far from it, where few points can have much of the error."""
    size = cluster.stop - cluster.start
    far = int(_FAR_POINTS * size)
    of_far = min(int(_FAR_CHECKS * count), far)
    if of_far < _LEAST_STRATUM:
        return [Stratum(np.sort(cluster.start + rng.choice(size, count, replace=False)), size)]
    points = matrix.rows[cluster]
    offsets = points - points.mean(axis=0, dtype=np.float64)
    order = np.argpartition(np.einsum("ij,ij->i", offsets, offsets), size - far)
    return [
        Stratum(np.sort(cluster.start + rng.choice(some, own, replace=False)), len(some))
        for some, own in ((order[: size - far], min(count - of_far, size - far)), (order[size - far :], of_far))
    ]


def _consecutive(counts: Sequence[int]) -> list[slice]:
    """Consecutive ranges of the given lengths."""
    ends = np.cumsum(counts).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _pair_weights(strata: list[Stratum], row_weights: FloatArray) -> FloatArray:
    """Number of pairs of points that each checked pair represents."""
    weights = row_weights[:, np.newaxis] * row_weights
    for stratum, own in zip(strata, _consecutive([len(each.points) for each in strata]), strict=True):
        count, size = len(stratum.points), stratum.size
        weights[own, own] = size * (size - 1) / (count * (count - 1)) if count > 1 else 0.0
    np.fill_diagonal(weights, row_weights)
    return weights
