"""A tolerance or a memory budget into the number of clusters and the ranks, and into a factorization that keeps it.

The plan comes from a pilot: bases of some clusters, whose spectra stand for all. The factorization is then built a
little too large, checked against exact rows that it has not used, enlarged where the error sits if it must be, and cut
to the smallest ranks that do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import INNER_ROWS_PER_RANK, ClusterBasis, Spectrum, sampled_spectrum
from blockbasis.construction import Method, assemble, make_inner, one_basis
from blockbasis.kernels import Kernel
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis
from blockbasis.partition import Partition
from blockbasis.ranks import Market, residual, worthwhile
from blockbasis.sampling import ENERGY_COLUMNS_PER_RANK, energy_sampling
from blockbasis.verification import (
    cut_bases,
    cut_inner,
    draw_check_rows,
    market_of,
    measure,
    smallest_within,
)

#: The pilot looks at clusters that hold this many points, and draws fewer columns for them.
_PILOT_POINTS = 3_000
_PILOT_COLUMNS_PER_RANK = 20
#: Before it, a glance at fewer points finds what ranks to look for.
_GLANCE_POINTS = 600
_GLANCE_RANK = 32
#: What is built over the planned ranks, so that the check can choose.
_OVERBUILD = 1.25
_OVERBUILD_MORE = 4
#: The check must show the tolerance met by this many standard errors.
_DEVIATIONS = 2.5
_MAX_ROUNDS = 12
#: Below this relative error |k|² - 2 k U cᵀ + |c|² cancels, and the error is not measured well.
SMALLEST_TOL = 1e-7


@dataclass(frozen=True)
class Goal:
    """What a factorization must keep: a relative error, or a number of stored floats.

    Parameters
    ----------
    tol : float or None
    memory : int or None
        Stored floats.
    ridge : float
        The error is relative to the norm of K + ridge I.
    """

    tol: float | None
    memory: int | None
    ridge: float = 0.0

    def allowed(self, norm: float, trace: float, n: int) -> float:
        """Squared error allowed, for the squared norm of K."""
        assert self.tol is not None
        return self.tol**2 * regularized_norm(norm, trace, n, self.ridge)


def regularized_norm(norm: float, trace: float, n: int, ridge: float) -> float:
    """Squared Frobenius norm of K + ridge I from that of K."""
    return norm + 2 * ridge * trace + n * ridge**2


@dataclass(frozen=True)
class Plan:
    """What a factorization will cost, before it is built; `factorize` executes it.

    Parameters
    ----------
    n_clusters : int
    ranks : ndarray of shape (n_clusters,)
        Expected rank of each cluster: the mean, since the pilot looks at some clusters only.
    stored : int
        Floats that a product will read.
    nbytes : int
        Bytes that the factorization will keep, the extension too.
    entries : int
        Kernel entries that will be evaluated.
    predicted_error : float
        Relative Frobenius error.
    seconds : float
        Time that the factorization will take on this machine.
    """

    n_clusters: int
    ranks: IntArray = field(repr=False)
    stored: int
    nbytes: int
    entries: int
    predicted_error: float
    seconds: float
    goal: Goal = field(repr=False)
    partition: Partition = field(repr=False)
    price: float = field(repr=False)
    shape: tuple[int, int] = field(repr=False)

    def __str__(self) -> str:
        n = self.partition.n_points
        dense = n * n
        lines = [
            f"Plan for a kernel matrix of {n:,} points",
            f"  clusters         {self.n_clusters}, mean rank {self.ranks.mean():.1f}",
            f"  stored           {self.stored:,} floats: {self.stored / n:.1f} per point",
            f"  dense matrix     {dense:,} floats: {dense / max(self.stored, 1):.1f} times more",
            f"  memory kept      {self.nbytes / 1e6:,.1f} MB",
            f"  kernel entries   {self.entries:,}: {self.entries / dense:.1%} of the matrix",
            f"  predicted error  {self.predicted_error:.2g}",
            f"  time             {self.seconds:.1f} s",
        ]
        return "\n".join(lines)


# --- the pilot -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pilot:
    """One number of clusters, looked at."""

    partition: Partition
    market: Market
    ranks: IntArray
    price: float
    trace: float
    seconds_per_work: float

    @property
    def stored(self) -> float:
        return self.market.stored(self.ranks)

    @property
    def error(self) -> float:
        return self.market.error(self.ranks)


def make_plan(
    X: FloatArray,
    kernel: Kernel,
    goal: Goal,
    method: Method,
    partition_of: Callable[[int, np.random.Generator], Partition],
    n_clusters: int | None,
    rng: np.random.Generator,
    n_jobs: int,
    done: Callable[[], None] | None = None,
) -> Plan:
    """Number of clusters and ranks for a goal; the number is searched by doubling when it is not given."""
    seen: dict[int, _Pilot] = {}
    rank: int | None = None

    def look(k: int) -> _Pilot:
        nonlocal rank
        if k not in seen:
            (child,) = rng.spawn(1)
            partition = partition_of(k, child)
            if rank is None:  # a first glance finds the order of magnitude
                glance = _pilot(X, kernel, goal, method, partition, _GLANCE_RANK, _GLANCE_POINTS, child, n_jobs)
                rank = _with_reserve(glance.ranks)
            seen[k] = _pilot(X, kernel, goal, method, partition, rank, _PILOT_POINTS, child, n_jobs)
            rank = _with_reserve(seen[k].ranks)
            if done is not None:
                done()
        return seen[k]

    best = look(n_clusters) if n_clusters is not None else _search(look, X.shape[0], goal)
    return _plan_of(best, goal, method, X)


def default_clusters(n: int) -> int:
    """Number of clusters that the search starts from: near the best for bandwidths of interest."""
    return max(1, round(math.sqrt(n) / 4))


def _search(look: Callable[[int], _Pilot], n: int, goal: Goal) -> _Pilot:
    """Doubling and halving from the default, while that pays: the minimum over k is flat."""
    largest = max(1, min(n, int(4 * math.sqrt(n))))

    def cost(pilot: _Pilot) -> float:
        return pilot.stored if goal.tol is not None else pilot.error

    start = min(default_clusters(n), largest)
    best = look(start)
    steps: tuple[Callable[[int], int], ...] = (lambda k: min(2 * k, largest), lambda k: max(k // 2, 1))
    for step in steps:
        k = start
        while step(k) != k and cost(look(step(k))) < cost(best):
            k = step(k)
            best = look(k)
        if k != start:
            break
    return best


def _with_reserve(ranks: IntArray) -> int:
    return int(_OVERBUILD * float(ranks.mean())) + _OVERBUILD_MORE


def _pilot(
    X: FloatArray,
    kernel: Kernel,
    goal: Goal,
    method: Method,
    partition: Partition,
    rank: int,
    points: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> _Pilot:
    """Spectra of some clusters, at ranks raised until the goal is in sight."""
    matrix = KernelMatrix(kernel, X[partition.order])
    chosen, weights = _some_clusters(partition, points, rng)
    sizes = partition.sizes[chosen]
    trace = float(weights @ [matrix.diagonal(partition.cluster(int(i))).sum() for i in chosen])
    streams = rng.spawn(len(chosen))
    highest = np.minimum(rank, sizes)
    spectra: list[Spectrum] = [None] * len(chosen)  # type: ignore[list-item]
    todo = np.arange(len(chosen))
    while True:
        start = time.perf_counter()

        def one(position: int) -> Spectrum:
            cluster = partition.cluster(int(chosen[position]))
            rank = int(highest[position])
            columns = energy_sampling(matrix, cluster, partition, _PILOT_COLUMNS_PER_RANK * rank, streams[position])
            return sampled_spectrum(matrix, cluster, columns, rank, streams[position])

        for position, spectrum in zip(todo, map_threads(one, [(int(p),) for p in todo], n_jobs), strict=True):
            spectra[position] = spectrum
        work = float((sizes[todo] * highest[todo] ** 2).sum()) + 1.0
        seconds_per_work = (time.perf_counter() - start) / work
        market = Market(len(X), sizes, weights, spectra, method.diagonal)
        ranks, price = _ranks_for(goal, market, trace)
        # A rank within the oversampled end of its spectrum is cut off by what was computed, not by its worth.
        todo = np.flatnonzero((ranks > highest - 1) & (highest < sizes))
        if price is None:
            left = np.array([residual(spectrum, len(spectrum.values)) for spectrum in spectra])
            fair = goal.allowed(market.norm, trace, len(X)) * sizes / len(X)
            todo = np.flatnonzero((left > fair / 2) & (highest < sizes))
        if not len(todo):
            return _Pilot(partition, market, ranks, price or 0.0, trace, seconds_per_work)
        highest[todo] = np.minimum(2 * highest[todo], sizes[todo])


def _ranks_for(goal: Goal, market: Market, trace: float) -> tuple[IntArray, float | None]:
    """Ranks and price of a goal; the price is None where the spectra end before the goal is reached."""
    if goal.memory is not None:
        ranks = market.affordable(goal.memory)
        values = [s.values[min(r, len(s.values)) - 1] for s, r in zip(market.spectra, ranks, strict=True)]
        total = market.total(ranks)
        return ranks, float(np.median(np.array(values) / (market.sizes + total)))
    allowed = goal.allowed(market.norm, trace, market.n_points)
    price = market.price_within(lambda ranks: market.error(ranks) <= allowed)
    return market.ranks(price or 0.0), price


def _some_clusters(partition: Partition, points: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Clusters that hold about ``points`` points, and how many clusters each stands for.

    Large clusters hold most of the memory and of the error, so they are drawn with a chance that follows their size:
    the k-th of equal steps through all points falls into the cluster drawn.
    """
    n, sizes = partition.n_points, partition.sizes
    largest = np.sort(sizes)[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(largest), min(points, n))) + 1)
    steps = (np.arange(count) + rng.random()) * n / count
    order = rng.permutation(partition.n_clusters)
    hit = order[np.searchsorted(np.cumsum(sizes[order]), steps, side="right")]
    chosen = np.unique(hit)
    return chosen, 1 / np.minimum(1, count * sizes[chosen] / n)


