"""A tolerance or a memory budget into a plan: the number of clusters, the ranks, and what they will cost.

The plan comes from pilots: bases of some clusters, whose spectra stand for all.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from blockbasis import costs
from blockbasis._machine import available_memory
from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import DIAGONAL_ROUNDS, Spectrum, sampled_spectrum
from blockbasis.construction import Method
from blockbasis.kernels import Kernel
from blockbasis.matrix import Counter, KernelMatrix
from blockbasis.partition import Partition
from blockbasis.ranks import Market, gains
from blockbasis.sampling import attentive_sampling

#: The pilot looks at clusters that hold this many points, and draws fewer columns for them; once more at more points
#: when the number of clusters is known, since a few clusters may hold most of the error, unless it has seen most.
_PILOT_POINTS = 5_000
_LAST_PILOT_POINTS = 8_000
_SEEN_ENOUGH = 0.45
#: Ranks that will be built below this part of those looked at want a look of their own, so many times: D takes the
#: more, the less U holds.
_MUCH_HIGHER = 0.75
_LOWERINGS = 2
_WHOLE_SHARE = 0.75
#: Ranks follow the size of the clusters by about this power.
_RANK_POWER = 0.7
_PILOT_COLUMNS_PER_RANK = 20
_PILOT_COLUMNS = 500
#: Before it, a glance at fewer points finds what ranks to look for.
_GLANCE_POINTS = 600
_GLANCE_RANK = 32
#: What is built over the planned ranks, so that the check can choose.
_OVERBUILD = 1.25
_OVERBUILD_MORE = 4
#: A basis takes so many times its pilot: twice the columns, and their extension.
_BASIS_PER_PILOT = 2.0
#: When compression does not pay, the tolerance is named that a quarter of the dense matrix would hold.
_WORTHWHILE = 4


@dataclass(frozen=True)
class Goal:
    """What a factorization must keep: a relative error, or a number of stored floats.

    Parameters
    ----------
    tol : float or None
    memory : int or None
        Stored floats.
    ridge : float
        What is added to the diagonal before a system is solved; zero when nothing is known of it.
    """

    tol: float | None
    memory: int | None
    ridge: float = 0.0

    def allowed(self, norm: float, error: float = 0.0, spectral: float = math.inf) -> float:
        """Squared error allowed, for the squared norm of K; and for the squared error and its squared spectral norm.

        No solution of (K + ridge I) x = b changes by more than |E|₂ / ridge, when A is positive semi-definite. Where
        that is within the tolerance before |E| / |K| is, the rest does not matter: what is allowed is the error
        at which its spectral norm would be tol times ridge.
        """
        assert self.tol is not None
        if self.ridge == 0:
            return self.tol**2 * norm
        return self.tol**2 * max(norm, error * self.ridge**2 / spectral if spectral > 0 else math.inf)


@dataclass(frozen=True)
class Job:
    """What is to be compressed, and how."""

    X: FloatArray
    kernel: Kernel
    goal: Goal
    method: Method
    n_jobs: int
    counter: Counter = field(default_factory=Counter)

    @property
    def dense(self) -> int:
        """Floats of the dense matrix."""
        return costs.dense_floats(int(self.X.shape[0]))

    def matrix(self, partition: Partition) -> KernelMatrix:
        return KernelMatrix(self.kernel, self.X[partition.order], counter=self.counter)


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """What a factorization will be and cost, before it is built: see `blockbasis.plan`.

    Parameters
    ----------
    goal : Goal
    method : Method
    partition : Partition
    ranks : ndarray of shape (n_clusters,)
        Expected; those built may differ, since they are checked.
    price : float
        Squared error that a stored float must remove to be worth it.
    kernel : Kernel
    fingerprint : ndarray of shape (n_features,)
        Of the points: a plan is for these, in this order, only.
    dtype : dtype
    entries : int
        Kernel entries that will be evaluated.
    predicted_error : float
        Relative Frobenius error.
    seconds : float
        Time to build, on this machine with the threads asked for.
    fitting_tol : float or None
        Where compression does not pay, or does not fit into free memory: the tolerance that would.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> plan = bb.plan(X, bb.Gaussian(3.0), memory=20_000, rng=0)
    >>> plan.stored <= 20_000 and plan.fitting_tol is None
    True
    """

    goal: Goal
    method: Method
    partition: Partition
    ranks: IntArray
    price: float
    kernel: Kernel
    fingerprint: FloatArray
    dtype: np.dtype[np.floating]
    entries: int
    predicted_error: float
    seconds: float
    fitting_tol: float | None

    def __post_init__(self) -> None:
        for array in (self.ranks, self.fingerprint):
            array.setflags(write=False)

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters

    @property
    def n_features(self) -> int:
        return len(self.fingerprint)

    @property
    def dense(self) -> int:
        """Floats of the dense matrix."""
        return costs.dense_floats(self.partition.n_points)

    @property
    def stored(self) -> int:
        """Floats that a product will read, all blocks of C among them: a cutoff may drop some."""
        return costs.stored_floats(self.partition.sizes, self.ranks, diagonal=self.method.diagonal)

    @property
    def nbytes(self) -> int:
        """Bytes of everything that will be kept."""
        sizes, built, itemsize = self.partition.sizes, self._built, self.dtype.itemsize
        return costs.kept_bytes(sizes, self.ranks, built, self.n_features, itemsize, diagonal=self.method.diagonal)

    @property
    def working_bytes(self) -> int:
        """Bytes that building it takes at its height."""
        sizes, itemsize = self.partition.sizes, self.dtype.itemsize
        building = costs.working_bytes(sizes, self._built, self.n_features, itemsize, self._threads)
        return building + (costs.spectral_check_bytes(self.partition.n_points) if self.goal.ridge else 0)

    @property
    def remedy(self) -> str:
        """What to ask for instead, where it does not pay or does not fit."""
        if self.goal.memory is not None:
            return "a smaller memory"
        return f"tol={self.fitting_tol:.2g} or a larger bandwidth" if self.fitting_tol else "a larger tol or bandwidth"

    @property
    def _built(self) -> IntArray:
        return with_reserve(self.ranks, self.partition.sizes)

    @property
    def _threads(self) -> int:
        return min(os.cpu_count() or 1, self.n_clusters)

    def __repr__(self) -> str:
        n = self.partition.n_points
        per_point, share = self.stored / n, self.stored / self.dense
        asked = f"memory={self.goal.memory}" if self.goal.tol is None else f"tol={self.goal.tol:g}"
        lines = [
            f"Plan for {n} points, {asked}",
            f"  clusters         {self.n_clusters}",
            f"  ranks            {self.ranks.min()} to {self.ranks.max()}, {self.ranks.mean():.1f} on average",
            f"  stored           {self.stored} floats, {per_point:.1f} per point, {share:.2%} of the dense matrix",
            f"  bytes            {self.nbytes / 1e6:.1f} MB kept, {self.working_bytes / 1e6:.1f} MB while it is built",
            f"  kernel entries   {self.entries}, {self.entries / self.dense:.2%} of the dense matrix",
            f"  predicted error  {self.predicted_error:.2g}",
            f"  time             {self.seconds:.1f} s",
        ]
        if self.fitting_tol is not None:
            lines.append(f"  too large        {self.remedy} would fit")
        return "\n".join(lines)


# --- the search for the number of clusters ---------------------------------------------------------------------------


def make_plan(
    job: Job,
    partition_of: Callable[[int, np.random.Generator], Partition],
    n_clusters: int | None,
    rng: np.random.Generator,
) -> Plan:
    """Number of clusters and ranks for a goal; the number is searched by doubling when it is not given."""
    seen: dict[int, _Pilot] = {}
    rank: int | None = None
    last = 0

    def look(k: int) -> _Pilot:
        nonlocal rank, last
        if k not in seen:
            (child,) = rng.spawn(1)
            partition = partition_of(k, child)
            if rank is None:  # a first glance finds the order of magnitude
                rank = _next_rank(_pilot(job, partition, _GLANCE_RANK, _GLANCE_POINTS, child))
            else:
                rank = max(1, round(rank * (last / k) ** _RANK_POWER))
            seen[k] = _pilot(job, partition, rank, _PILOT_POINTS, child)
            rank, last = _next_rank(seen[k]), k
        return seen[k]

    best = look(n_clusters) if n_clusters is not None else _search(look, job)
    _check_budget(job, best.partition)
    if best.market.sizes.sum() < _SEEN_ENOUGH * best.partition.n_points:
        best = _pilot(job, best.partition, _next_rank(best), _LAST_PILOT_POINTS, rng)
    return _plan_of(job, best)


def fingerprint(X: FloatArray) -> FloatArray:
    """Sums of the columns, each point weighed by its place: other points, or another order, have others."""
    return np.asarray(np.linspace(1, 2, X.shape[0]) @ X)


def default_clusters(n: int) -> int:
    """Number of clusters that the search starts from: near the best for bandwidths of interest."""
    return max(1, round(math.sqrt(n) / 4))


def _least_stored(job: Job, n_clusters: int) -> int:
    """Floats of one vector for each cluster: no factorization of so many clusters stores less."""
    n = int(job.X.shape[0])
    return n + costs.dense_floats(n_clusters) + (n if job.method.diagonal else 0)


def _check_budget(job: Job, partition: Partition) -> None:
    least = _least_stored(job, partition.n_clusters)
    if job.goal.memory is not None and job.goal.memory < least:
        raise ValueError(
            f"The 'memory' parameter must be at least {least} floats for {partition.n_clusters} clusters. Got "
            f"{job.goal.memory} instead: take more memory, or fewer clusters."
        )


def _most_clusters(job: Job) -> int:
    """The largest number of clusters that is looked at, and that a budget has room for."""
    n = int(job.X.shape[0])
    most = max(1, min(n, int(4 * math.sqrt(n))))
    while job.goal.memory is not None and most > 1 and _least_stored(job, most) > job.goal.memory:
        most -= 1
    return most


def _search(look: Callable[[int], _Pilot], job: Job) -> _Pilot:
    """Doubling and halving from the default, while that pays: the minimum over k is flat."""
    largest = _most_clusters(job)

    def cost(pilot: _Pilot) -> float:
        return pilot.stored if job.goal.tol is not None else pilot.error

    start = min(default_clusters(job.X.shape[0]), largest)
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


def with_reserve(ranks: IntArray, sizes: IntArray) -> IntArray:
    """Ranks to build, so that a check can choose among them; a cluster is kept whole only where it must be."""
    most = highest_in_part(sizes)
    return np.where(ranks > most, sizes, np.minimum(_reserved(ranks), most))


def _reserved(ranks: IntArray) -> IntArray:
    return np.asarray(np.ceil(_OVERBUILD * ranks) + _OVERBUILD_MORE, dtype=np.intp)


def highest_in_part(sizes: IntArray) -> IntArray:
    """Ranks above which a cluster is kept whole: a basis that leaves next to nothing shows nothing of D."""
    return np.asarray(np.ceil(_WHOLE_SHARE * sizes), dtype=np.intp)


def _next_rank(pilot: _Pilot) -> int:
    return int(_reserved(np.ceil(pilot.ranks.mean())))


# --- one number of clusters, looked at -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pilot:
    """Spectra of some clusters, and what they say of the goal."""

    partition: Partition
    chosen: IntArray
    highest: IntArray
    market: Market
    ranks: IntArray
    price: float
    seconds: FloatArray

    @property
    def stored(self) -> float:
        return self.market.stored(self.ranks)

    @property
    def error(self) -> float:
        return self.market.error(self.ranks)


def _pilot(job: Job, partition: Partition, rank: int, points: int, rng: np.random.Generator) -> _Pilot:
    """Spectra of some clusters, at ranks raised until the goal is in sight, or plainly out of it."""
    chosen, weights = _some_clusters(partition, points, rng)
    return _look(job, partition, chosen, weights, np.minimum(rank, highest_in_part(partition.sizes[chosen])), rng)


def _look(
    job: Job,
    partition: Partition,
    chosen: IntArray,
    weights: FloatArray,
    highest: IntArray,
    rng: np.random.Generator,
) -> _Pilot:
    """Spectra of the chosen clusters: higher where they end too early, then lower where they were too high."""
    matrix = job.matrix(partition)
    sizes = partition.sizes[chosen]
    streams = rng.spawn(len(chosen))
    spectra: list[Spectrum] = [None] * len(chosen)  # type: ignore[list-item]
    seconds = np.zeros(len(chosen))
    rounds = DIAGONAL_ROUNDS if job.method.diagonal else 0

    def one(position: int) -> tuple[Spectrum, float]:
        start = time.thread_time()
        cluster, rank = partition.cluster(int(chosen[position])), int(highest[position])
        n_columns, stream = max(_PILOT_COLUMNS_PER_RANK * rank, _PILOT_COLUMNS), streams[position]
        seen = attentive_sampling(matrix, cluster, partition, n_columns, stream)
        every = len(seen.columns) == matrix.shape[1]
        fresh = None if every else attentive_sampling(matrix, cluster, partition, n_columns // 2, stream)
        spectrum = sampled_spectrum(matrix, cluster, seen, fresh, rank, stream, rounds)
        return _to_its_end(spectrum, int(sizes[position])), time.thread_time() - start

    todo = np.arange(len(chosen))
    lowerings = _LOWERINGS if job.method.diagonal else 0
    while True:
        looked = map_threads(one, [(int(p),) for p in todo], job.n_jobs, f"look at {partition.n_clusters} clusters")
        for position, (spectrum, taken) in zip(todo, looked, strict=True):
            spectra[position], seconds[position] = spectrum, taken
        market = Market(partition.n_points, sizes, weights, spectra, job.method.diagonal)
        ranks, price = _ranks_for(job.goal, market)
        todo = _too_low(job, market, highest, ranks)
        if len(todo):
            highest[todo] = np.minimum(2 * highest[todo], highest_in_part(sizes[todo]))
            continue
        built = with_reserve(ranks, sizes)
        todo = np.flatnonzero(built < _MUCH_HIGHER * highest)
        if not len(todo) or not lowerings:
            return _Pilot(partition, chosen, highest, market, ranks, price, seconds)
        highest[todo] = built[todo]
        lowerings -= 1


def _to_its_end(spectrum: Spectrum, size: int) -> Spectrum:
    """The spectrum up to the rank at which nothing is left: what was not looked at, spread evenly."""
    more = size - len(spectrum.values)
    rest = np.full(more, spectrum.tail / more) if more else np.empty(0)
    return replace(
        spectrum,
        values=np.concatenate((spectrum.values, rest)),
        tail=0.0,
        regained=np.concatenate((spectrum.regained, np.zeros(more))),
    )


def _too_low(job: Job, market: Market, highest: IntArray, ranks: IntArray) -> IntArray:
    """Clusters whose rank is not among those looked at."""
    if market.stored(np.minimum(ranks, highest)) > job.dense:  # not to be reached in less than the matrix itself
        return np.empty(0, dtype=np.intp)
    # A rank within the oversampled end of its spectrum is cut off by what was computed, not by its worth.
    return np.flatnonzero((ranks > highest - 1) & (highest < highest_in_part(market.sizes)))


def _ranks_for(goal: Goal, market: Market) -> tuple[IntArray, float]:
    """Ranks and price of a goal."""
    if goal.memory is not None:
        ranks = market.affordable(goal.memory)
        last = np.array([gains(s)[r - 1] for s, r in zip(market.spectra, ranks, strict=True)])
        return ranks, float(np.median(last / (market.sizes + market.total(ranks))))

    def enough(ranks: IntArray) -> bool:
        error = market.error(ranks)
        return error <= goal.allowed(market.norm, error, market.largest(ranks))

    price = market.price_within(enough) or 0.0
    return market.ranks(price), price


def _some_clusters(partition: Partition, points: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Clusters that hold about ``points`` points, and how many clusters each stands for.

    Large clusters hold most of the memory and of the error, so they are drawn with a chance that follows their size:
    the k-th of equal steps through all points falls into the cluster drawn.
    """
    n, sizes = partition.n_points, partition.sizes
    if points >= n:
        return np.arange(partition.n_clusters), np.ones(partition.n_clusters)
    largest = np.sort(sizes)[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(largest), points)) + 1)
    steps = (np.arange(count) + rng.random()) * n / count
    order = rng.permutation(partition.n_clusters)
    hit = order[np.searchsorted(np.cumsum(sizes[order]), steps, side="right")]
    chosen = np.unique(hit)
    weights = 1 / np.minimum(1, count * sizes[chosen] / n)
    return chosen, weights * n / float(weights @ sizes[chosen])  # together they stand for all points, no more or fewer


