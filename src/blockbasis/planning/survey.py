"""Survey of one number of clusters: floats and error of a factorization, estimated from some of its clusters.

A survey samples rows and columns of a few clusters, at a cost that does not depend on n. The other clusters are assumed
to have the ranks of the surveyed clusters nearest in size. When the points are many, a random subset represents them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockbasis._utils.parallel import map_threads
from blockbasis.construction.cluster_basis import decay_rate, max_rank
from blockbasis.construction.diagonal import directions_and_diagonal
from blockbasis.construction.directions import Directions, residual_profile
from blockbasis.construction.inner_matrix import expected_share
from blockbasis.construction.method import SURVEY
from blockbasis.construction.sampling import (
    ColumnSample,
    SampledBlock,
    cluster_energies,
    energy_sampling,
    evaluate_block,
    sample_block,
)
from blockbasis.partition import QUICK, ROUGH, Partition, Partitioner
from blockbasis.planning.allocation import Allocation
from blockbasis.planning.goal import FEW_POINTS, Request

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels.evaluator import KernelMatrix

#: Clusters are surveyed until they have about this many points together, within these limits of their number.
_SURVEYED_POINTS = 4_000
_MIN_CLUSTERS = 6
_MAX_CLUSTERS = 48
#: Least number of surveyed clusters where the rank is high: the time of a survey grows with the cube of the rank.
_MIN_CLUSTERS_OF_HIGH_RANK = 4
_HIGH_RANK = 100
#: Least number of surveyed clusters where the points are few: their clusters are small.
_MIN_CLUSTERS_OF_FEW_POINTS = 12
#: Size of the random subset of points: at least, and for each cluster. A cluster also has the number of rows that a
#: survey samples for its rank: the residuals on fewer rows would be too small.
_SUBSET_POINTS = 20_000
_SUBSET_POINTS_PER_CLUSTER = 60
#: Rank above which clusters are too large to be surveyed further, unless their number is given. The time grows with the
#: cube of the rank, and heavy tails leave most points in one cluster.
_MAX_RANK = 1000
#: Ranks that turn out too small grow at least by the first factor, and to the second multiple of the extrapolated rank.
_MIN_GROWTH = 1.3
_RANK_MARGIN = 1.15
#: Held-out rows for each unit of rank, on which residuals are measured where not all rows are sampled.
_HELD_OUT_ROWS = 3
#: Identity bases are considered where each point of the subset represents at most this many points.
_NEARLY_ALL_POINTS = 1.6
#: Share of the allowed squared error at which the expected ranks are read: the rest is for the error of the inner
#: matrix, and for the standard errors by which the check must show the tolerance met.
_EXPECTED_SHARE = 0.85
#: Share at which the ranks are read that bases are sketched for: bases of too low a rank would be sketched again. A
#: random subset of the points misses some of the outlying points.
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
        Whether a diagonal part was subtracted.
    energies : ndarray of shape (n_clusters,)
        Squared norms of the blocks of the cluster with all clusters.
    block : SampledBlock
        Entries that the directions were fitted to.
    validation : SampledBlock or None
        Entries of the same rows and of independently drawn columns; None where ``block`` has all columns.
    """

    size: float
    residuals: FloatArray
    diagonal: bool
    energies: FloatArray
    block: SampledBlock
    validation: SampledBlock | None