def _plan_of(pilot: _Pilot, goal: Goal, method: Method, X: FloatArray) -> Plan:
    n, d = X.shape
    market, partition = pilot.market, pilot.partition
    total = market.total(pilot.ranks)
    mean = total / partition.n_clusters
    ranks = np.minimum(max(round(mean), 1), partition.sizes)
    entries = n * min(ENERGY_COLUMNS_PER_RANK * mean * _OVERBUILD, n) + min(INNER_ROWS_PER_RANK * total, n) ** 2 / 2
    extension = total * 2 * (d + mean)
    work = float((market.weights * market.sizes) @ (_OVERBUILD * pilot.ranks + _OVERBUILD_MORE) ** 2)
    norm = regularized_norm(market.norm, pilot.trace, n, goal.ridge)
    return Plan(
        n_clusters=partition.n_clusters,
        ranks=ranks,
        stored=int(pilot.stored),
        nbytes=int(X.itemsize * (pilot.stored + extension) + 8 * n),
        entries=int(entries),
        predicted_error=math.sqrt(pilot.error / norm) if norm else 0.0,
        seconds=2 * pilot.seconds_per_work * work + 3e-8 * entries / 2 + 2e-10 * total**3,
        goal=goal,
        partition=partition,
        price=pilot.price,
        shape=(n, d),
    )