# --- the plan of a pilot ---------------------------------------------------------------------------------------------


def _plan_of(job: Job, pilot: _Pilot) -> Plan:
    partition, sizes = pilot.partition, pilot.partition.sizes
    ranks = np.clip(np.rint(_by_size(pilot, pilot.ranks)), 1, sizes).astype(np.intp)
    built = with_reserve(ranks, sizes)
    for_bases = _BASIS_PER_PILOT * _by_size(pilot, pilot.seconds)
    rates = costs.measure_rates(job.matrix(partition))
    threads = min(job.n_jobs, os.cpu_count() or 1, partition.n_clusters)
    plan = Plan(
        job.goal,
        job.method,
        partition,
        ranks,
        pilot.price,
        job.kernel,
        fingerprint(job.X),
        job.X.dtype,
        costs.needed_entries(sizes, built, exact_inner=job.method.inner == "exact"),
        _relative(pilot.market, pilot.error),
        costs.building_seconds(sizes, built, rates, for_bases, threads),
        None,
    )
    return _with_fitting_tol(job, pilot, plan)


def _by_size(pilot: _Pilot, values: FloatArray | IntArray) -> FloatArray:
    """A figure known for some clusters, for all: by the clusters nearest in size."""
    known = pilot.market.sizes
    order = np.argsort(known, kind="stable")
    result = np.interp(pilot.partition.sizes, known[order], values[order])
    result[pilot.chosen] = values
    return result


def _relative(market: Market, error: float) -> float:
    return math.sqrt(error / market.norm) if market.norm > 0 else 0.0


def _with_fitting_tol(job: Job, pilot: _Pilot, plan: Plan) -> Plan:
    """The plan, with the tolerance that would pay where its own does not."""
    free = available_memory()
    fits = free is None or plan.working_bytes <= free
    if fits and (costs.pays(plan.stored, plan.partition.n_points) or job.goal.memory is not None):
        return plan
    budget = job.dense / _WORTHWHILE
    if free is not None and not fits:
        budget = min(budget, plan.stored * free / plan.working_bytes / 2)
    budget = max(int(budget), costs.stored_floats(plan.partition.sizes, np.ones_like(plan.ranks), diagonal=True))
    error = pilot.market.error(pilot.market.affordable(budget))
    return replace(plan, fitting_tol=_relative(pilot.market, error))
