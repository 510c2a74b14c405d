"""A tolerance or a memory budget into a plan: the number of clusters is searched by pilots of some of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from blockbasis import costs
from blockbasis._machine import available_memory
from blockbasis._typing import FloatArray, IntArray
from blockbasis.partition import Partition
from blockbasis.pilots import Pilot, look_at
from blockbasis.plans import Job, Plan, fingerprint
from blockbasis.ranks import Market, reserved, with_reserve

#: The pilot looks at clusters that hold this many points; once more at more points when the number of clusters is
#: known, since a few clusters may hold most of the error, unless it has seen most.
_PILOT_POINTS = 5_000
_LAST_PILOT_POINTS = 8_000
_SEEN_ENOUGH = 0.45
#: Ranks follow the size of the clusters by about this power.
_RANK_POWER = 0.7
#: Before it, a glance at fewer points finds what ranks to look for.
_GLANCE_POINTS = 600
_GLANCE_RANK = 32
#: A basis takes so many times its pilot: twice the columns, and their extension.
_BASIS_PER_PILOT = 2.0
#: Above this part of the dense matrix clusters may be nearly whole, whatever their number.
_NEARLY_WHOLE = 0.5
#: When compression does not pay, the tolerance is named that this part of the dense matrix would hold.
_WORTHWHILE = 0.75


def make_plan(
    job: Job,
    partition_of: Callable[[int, np.random.Generator], Partition],
    n_clusters: int | None,
    rng: np.random.Generator,
) -> Plan:
    """Number of clusters and ranks for a goal; the number is searched by doubling when it is not given."""
    seen: dict[int, Pilot] = {}
    rank: int | None = None
    last = 0

    def look(k: int) -> Pilot:
        nonlocal rank, last
        if k not in seen:
            (child,) = rng.spawn(1)
            partition = partition_of(k, child)
            if rank is None:  # a first glance finds the order of magnitude
                rank = _next_rank(look_at(job, partition, _GLANCE_RANK, _GLANCE_POINTS, child))
            else:
                rank = max(1, round(rank * (last / k) ** _RANK_POWER))
            seen[k] = look_at(job, partition, rank, _PILOT_POINTS, child)
            rank, last = _next_rank(seen[k]), k
        return seen[k]

    best = look(n_clusters) if n_clusters is not None else _search(look, job)
    _check_budget(job, best.partition)
    if best.market.sizes.sum() < _SEEN_ENOUGH * best.partition.n_points:
        best = look_at(job, best.partition, _next_rank(best), _LAST_PILOT_POINTS, rng)
    others = [pilot for pilot in seen.values() if pilot.partition is not best.partition]
    return _with_fitting_tol(job, [best, *others], _plan_of(job, best))


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


def _search(look: Callable[[int], Pilot], job: Job) -> Pilot:
    """Doubling and halving from the default, while that pays: the minimum over k is flat."""
    largest = _most_clusters(job)
    start = min(default_clusters(job.X.shape[0]), largest)
    first = look(start)

    def cost(pilot: Pilot) -> float:
        return pilot.stored if job.goal.tol is not None else pilot.error

    def above(share: float, pilot: Pilot) -> bool:
        return job.goal.tol is not None and pilot.stored > share * job.dense

    def descended(step: Callable[[int], int]) -> Pilot:
        k = start
        while step(k) != k and cost(look(step(k))) < cost(look(k)):
            k = step(k)
        return look(k)

    best = descended(lambda k: min(2 * k, largest))
    # Whole clusters store the less, the more they are: that leads upwards where fewer need not be whole.
    if best is first or above(_NEARLY_WHOLE, best):
        best = min(best, descended(lambda k: max(k // 2, 1)), key=cost)
    if above(1, best):  # whole clusters, as many as may be, are hardly more than the matrix itself
        best = min(best, look(largest), key=cost)
    return best


def _next_rank(pilot: Pilot) -> int:
    return int(reserved(np.ceil(pilot.ranks.mean())))


# --- the plan of a pilot ---------------------------------------------------------------------------------------------


def _plan_of(job: Job, pilot: Pilot) -> Plan:
    partition, sizes = pilot.partition, pilot.partition.sizes
    ranks = np.clip(np.rint(_by_size(pilot, pilot.ranks)), 1, sizes).astype(np.intp)
    built = with_reserve(ranks, sizes)
    for_bases = _BASIS_PER_PILOT * _by_size(pilot, pilot.seconds)
    rates = costs.measure_rates(job.matrix(partition))
    threads = min(job.n_jobs, os.cpu_count() or 1, partition.n_clusters)
    return Plan(
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


def _by_size(pilot: Pilot, values: FloatArray | IntArray) -> FloatArray:
    """A figure known for some clusters, for all: by the clusters nearest in size."""
    known = pilot.market.sizes
    order = np.argsort(known, kind="stable")
    result = np.interp(pilot.partition.sizes, known[order], values[order])
    result[pilot.chosen] = values
    return result


def _relative(market: Market, error: float) -> float:
    return math.sqrt(error / market.norm) if market.norm > 0 else 0.0


def _with_fitting_tol(job: Job, pilots: list[Pilot], plan: Plan) -> Plan:
    """The plan, with the tolerance that would pay where its own does not."""
    free = available_memory()
    fits = free is None or plan.working_bytes <= free
    if fits and (costs.pays(plan.stored, plan.partition.n_points) or job.goal.memory is not None):
        return plan
    budget = _WORTHWHILE * job.dense
    if free is not None and not fits:
        budget = min(budget, plan.stored * free / plan.working_bytes / 2)
    return replace(plan, fitting_tol=_least_tol(job, pilots, int(budget)))


def _least_tol(job: Job, pilots: list[Pilot], budget: int) -> float:
    """The relative error that so many floats allow: of all that were looked at, not of the one chosen for less."""
    few = min(pilots, key=lambda pilot: pilot.partition.n_clusters)
    affordable = [pilot for pilot in pilots if _least_stored(job, pilot.partition.n_clusters) <= budget] or [few]
    markets = [pilot.market for pilot in affordable]
    return min(_relative(market, market.error(market.affordable(budget))) for market in markets)