# --- building to a goal ----------------------------------------------------------------------------------------------


def build_to_goal(
    matrix: KernelMatrix,
    plan: Plan,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
    done: Callable[[], None] | None = None,
) -> BlockBasis:
    """The factorization of a plan, checked, raised where the error sits and cut to its goal."""
    partition, goal = plan.partition, plan.goal
    n = partition.n_points
    trace = float(sum(matrix.diagonal(cluster).sum() for cluster in partition.clusters))
    of_bases, of_inner, of_checks = rng.spawn(3)
    streams = of_bases.spawn(partition.n_clusters)
    price, total = plan.price, float(plan.ranks.mean()) * partition.n_clusters
    guesses = np.full(partition.n_clusters, _with_reserve(plan.ranks))
    bases: list[ClusterBasis | None] = [None] * partition.n_clusters
    for_inner = 0
    while True:
        todo = [i for i, basis in enumerate(bases) if basis is None]
        tasks = [(matrix, partition, i, int(guesses[i]), price, total, method, streams[i]) for i in todo]
        for i, basis in zip(todo, map_threads(_priced_basis, tasks, n_jobs, done), strict=True):
            bases[i] = basis
        built = [basis for basis in bases if basis is not None]
        before = matrix.entries
        inner, cut = make_inner(matrix, partition, built, method, of_inner, n_jobs)
        for_inner += matrix.entries - before
        dense = inner.todense()
        checks = draw_check_rows(matrix, partition, built, of_checks, n_jobs)
        ranks = np.array([basis.vectors.shape[1] for basis in built])
        measured = measure(checks, built, dense, ranks, diagonal=method.diagonal)
        if goal.memory is not None:
            ranks = market_of(built, dense, diagonal=method.diagonal).affordable(goal.memory)
            break
        allowed = goal.allowed(measured.norm, trace, n)
        if measured.upper(_DEVIATIONS) <= allowed:
            market = market_of(built, dense, diagonal=method.diagonal)
            ranks = smallest_within(market, checks, built, dense, allowed, _DEVIATIONS)
            break
        if all(ranks >= partition.sizes):
            break
        price *= min(0.5, allowed / max(measured.upper(_DEVIATIONS), 1e-300))
        total = float(ranks.sum())
        fair = allowed * partition.sizes / n
        for i in range(partition.n_clusters):
            if measured.per_cluster[i] > fair[i] / 2 and ranks[i] < partition.sizes[i]:
                guesses[i] = max(int(1.4 * ranks[i]) + _OVERBUILD_MORE, int(ranks[i]) + 1)
                bases[i] = None
    measured = measure(checks, built, dense, ranks, diagonal=method.diagonal)
    norm = regularized_norm(measured.norm, trace, n, goal.ridge)
    return assemble(
        matrix,
        partition,
        cut_bases(built, ranks),
        cut_inner(inner, ranks),
        cut,
        method,
        for_inner,
        measured.relative(norm),
    )


def _priced_basis(
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    guess: int,
    price: float,
    total: float,
    method: Method,
    rng: np.random.Generator,
) -> ClusterBasis:
    """Basis with the vectors that are worth ``price``, and some more; computed again while all of them are."""
    cluster = partition.cluster(i)
    size = cluster.stop - cluster.start
    cost = price * (size + total)

    def keep(spectrum: Spectrum) -> int:
        return int(math.ceil(_OVERBUILD * worthwhile(spectrum, cost))) + _OVERBUILD_MORE

    rank = min(guess, size)
    while True:
        basis = one_basis(matrix, cluster, partition, rank, method, rng, keep=keep)
        assert basis.spectrum is not None
        if rank == size or worthwhile(basis.spectrum, cost) <= rank:
            return basis
        rank = min(2 * rank, size)