@dataclass(frozen=True)
class Survey:
    """Estimates for one number of clusters.

    Parameters
    ----------
    n_requested : int
        Requested number of clusters; the partition may have fewer.
    partition : Partition
        Partition of the points, or of the random subset that represents them.
    allocation : Allocation
    ranks : ndarray
        Ranks that the surveyed clusters are sketched for.
    expected : ndarray
        Ranks that are expected to meet the goal.
    price : float
        Least reduction of the squared error per float, of the floats that are spent; zero where all are needed.
    norm : float
        Squared norm of K.
    inner : float
        Floats of C, which ``stored`` includes.
    density : float
        Share of the entries of C in blocks that are kept.
    trimmed : float
        Share of these entries that is expected to be stored.
    complete : bool
        False where the surveyed ranks do not reach the tolerance.
    diagonal : bool
        Whether a diagonal part is expected to be carried.
    """

    n_requested: int
    partition: Partition
    allocation: Allocation
    ranks: IntArray
    expected: IntArray
    price: float
    norm: float
    inner: float
    density: float
    trimmed: float
    complete: bool
    diagonal: bool

    @cached_property
    def stored(self) -> float:
        """Floats of the factorization at the sketched ranks."""
        return self.allocation.stored(self.ranks)

    @cached_property
    def error(self) -> float:
        """Squared error at the sketched ranks."""
        return self.allocation.error(self.ranks)

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
    request: Request, partitioner: Partitioner, k: int, rank: int, rng: np.random.Generator, limit: float = np.inf
) -> Survey:
    """Survey ``k`` clusters up to ``rank``, and up to higher ranks where the goal needs them.

    The survey ends incomplete where the surveyed ranks already take more than ``limit`` floats.
    """
    n = request.n_points
    count = max(_SUBSET_POINTS, max(_SUBSET_POINTS_PER_CLUSTER, SURVEY.rows * rank) * k)
    count = count if 2 * count < n else n
    subset = None if count == n or not partitioner.by_method else np.sort(rng.choice(n, count, replace=False))
    partition = partitioner(k, rng, subset, QUICK if subset is None else ROUGH)
    matrix = request.matrix(partition, subset)
    matrix = matrix.single if request.goal.single else matrix.double
    scale = 1.0 if subset is None else n / count
    min_clusters = _MIN_CLUSTERS if rank < _HIGH_RANK else _MIN_CLUSTERS_OF_HIGH_RANK
    if n <= FEW_POINTS:
        min_clusters = _MIN_CLUSTERS_OF_FEW_POINTS
    selected, weights = _select_clusters(matrix.rows, partition, min_clusters, rng)
    limits = max_rank(partition.sizes[selected])
    ranks = np.minimum(rank, limits)
    streams = rng.spawn(len(selected))
    clusters: list[Any] = [None] * len(selected)  # of ClusterSurvey, after the first round
    pending = np.arange(len(selected))
    while True:
        tasks = [
            (request, matrix, partition, int(selected[a]), int(ranks[a]), scale, streams[a], clusters[a])
            for a in pending
        ]
        results = map_threads(_survey_cluster, tasks, request.n_jobs, f"survey of {k} clusters")
        for a, result in zip(pending, results, strict=True):
            clusters[a] = result
        summary = _summary(request, k, partition, clusters, selected, weights)
        required = _required_ranks(request, summary, limits)
        pending = np.flatnonzero((required >= ranks) & (ranks < limits))
        if not len(pending) or (not summary.complete and summary.allocation.stored(required) > limit):
            return summary
        grown = np.clip(_RANK_MARGIN * required, _MIN_GROWTH * ranks, 2 * ranks)
        ranks[pending] = np.minimum(np.ceil(grown), limits).astype(np.intp)[pending]
        if partitioner.given is None and int(ranks[pending].max()) > _MAX_RANK:
            return replace(summary, complete=False)


def _required_ranks(request: Request, result: Survey, largest: IntArray) -> IntArray:
    """Ranks that would meet the goal if residuals decayed further at the rate of the surveyed ranks."""
    surveyed = result.allocation
    residuals = [_extrapolated(each, int(rank)) for each, rank in zip(surveyed.residuals, largest, strict=True)]
    allocation = replace(surveyed, residuals=residuals)
    if request.goal.memory is not None:
        return allocation.affordable(request.goal.memory)[0]
    return allocation.within(_allowed(request, result.partition))[0]


def _extrapolated(residuals: FloatArray, rank: int) -> FloatArray:
    """Residuals up to the given rank, by exponential decay beyond the known ones."""
    further = np.arange(1, rank + 2 - len(residuals))
    return np.concatenate((residuals, residuals[-1] * np.exp(-decay_rate(residuals) * further)))


