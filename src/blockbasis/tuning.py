"""A tolerance or a memory budget into the number of clusters and the ranks, and into a factorization that keeps it.

The plan comes from a pilot: bases of some clusters, whose spectra stand for all. The factorization is then built a
little too large, checked against exact rows that it has not used, enlarged where the error sits if it must be, and cut
to the smallest ranks that do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import ClusterBasis, Spectrum, sampled_spectrum
from blockbasis.construction import Method, assemble, make_inner, one_basis
from blockbasis.inner import nearest_semidefinite
from blockbasis.kernels import Kernel
from blockbasis.matrix import Counter, KernelMatrix
from blockbasis.operator import BlockBasis
from blockbasis.partition import Partition
from blockbasis.ranks import Market, residual, worthwhile
from blockbasis.sampling import energy_sampling
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


@dataclass(frozen=True)
class Goal:
    """What a factorization must keep: a relative error, or a number of stored floats.

    Parameters
    ----------
    tol : float or None
    memory : int or None
        Stored floats.
    """

    tol: float | None
    memory: int | None

    def allowed(self, norm: float) -> float:
        """Squared error allowed, for the squared norm of K."""
        assert self.tol is not None
        return self.tol**2 * norm


@dataclass(frozen=True)
class Plan:
    """Clusters, and the price of a float at which their ranks keep a goal.

    Parameters
    ----------
    goal : Goal
    partition : Partition
    price : float
        Squared error that a stored float must remove to be worth it.
    mean_rank : float
        Expected, over all clusters.
    """

    goal: Goal
    partition: Partition
    price: float
    mean_rank: float


# --- the pilot -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pilot:
    """One number of clusters, looked at."""

    partition: Partition
    market: Market
    ranks: IntArray
    price: float

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
    counter: Counter,
    rng: np.random.Generator,
    n_jobs: int,
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
                glance = _pilot(
                    X, kernel, goal, method, partition, _GLANCE_RANK, _GLANCE_POINTS, counter, child, n_jobs
                )
                rank = _with_reserve(float(glance.ranks.mean()))
            seen[k] = _pilot(X, kernel, goal, method, partition, rank, _PILOT_POINTS, counter, child, n_jobs)
            rank = _with_reserve(float(seen[k].ranks.mean()))
        return seen[k]

    best = look(n_clusters) if n_clusters is not None else _search(look, X.shape[0], goal)
    return Plan(goal, best.partition, best.price, best.market.total(best.ranks) / best.partition.n_clusters)


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


def _with_reserve(rank: float) -> int:
    return math.ceil(_OVERBUILD * rank) + _OVERBUILD_MORE


def _pilot(
    X: FloatArray,
    kernel: Kernel,
    goal: Goal,
    method: Method,
    partition: Partition,
    rank: int,
    points: int,
    counter: Counter,
    rng: np.random.Generator,
    n_jobs: int,
) -> _Pilot:
    """Spectra of some clusters, at ranks raised until the goal is in sight."""
    matrix = KernelMatrix(kernel, X[partition.order], counter=counter)
    chosen, weights = _some_clusters(partition, points, rng)
    sizes = partition.sizes[chosen]
    streams = rng.spawn(len(chosen))
    highest = np.minimum(rank, sizes)
    spectra: list[Spectrum] = [None] * len(chosen)  # type: ignore[list-item]
    todo = np.arange(len(chosen))
    while True:

        def one(position: int) -> Spectrum:
            cluster = partition.cluster(int(chosen[position]))
            rank = int(highest[position])
            columns = energy_sampling(matrix, cluster, partition, _PILOT_COLUMNS_PER_RANK * rank, streams[position])
            return sampled_spectrum(matrix, cluster, columns, rank, streams[position])

        for position, spectrum in zip(todo, map_threads(one, [(int(p),) for p in todo], n_jobs), strict=True):
            spectra[position] = spectrum
        market = Market(len(X), sizes, weights, spectra, method.diagonal)
        ranks, price = _ranks_for(goal, market)
        # A rank within the oversampled end of its spectrum is cut off by what was computed, not by its worth.
        todo = np.flatnonzero((ranks > highest - 1) & (highest < sizes))
        if price is None:
            left = np.array([residual(spectrum, len(spectrum.values)) for spectrum in spectra])
            fair = goal.allowed(market.norm) * sizes / len(X)
            todo = np.flatnonzero((left > fair / 2) & (highest < sizes))
        if not len(todo):
            return _Pilot(partition, market, ranks, price or 0.0)
        highest[todo] = np.minimum(2 * highest[todo], sizes[todo])


def _ranks_for(goal: Goal, market: Market) -> tuple[IntArray, float | None]:
    """Ranks and price of a goal; the price is None where the spectra end before the goal is reached."""
    if goal.memory is not None:
        ranks = market.affordable(goal.memory)
        values = [s.values[min(r, len(s.values)) - 1] for s, r in zip(market.spectra, ranks, strict=True)]
        total = market.total(ranks)
        return ranks, float(np.median(np.array(values) / (market.sizes + total)))
    allowed = goal.allowed(market.norm)
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


# --- building to a goal ----------------------------------------------------------------------------------------------


def build_to_goal(
    matrix: KernelMatrix,
    plan: Plan,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> BlockBasis:
    """The factorization of a plan, checked, raised where the error sits and cut to its goal."""
    partition, goal = plan.partition, plan.goal
    n = partition.n_points
    of_bases, of_inner, of_checks = rng.spawn(3)
    streams = of_bases.spawn(partition.n_clusters)
    price, total = plan.price, plan.mean_rank * partition.n_clusters
    guesses = np.full(partition.n_clusters, _with_reserve(plan.mean_rank))
    bases: list[ClusterBasis | None] = [None] * partition.n_clusters
    for_inner, planning = 0, matrix.entries
    while True:
        todo = [i for i, basis in enumerate(bases) if basis is None]
        tasks = [(matrix, partition, i, int(guesses[i]), price, total, method, streams[i]) for i in todo]
        for i, basis in zip(todo, map_threads(_priced_basis, tasks, n_jobs), strict=True):
            bases[i] = basis
        built = [basis for basis in bases if basis is not None]
        before = matrix.entries
        inner, cut = make_inner(matrix, partition, built, method, of_inner, n_jobs)
        for_inner += matrix.entries - before
        if cut is None or cut.dropped == 0:  # before the check, so that what is checked is what is returned
            inner = nearest_semidefinite(inner)
        dense = inner.todense()
        before = matrix.entries
        checks = draw_check_rows(matrix, partition, built, of_checks, n_jobs)
        planning += matrix.entries - before
        ranks = np.array([basis.vectors.shape[1] for basis in built])
        measured = measure(checks, built, dense, ranks, diagonal=method.diagonal)
        if goal.memory is not None:
            ranks = market_of(built, dense, diagonal=method.diagonal).affordable(goal.memory)
            break
        allowed = goal.allowed(measured.norm)
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
    return assemble(
        matrix,
        partition,
        cut_bases(built, ranks),
        cut_inner(inner, ranks),
        cut,
        method,
        for_inner,
        planning,
        measured.relative(),
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
        return _with_reserve(worthwhile(spectrum, cost))

    rank = min(guess, size)
    while True:
        basis = one_basis(matrix, cluster, partition, rank, method, rng, keep=keep)
        assert basis.spectrum is not None
        if rank == size or worthwhile(basis.spectrum, cost) <= rank:
            return basis
        rank = min(2 * rank, size)
