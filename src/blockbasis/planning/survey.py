"""Survey of one number of clusters: floats and error of a factorization, estimated from some of its clusters.

A survey samples rows and columns of a few clusters, at a cost that does not depend on n. The other clusters are assumed
to have the ranks of the surveyed clusters nearest in size. When the points are many, a random subset represents them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction.cluster_basis import decay_rate, most_directions
from blockbasis.construction.directions import Directions, directions_and_diagonal, residual_profile, resolved
from blockbasis.construction.method import SURVEY
from blockbasis.construction.sampled_block import SampledBlock, evaluate_block, sample_block
from blockbasis.construction.sampling import ColumnSample, cluster_energies, energy_sampling
from blockbasis.construction.trimming import expected_share
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import QUICK, ROUGH, Partition, Partitioner
from blockbasis.planning.allocation import Allocation
from blockbasis.planning.goal import FEW_POINTS, Job

#: Clusters are surveyed until they have about so many points together, within these limits of their number.
_LOOKED_AT = 4_000
_CLUSTERS = 6
_MOST_CLUSTERS = 48
#: Least number of surveyed clusters where the rank is high: the time of a survey grows with the cube of the rank.
_CLUSTERS_OF_HIGH_RANK = 4
_HIGH_RANK = 100
#: Clusters of few points are small: more of them are surveyed.
_CLUSTERS_OF_FEW_POINTS = 12
#: Size of the random subset of points: at least, and for each cluster.
_POINTS = 20_000
_POINTS_PER_CLUSTER = 60
#: Ranks that turn out too small grow at least by the first factor, and by the second one over what residuals predict.
_LEAST_GROWTH = 1.3
_MARGIN = 1.15
#: Rank from which clusters are too large to be surveyed further, unless their number is given: the time grows with the
#: cube of the rank, and heavy tails leave most points in one cluster.
_HIGHEST_RANK = 600
#: Held-out rows for each unit of rank, on which residuals are measured where not all rows are sampled.
_HELD_OUT_ROWS = 3
#: Clusters kept whole are considered where each point of the subset stands for at most so many points.
_NEARLY_WHOLE_SET = 1.6
#: Share of the allowed squared error at which a survey reads the ranks that are expected: the rest is for the error of
#: the inner matrix, and for the standard errors by which the check must show the tolerance met.
_EXPECTED_SHARE = 0.85
#: Share at which it reads the ranks that bases are sketched for: bases of too low a rank would be sketched again. A
#: random subset of the points misses some of the points that are unlike the others.
_SKETCHED_SHARE = 0.75
_SKETCHED_SHARE_OF_SUBSET = 0.5
#: Share of the allowed squared error that dropped blocks of C may have. A larger share drops few more blocks, and makes
#: the negative eigenvalues of C larger.
DROPPED_SHARE = 1e-3


@dataclass(frozen=True)
class ClusterSurvey:
    """Results of one surveyed cluster.

    Parameters
    ----------
    size : float
        Number of points of the cluster.
    residuals : ndarray
        Squared error due to the cluster at ranks 0, 1, ...
    diagonal : bool
        Whether a diagonal part was taken out.
    energies : ndarray of shape (n_clusters,)
        Squared norms of the blocks of the cluster with all clusters.
    block : SampledBlock
        Entries that the directions were fitted to.
    other : SampledBlock or None
        Entries of the same rows and of other columns; None where ``block`` has all columns.
    """

    size: float
    residuals: FloatArray
    diagonal: bool
    energies: FloatArray
    block: SampledBlock
    other: SampledBlock | None


@dataclass(frozen=True)
class Survey:
    """Estimates for one number of clusters.

    Parameters
    ----------
    n_asked : int
        Requested number of clusters; the partition may have fewer.
    partition : Partition
        Partition of the points, or of the random subset that represents them.
    allocation : Allocation
    ranks : ndarray
        Ranks that the surveyed clusters are sketched for.
    expected : ndarray
        Ranks that are expected to meet the goal.
    price : float
        Least reduction of the squared error by one float, of the floats that are spent; zero where all are needed.
    norm : float
        Squared norm of K.
    stored : float
        Floats of the factorization at these ranks.
    error : float
        Squared error at these ranks.
    inner : float
        Floats of C, which ``stored`` includes.
    density : float
        Share of the blocks of C that are kept.
    trimmed : float
        Share of the entries of these blocks that is expected to be stored.
    complete : bool
        False where the surveyed ranks do not reach the tolerance.
    diagonal : bool
        Whether a diagonal part is expected to be carried.
    """

    n_asked: int
    partition: Partition
    allocation: Allocation
    ranks: IntArray
    expected: IntArray
    price: float
    norm: float
    stored: float
    error: float
    inner: float
    density: float
    trimmed: float
    complete: bool
    diagonal: bool

    @property
    def sizes(self) -> FloatArray:
        return self.allocation.sizes

    @property
    def mean_rank(self) -> float:
        """Mean over the points of the rank of their cluster."""
        weights = self.allocation.weights * self.sizes
        return float(weights @ self.ranks / weights.sum())

    def ranks_of(self, sizes: IntArray, *, expected: bool = False) -> FloatArray:
        """Ranks of clusters of the given sizes, interpolated between the surveyed clusters."""
        order = np.argsort(self.sizes, kind="stable")
        ranks = self.expected if expected else self.ranks
        return np.interp(sizes, self.sizes[order], ranks[order].astype(np.float64))


def survey(
    job: Job, clusters: Partitioner, k: int, rank: int, rng: np.random.Generator, limit: float = np.inf
) -> Survey:
    """Survey ``k`` clusters up to ``rank``, and up to higher ranks where the goal needs them.

    The survey ends incomplete where the surveyed ranks already take more than ``limit`` floats.
    """
    n = job.n_points
    count = max(_POINTS, _POINTS_PER_CLUSTER * k)
    count = count if 2 * count < n else n
    chosen = None if count == n or not clusters.by_method else np.sort(rng.choice(n, count, replace=False))
    partition = clusters(k, rng, chosen, QUICK if chosen is None else ROUGH)
    matrix = job.matrix(partition, chosen)
    matrix = matrix.single if job.goal.single else matrix.double
    scale = 1.0 if chosen is None else n / count
    least = _CLUSTERS if rank < _HIGH_RANK else _CLUSTERS_OF_HIGH_RANK
    if n <= FEW_POINTS:
        least = _CLUSTERS_OF_FEW_POINTS
    picked, weights = _pick_clusters(partition, least, rng)
    sizes = partition.sizes[picked]
    most = most_directions(sizes)
    highest = np.minimum(rank, most)
    streams = rng.spawn(len(picked))
    found: list[Any] = [None] * len(picked)  # of ClusterSurvey, after the first round
    todo = np.arange(len(picked))
    while True:
        tasks = [(job, matrix, partition, int(picked[a]), int(highest[a]), scale, streams[a], found[a]) for a in todo]
        for a, each in zip(todo, map_threads(_survey_cluster, tasks, job.n_jobs, f"look at {k} clusters"), strict=True):
            found[a] = each
        result = _summary(job, k, partition, found, picked, weights)
        todo = np.flatnonzero((result.ranks >= highest) & (highest < most))
        if not len(todo):
            return result
        wanted = _wanted_ranks(job, result, found)
        if not result.complete and result.allocation.stored(np.minimum(wanted, most)) > limit:
            return result
        steps = np.clip(_MARGIN * wanted, _LEAST_GROWTH * highest, 2 * highest)
        highest[todo] = np.minimum(np.ceil(steps), most).astype(np.intp)[todo]
        if clusters.given is None and int(highest[todo].max()) > _HIGHEST_RANK:
            return replace(result, complete=False)


def _wanted_ranks(job: Job, result: Survey, found: list[ClusterSurvey]) -> FloatArray:
    """Ranks at which residuals would meet the goal if they went on decaying."""
    if job.goal.tol is None or result.complete:
        return 2.0 * result.ranks
    excess = result.error / max(_allowed(job, result.partition), np.finfo(np.float64).tiny)
    rates = np.array([decay_rate(each.residuals) for each in found])
    return np.asarray(result.ranks + np.log(max(excess, 1.0)) / rates)


def _pick_clusters(partition: Partition, least: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Clusters to survey, drawn by size, and the number of clusters that each of them represents."""
    n, k, sizes = partition.n_points, partition.n_clusters, partition.sizes
    count = int(np.clip(_LOOKED_AT * k // n, least, _MOST_CLUSTERS))
    if k <= count:
        return np.arange(k), np.ones(k)
    steps = (np.arange(count) + rng.random()) * n / count
    order = rng.permutation(k)
    picked = np.unique(order[np.searchsorted(np.cumsum(sizes[order]), steps, side="right")])
    return picked, n / len(picked) / sizes[picked]  # each represents the same number of points


def _survey_cluster(
    job: Job,
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    scale: float,
    rng: np.random.Generator,
    earlier: ClusterSurvey | None,
) -> ClusterSurvey:
    """Residuals of one cluster: directions from some columns, their energies from other columns.

    The residuals of the columns that the directions were fitted to would be too small. ``earlier`` is a survey of the
    same cluster up to a lower rank: its samples are used again where there are enough of them.
    """
    cluster, size = partition.cluster(i), int(partition.sizes[i])
    block = sample_block(matrix, partition, i, rank, SURVEY, rng, None if earlier is None else earlier.block)
    sizes = replace(SURVEY, negligible=job.goal.negligible)
    found, part, B = directions_and_diagonal(matrix, block, rank, sizes, rng, diagonal=job.method.diagonal)
    found = resolved(found, rank, B.dtype)
    other: SampledBlock | None = None
    if len(block.columns) < matrix.shape[1]:
        if earlier is not None and block is earlier.block:
            other = earlier.other
        else:
            drawn = energy_sampling(matrix, cluster, partition, len(block.columns) // 2, rng, block.rows)
            other = evaluate_block(matrix, cluster, block.rows, drawn)
        assert other is not None
        B = other.without(part)
    right = (B.T @ found.vectors.astype(B.dtype, copy=False)).astype(np.float64, copy=False)
    held_out = np.setdiff1d(np.arange(cluster.start, cluster.stop), block.rows, assume_unique=True)
    if other is None:
        residuals, _ = residual_profile(block, B, found.vectors, right)
    elif len(held_out) < _HELD_OUT_ROWS * rank:
        residuals, _ = residual_profile(replace(block, columns=other.columns), B, found.vectors, right)
    else:
        rows = np.sort(rng.choice(held_out, _HELD_OUT_ROWS * rank, replace=False))
        residuals = _held_out_residuals(matrix, block, found, rows, other, right)
    if earlier is None:
        energies = cluster_energies(matrix, cluster, partition, rng) * partition.sizes * size * scale**2
    else:
        energies = earlier.energies
    residuals = np.minimum.accumulate(np.maximum(residuals, 0)) * scale**2
    if len(residuals) <= rank:  # there are no more directions above rounding
        residuals = np.concatenate((residuals, np.full(rank + 1 - len(residuals), residuals[-1])))
    if scale <= _NEARLY_WHOLE_SET and rank >= most_directions(size):  # a cluster that is kept whole has no error
        residuals = np.concatenate((residuals, np.linspace(residuals[-1], 0, round(size * scale) - rank + 1)[1:]))
    return ClusterSurvey(size * scale, residuals, bool(part.any()), energies, block, other)


def _held_out_residuals(
    matrix: KernelMatrix,
    block: SampledBlock,
    found: Directions,
    rows: IntArray,
    other: SampledBlock,
    right: FloatArray,
) -> FloatArray:
    """Residuals on held-out rows, which the directions were not fitted to.

    A direction v of a block B with singular value s is continued to other rows by K(x, J) Bᵀ v / s². The coordinates of
    the held-out columns, ``right``, are computed from the sampled rows.
    """
    continued = matrix.block(rows, block.columns).astype(np.float64, copy=False) * block.scales
    scale = np.sqrt(len(block.rows) / len(rows))  # both blocks are scaled to the whole row-submatrix
    values = continued @ (found.right * (scale / np.maximum(found.energies, np.finfo(np.float64).tiny)))
    # The scales of a block count its rows; those of the columns alone are wanted here.
    scales = other.scales / np.sqrt((block.cluster.stop - block.cluster.start) / len(block.rows))
    drawn = ColumnSample(other.columns, scales, np.empty(0, dtype=np.intp))
    fresh = evaluate_block(matrix, block.cluster, rows, drawn)
    B, own = fresh.without(np.zeros(len(rows))).astype(np.float64, copy=False), fresh.own_columns
    return 2 * _profile(B, values, right) - _profile(B[:, own], values, right[own])


def _profile(B: FloatArray, values: FloatArray, right: FloatArray) -> FloatArray:
    """Squared norm of B minus its first 0, 1, ... directions; each is a column of ``values`` times one of ``right``."""
    crossed = np.einsum("ij,ij->j", B.T @ values, right)
    products = (values.T @ values) * (right.T @ right)
    squares = 2 * np.tril(products, -1).sum(axis=1) + np.diagonal(products)
    norm = float(np.einsum("ij,ij->", B, B))
    return norm - np.concatenate(([0.0], np.cumsum(2 * crossed - squares)))


def _summary(
    job: Job, k: int, partition: Partition, found: list[ClusterSurvey], picked: IntArray, weights: FloatArray
) -> Survey:
    n = job.n_points
    sizes = np.array([each.size for each in found])
    norm = job.norm
    budget = 0.0
    if job.goal.tol is not None and job.method.cutoff is None:
        budget = DROPPED_SHARE * job.goal.tol**2 * norm
    related = _related(found, picked, weights, budget)
    trimmed = expected_share(_density(related, weights)) if budget > 0 else 1.0

    def related_ranks(ranks: FloatArray) -> FloatArray:
        return trimmed * (related @ ranks) + (1 - trimmed) * ranks

    diagonal = job.method.diagonal and (job.goal.tol is None or any(each.diagonal for each in found))
    carried = float(n) if diagonal else 0.0
    allocation = Allocation(
        [each.residuals for each in found], sizes, weights, related_ranks, carried, np.zeros(len(found))
    )
    if job.goal.memory is not None:
        ranks, price = allocation.affordable(job.goal.memory)
        expected, complete = ranks, True
    else:
        # A ridge has no effect here: a survey does not estimate the spectral norm of the error.
        allowed = _allowed(job, partition)
        ranks, price = allocation.within(allowed)
        complete = allocation.error(ranks) <= allowed
        expected = allocation.within(_EXPECTED_SHARE * job.goal.allowed(norm))[0]
    stored = allocation.stored(ranks)
    inner = 0.5 * float((weights * ranks) @ related_ranks(ranks.astype(np.float64)))
    total = float(weights @ ranks)
    kept = 0.5 * float((weights * ranks) @ (related @ ranks))
    density = min(1.0, kept / max(0.5 * total**2, 1.0))
    error = allocation.error(ranks)
    return Survey(
        k,
        partition,
        allocation,
        ranks,
        expected,
        price,
        norm,
        stored,
        error,
        inner,
        density,
        trimmed,
        complete,
        diagonal,
    )


def _allowed(job: Job, partition: Partition) -> float:
    """Squared error at which a survey reads the ranks that bases are sketched for."""
    subset = partition.n_points < job.n_points
    return job.goal.allowed(job.norm) * (_SKETCHED_SHARE_OF_SUBSET if subset else _SKETCHED_SHARE)


def _related(found: list[ClusterSurvey], picked: IntArray, weights: FloatArray, budget: float) -> FloatArray:
    """Matrix that maps the ranks of the surveyed clusters to the rank sums of the clusters that C relates to each.

    The number of related clusters is known. Their mean rank is that of the surveyed clusters among them: clusters of
    high rank tend to be related to each other.
    """
    related = np.tile(weights, (len(found), 1))
    counts = np.full(len(found), float(len(found[0].energies)))
    if budget > 0:
        kept = _kept(np.array([each.energies for each in found]), weights, budget)
        kept[np.arange(len(found)), picked] = True  # energies are without the diagonal
        counts = np.maximum(kept.sum(axis=1), 1.0)
        among = np.where(kept[:, picked], weights, 0.0)
        np.fill_diagonal(among, 0.0)
        some = among.any(axis=1)
        related[some] = among[some]
    if len(found) == 1:  # the others have its rank
        return counts[:, np.newaxis]
    np.fill_diagonal(related, 0.0)
    related *= ((counts - 1) / np.maximum(related.sum(axis=1), np.finfo(np.float64).tiny))[:, np.newaxis]
    np.fill_diagonal(related, 1.0)
    return related


def _density(related: FloatArray, weights: FloatArray) -> float:
    """Share of the blocks that are kept, where all clusters have the same rank."""
    total = float(weights.sum())
    return float(weights @ related.sum(axis=1)) / total**2


def _kept(energies: FloatArray, weights: FloatArray, budget: float) -> NDArray[np.bool_]:
    """Mask of the blocks that are kept when the smallest blocks are dropped within a budget of squared error.

    A row of ``energies`` has the blocks of a surveyed cluster, and stands for as many clusters as its weight says.
    """
    order = np.argsort(energies, axis=None, kind="stable")
    total = np.cumsum((energies * weights[:, np.newaxis]).ravel()[order])
    kept = np.ones(energies.size, dtype=bool)
    kept[order[: int(np.searchsorted(total, budget, side="right"))]] = False
    return kept.reshape(energies.shape)