def _select_clusters(
    points: FloatArray, partition: Partition, min_clusters: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Clusters to survey, and the number of clusters that each of them represents; points are in cluster order.

    Large clusters are taken with certainty. The others are a systematic sample by size, in the order of the spread of
    the clusters: clusters of a larger spread have higher ranks.
    """
    n, k, sizes = partition.n_points, partition.n_clusters, partition.sizes
    count = int(np.clip(_SURVEYED_POINTS * k // n, min_clusters, _MAX_CLUSTERS))
    if k <= count:
        return np.arange(k), np.ones(k)
    by_size = np.argsort(-sizes, kind="stable")
    cumulative = np.cumsum(sizes[by_size][::-1])[::-1]  # points of each cluster and of all smaller ones
    n_certain = int(np.argmax((count - np.arange(count)) * sizes[by_size[:count]] < cumulative[:count]))
    certain, rest = by_size[:n_certain], by_size[n_certain:]
    spread = [np.var(points[partition.cluster(i)], axis=0).sum() for i in rest]
    rest = rest[np.argsort(spread, kind="stable")]
    step = sizes[rest].sum() / (count - n_certain)
    positions = (np.arange(count - n_certain) + rng.random()) * step
    drawn = rest[np.searchsorted(np.cumsum(sizes[rest]), positions, side="right")]
    # Each of the drawn clusters represents the same number of points.
    return np.concatenate((certain, drawn)), np.concatenate((np.ones(n_certain), step / sizes[drawn]))


def _survey_cluster(
    request: Request,
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    scale: float,
    rng: np.random.Generator,
    earlier: ClusterSurvey | None,
) -> ClusterSurvey:
    """Residuals of one cluster up to ``rank``: directions from sampled columns, residuals from others.

    The residuals of the columns that the directions were fitted to would be too small. Each point represents ``scale``
    points. ``earlier`` is a survey of the same cluster up to a lower rank: its samples are used again where there are
    enough of them.
    """
    cluster, size = partition.cluster(i), int(partition.sizes[i])
    sizes = replace(SURVEY, negligible=request.goal.negligible).adapted(request.method)
    block = sample_block(matrix, partition, i, rank, sizes, rng, None if earlier is None else earlier.block)
    directions, diagonal, B = directions_and_diagonal(matrix, block, rank, sizes, rng)
    directions = directions.resolved(rank, B.dtype)
    validation: SampledBlock | None = None
    if len(block.columns) < matrix.shape[1]:
        if earlier is not None and block is earlier.block:
            validation = earlier.validation
        else:
            drawn = energy_sampling(matrix, cluster, partition, len(block.columns) // 2, rng, block.rows)
            validation = evaluate_block(matrix, cluster, block.rows, drawn)
        assert validation is not None
        B = validation.minus_diagonal(diagonal)
    right = (B.T @ directions.vectors.astype(B.dtype, copy=False)).astype(np.float64, copy=False)
    held_out_rows = np.setdiff1d(np.arange(cluster.start, cluster.stop), block.rows, assume_unique=True)
    if validation is None or len(held_out_rows) < _HELD_OUT_ROWS * rank:
        columns = block.columns if validation is None else validation.columns
        residuals = residual_profile(replace(block, columns=columns), B, directions.vectors, right)
    else:
        rows = np.sort(rng.choice(held_out_rows, _HELD_OUT_ROWS * rank, replace=False))
        residuals = _held_out_residuals(matrix, block, directions, rows, validation, right)
    if earlier is None:
        energies = cluster_energies(matrix, cluster, partition, rng) * partition.sizes * size * scale**2
    else:
        energies = earlier.energies
    residuals = np.minimum.accumulate(np.maximum(residuals, 0)) * scale**2
    if len(residuals) <= rank:  # there are no more directions above rounding
        residuals = np.concatenate((residuals, np.full(rank + 1 - len(residuals), residuals[-1])))
    if scale <= _NEARLY_ALL_POINTS and rank >= max_rank(size):  # the identity as a basis has no error
        residuals = np.concatenate((residuals, np.linspace(residuals[-1], 0, round(size * scale) - rank + 1)[1:]))
    return ClusterSurvey(size * scale, residuals, bool(diagonal.any()), energies, block, validation)


def _held_out_residuals(
    matrix: KernelMatrix,
    block: SampledBlock,
    directions: Directions,
    rows: IntArray,
    validation: SampledBlock,
    right: FloatArray,
) -> FloatArray:
    """Residuals on held-out rows and independently drawn columns.

    A direction v of a block B with singular value s is extended to other rows by K(x, J) Bᵀ v / s². The coordinates of
    these columns, ``right``, are computed from the sampled rows.
    """
    entries = matrix.block(rows, block.columns).astype(np.float64, copy=False) * block.scales
    scale = np.sqrt(len(block.rows) / len(rows))  # both blocks are scaled to the whole row-submatrix
    values = entries @ (directions.right * (scale / np.maximum(directions.energies, np.finfo(np.float64).tiny)))
    # The scales of a block include that of its rows, which differ here.
    scales = validation.scales / np.sqrt(block.size / len(block.rows))
    sample = ColumnSample(validation.columns, scales, np.empty(0, dtype=np.intp))
    test_block = evaluate_block(matrix, block.cluster, rows, sample)
    B, own = test_block.minus_diagonal(np.zeros(len(rows))).astype(np.float64, copy=False), test_block.own_columns
    return 2 * _profile(B, values, right) - _profile(B[:, own], values, right[own])


def _profile(B: FloatArray, values: FloatArray, right: FloatArray) -> FloatArray:
    """Squared norm of B minus its first 0, 1, ... directions, products of columns of ``values`` and of ``right``."""
    crossed = np.einsum("ij,ij->j", B.T @ values, right)
    products = (values.T @ values) * (right.T @ right)
    squares = 2 * np.tril(products, -1).sum(axis=1) + np.diagonal(products)
    norm = float(np.einsum("ij,ij->", B, B))
    return norm - np.concatenate(([0.0], np.cumsum(2 * crossed - squares)))


def _summary(
    request: Request,
    k: int,
    partition: Partition,
    clusters: list[ClusterSurvey],
    selected: IntArray,
    weights: FloatArray,
) -> Survey:
    """Survey of ``k`` clusters from those of the selected ones, each of which represents ``weights`` clusters."""
    goal, method, norm = request.goal, request.method, request.norm
    budget = DROPPED_SHARE * goal.tol**2 * norm if goal.tol is not None and method.cutoff is None else 0.0
    related = _related(clusters, selected, weights, budget)
    diagonal = method.diagonal and (goal.tol is None or any(each.diagonal for each in clusters))

    def allocated(trimmed: float) -> tuple[Allocation, IntArray, float]:
        allocation = Allocation(
            residuals=[each.residuals for each in clusters],
            sizes=np.array([each.size for each in clusters]),
            weights=weights,
            related=lambda ranks: trimmed * (related @ ranks) + (1 - trimmed) * ranks,
            fixed=float(request.n_points) if diagonal else 0.0,
            per_function=np.zeros(len(clusters)),
        )
        if goal.memory is not None:
            return allocation, *allocation.affordable(goal.memory)
        # A ridge has no effect here: a survey does not estimate the spectral norm of the error.
        return allocation, *allocation.within(_allowed(request, partition))

    allocation, ranks, price = allocated(1.0)
    density, trimmed = _entry_density(related, weights, ranks), 1.0
    if budget > 0 and density < 1:  # the ranks, and with them the density, depend on the share that is stored
        trimmed = expected_share(density)
        allocation, ranks, price = allocated(trimmed)
        density = _entry_density(related, weights, ranks)
    complete, expected = True, ranks
    if goal.memory is None:
        complete = allocation.error(ranks) <= _allowed(request, partition)
        expected = allocation.within(_EXPECTED_SHARE * goal.allowed(norm))[0]
    inner = 0.5 * float((weights * ranks) @ allocation.related(ranks.astype(np.float64)))
    return Survey(k, partition, allocation, ranks, expected, price, norm, inner, density, trimmed, complete, diagonal)


def _entry_density(related: FloatArray, weights: FloatArray, ranks: IntArray) -> float:
    """Share of the entries of C in blocks that are kept."""
    kept = float((weights * ranks) @ (related @ ranks))
    return min(1.0, kept / max(float(weights @ ranks) ** 2, 1.0))


def _allowed(request: Request, partition: Partition) -> float:
    """Squared error at which a survey reads the ranks that bases are sketched for."""
    subset = partition.n_points < request.n_points
    return request.goal.allowed(request.norm) * (_SKETCHED_SHARE_OF_SUBSET if subset else _SKETCHED_SHARE)


def _related(clusters: list[ClusterSurvey], selected: IntArray, weights: FloatArray, budget: float) -> FloatArray:
    """Matrix that maps the ranks of the surveyed clusters to the rank sums of the clusters that C relates to each.

    The number of related clusters is known. Their mean rank is that of the surveyed clusters among them: clusters of
    high rank tend to be related to each other.
    """
    related = np.tile(weights, (len(clusters), 1))
    counts = np.full(len(clusters), float(len(clusters[0].energies)))
    if budget > 0:
        kept = _kept(np.array([each.energies for each in clusters]), weights, budget)
        kept[np.arange(len(clusters)), selected] = True  # energies are without the diagonal
        counts = np.maximum(kept.sum(axis=1), 1.0)
        surveyed = np.where(kept[:, selected], weights, 0.0)
        np.fill_diagonal(surveyed, 0.0)
        nonzero = surveyed.any(axis=1)
        related[nonzero] = surveyed[nonzero]
    if len(clusters) == 1:  # all clusters have its rank
        return counts[:, np.newaxis]
    np.fill_diagonal(related, 0.0)
    related *= ((counts - 1) / np.maximum(related.sum(axis=1), np.finfo(np.float64).tiny))[:, np.newaxis]
    np.fill_diagonal(related, 1.0)
    return related


def _kept(energies: FloatArray, weights: FloatArray, budget: float) -> NDArray[np.bool_]:
    """Mask of the blocks that are kept when the smallest blocks are dropped within a budget of squared error.

    A row of ``energies`` has the blocks of a surveyed cluster, which represents as many clusters as its weight.
    """
    order = np.argsort(energies, axis=None, kind="stable")
    total = np.cumsum((energies * weights[:, np.newaxis]).ravel()[order])
    kept = np.ones(energies.size, dtype=bool)
    kept[order[: int(np.searchsorted(total, budget, side="right"))]] = False
    return kept.reshape(energies.shape)
