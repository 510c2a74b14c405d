"""One number of clusters, looked at: spectra of some clusters, which stand for all, and what they say of a goal."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.partition import Partition
from blockbasis.plans import Goal, Job
from blockbasis.ranks import Market, highest_in_part, with_reserve
from blockbasis.sampling import attentive_sampling
from blockbasis.settling import DIAGONAL_ROUNDS, Spectrum, sampled_spectrum

#: Columns drawn for a cluster: fewer than its basis will take.
_COLUMNS_PER_RANK = 20
_COLUMNS = 500
#: Ranks that will be built below this part of those looked at want a look of their own, so many times: D takes the
#: more, the less U holds.
_MUCH_HIGHER = 0.75
_LOWERINGS = 2
#: Where the pilot may look at this part of the points, it looks at all.
_MOST_SEEN = 0.5


@dataclass(frozen=True)
class Pilot:
    """Spectra of some clusters, and what they say of the goal."""

    partition: Partition
    chosen: IntArray
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


def look_at(job: Job, partition: Partition, rank: int, points: int, rng: np.random.Generator) -> Pilot:
    """Spectra of clusters that hold about ``points`` points, up to ``rank`` at first.

    They are looked at higher where they end too early, until the goal is in sight or plainly out of it, then lower
    where they were too high.
    """
    matrix = job.matrix(partition)
    chosen, weights = _some_clusters(partition, points, rng)
    sizes = partition.sizes[chosen]
    highest = np.minimum(rank, highest_in_part(sizes))
    streams = rng.spawn(len(chosen))
    spectra: list[Spectrum] = [None] * len(chosen)  # type: ignore[list-item]
    seconds = np.zeros(len(chosen))
    rounds = DIAGONAL_ROUNDS if job.method.diagonal else 0

    def one(position: int) -> tuple[Spectrum, float]:
        start = time.thread_time()
        cluster, rank = partition.cluster(int(chosen[position])), int(highest[position])
        n_columns, stream = max(_COLUMNS_PER_RANK * rank, _COLUMNS), streams[position]
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
        market = _in_reach(job.goal, Market(partition.n_points, sizes, weights, spectra, job.method.diagonal))
        ranks, price = _ranks_for(job.goal, market)
        todo = _too_low(job, market, highest, ranks)
        if len(todo):
            highest[todo] = np.minimum(2 * highest[todo], highest_in_part(sizes[todo]))
            continue
        built = with_reserve(ranks, sizes)
        todo = np.flatnonzero(built < _MUCH_HIGHER * highest)
        if not len(todo) or not lowerings:
            return Pilot(partition, chosen, market, ranks, price, seconds)
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
        last = np.array([each[r - 1] for each, r in zip(market.gains, ranks, strict=True)])
        prices = last / (market.sizes + market.total(ranks))
        # A cluster of points without neighbours has nothing to gain from its next vector.
        return ranks, float(np.median(prices[prices > 0])) if (prices > 0).any() else 0.0

    price = market.price_within(lambda ranks: _enough(goal, market, ranks)) or 0.0
    return market.ranks(price), price


def _in_reach(goal: Goal, market: Market) -> Market:
    """The market; where no ranks beside a diagonal part keep the tolerance, the one with clusters built whole."""
    if goal.tol is None or _enough(goal, market, market.ranks(0.0)):
        return market
    return replace(market, whole=True)


def _enough(goal: Goal, market: Market, ranks: IntArray) -> bool:
    error = market.error(ranks)
    return error <= goal.allowed(market.norm, error, market.largest(ranks))


def _some_clusters(partition: Partition, points: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Clusters that hold about ``points`` points, and how many clusters each stands for.

    Large clusters hold most of the memory and of the error, so they are drawn with a chance that follows their size:
    the k-th of equal steps through all points falls into the cluster drawn. A cluster not drawn is taken to be like the
    one nearest to it in size.
    """
    n, sizes = partition.n_points, partition.sizes
    if points >= _MOST_SEEN * n:
        return np.arange(partition.n_clusters), np.ones(partition.n_clusters)
    largest = np.sort(sizes)[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(largest), points)) + 1)
    steps = (np.arange(count) + rng.random()) * n / count
    order = rng.permutation(partition.n_clusters)
    chosen = np.unique(order[np.searchsorted(np.cumsum(sizes[order]), steps, side="right")])
    alike = np.argmin(np.abs(np.log(sizes[:, np.newaxis]) - np.log(sizes[chosen])), axis=1)
    alike[chosen] = np.arange(len(chosen))
    return chosen, np.bincount(alike, minlength=len(chosen)).astype(np.float64)
