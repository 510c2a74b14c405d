"""Search for the number of clusters, by surveys of a few numbers that differ by factors of two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from blockbasis._typing import IntArray
from blockbasis.construction.cluster_basis import WHOLE_SHARE
from blockbasis.construction.method import FAST
from blockbasis.partition import Partitioner
from blockbasis.planning.costs import building_work
from blockbasis.planning.goal import Job
from blockbasis.planning.survey import Survey, survey

#: The search starts at sqrt(n) divided by this number.
_START = 8.0
#: Rank of the first survey.
_FIRST_RANK = 48
#: Many small clusters are surveyed too where the mean rank is higher than this, and C is not dense.
_HIGH_RANK = 80
_DENSE = 0.9
#: Mean rank above which fewer clusters are not surveyed: the time of a basis grows with the cube of its rank.
_HIGHEST_RANK = 500
#: Floats a point above which the first survey ends.
_FIRST_LIMIT = 250
#: Least mean number of points of a cluster, and largest number of clusters in units of sqrt(n).
_SMALLEST = 24
_MOST = 12.0
#: Points of each of many small clusters; there are at most 2 sqrt(n) of them.
_SMALL = 64
#: Numbers of clusters that differ by less than this share are not both surveyed.
_SAME = 0.1
#: Another number of clusters is taken where its cost is below this share of the present cost: the minimum is flat. More
#: clusters, where they are small already, must gain more: their surveys are less accurate, and they take more time.
_IMPROVEMENT = 0.95
_IMPROVEMENT_OF_SMALL = 0.6
#: Work that is short, in kernel entries: some tenths of a second. Every doubling of excessive work counts as this share
#: of the floats.
_SHORT_WORK = 1e8
_EXCESS_COST = 0.2
#: No further number of clusters is surveyed once surveys have evaluated this share of the entries of the matrix.
_SURVEYED = 0.25
#: Ranks are roughly proportional to this power of the cluster size, and a survey takes a margin over that.
_RANK_POWER = 0.4
_MARGIN = 1.15


def default_clusters(n: int) -> int:
    """Number of clusters when ranks are given."""
    return max(1, round(math.sqrt(n) / 4))


def search_clusters(job: Job, clusters: Partitioner, rng: np.random.Generator) -> list[Survey]:
    """Surveys of several numbers of clusters, the best one first."""
    n = job.n_points
    seen: dict[int, Survey] = {}
    limits: dict[int, float] = {}
    last: Survey | None = None

    def look(k: int, limit: float = math.inf) -> Survey:
        nonlocal last
        k = next((other for other in seen if abs(other - k) < _SAME * k), k)
        if k not in seen or (not seen[k].complete and limit > max(limits[k], seen[k].stored)):
            (stream,) = rng.spawn(1)
            rank = _FIRST_RANK
            if last is not None:
                rank = max(4, math.ceil(_MARGIN * last.mean_rank * (last.n_asked / k) ** _RANK_POWER))
            seen[k] = last = survey(job, clusters, k, rank, stream, limit)
            limits[k] = limit
        return seen[k]

    if clusters.given is not None:
        return [look(clusters.given)]
    most = _most_clusters(job)
    start = min(max(1, round(math.sqrt(n) / _START)), most)
    first = look(start, limit=_FIRST_LIMIT * float(n))
    best = start
    sparse = first.mean_rank > _HIGH_RANK and first.density < _DENSE
    if job.goal.memory is not None or not first.complete or sparse:
        many = min(max(start, min(n // _SMALL, round(2 * math.sqrt(n)))), most)
        others = look(many, limit=first.stored if first.complete and job.goal.memory is None else math.inf)
        if not first.complete and others.complete:  # the first survey was cut short: the best number may be in between
            look(round(math.sqrt(start * many)), limit=others.stored)
        best = min(seen, key=lambda k: _cost(job, seen[k]))
        while not seen[best].complete and max(seen) < most:  # clusters are too large
            best = look(min(2 * max(seen), most)).n_asked
    best = _walk(job, look, seen[best], most)
    look(best)  # to its end, where every survey was cut short
    return [seen[best], *(each for k, each in seen.items() if k != best)]


def _walk(job: Job, look: Callable[..., Survey], here: Survey, most: int) -> int:
    """A number of clusters that costs less than twice and half of it."""
    while not _surveyed_enough(job) and (better := _better_neighbour(job, look, here, most)) != here.n_asked:
        here = look(better)
    return here.n_asked


def _surveyed_enough(job: Job) -> bool:
    """Whether surveys have evaluated so many entries that none may follow."""
    return not job.known and job.counter.value > _SURVEYED * job.n_points**2


def _better_neighbour(job: Job, look: Callable[..., Survey], here: Survey, most: int) -> int:
    """Twice or half the number of clusters where that costs less, otherwise the same number."""
    k, cost = here.n_asked, _cost(job, here)
    # Where C may be sparse, and for budgets, the cost of another number is not predictable.
    small = here.partition.n_points < 4 * _SMALL * k
    both = small or job.goal.memory is not None
    tried = []
    if both or _predicted_cost(job, here, 2.0) < cost:
        tried.append(min(2 * k, most))
    if (both or _predicted_cost(job, here, 0.5) < cost) and here.mean_rank < _HIGHEST_RANK:
        tried.append(max(k // 2, 1))
    costs = {other: _cost(job, look(other, limit=1.1 * here.stored)) for other in tried if other != k}
    best = min(costs, key=lambda other: costs[other], default=k)
    sampled = small and job.goal.memory is None and not job.known
    least = _IMPROVEMENT_OF_SMALL if sampled and best > k else _IMPROVEMENT
    return best if best != k and costs[best] < least * cost else k


def _cost(job: Job, found: Survey) -> float:
    """Cost by which surveys are compared: floats for a tolerance, error for a budget, more where work is excessive."""
    if not found.complete:
        return math.inf
    amount = found.stored if job.goal.memory is None else found.error
    return amount * _excess(job, found.density, *_expected(job, found))


def _predicted_cost(job: Job, found: Survey, factor: float) -> float:
    """Cost for ``factor`` times as many clusters, with a C of the same density."""
    if not found.complete:
        return math.inf
    sizes, ranks = _expected(job, found)
    fewer = factor**-_RANK_POWER
    inner = found.inner * (factor * fewer) ** 2
    fixed = found.allocation.fixed
    stored = fixed + (found.stored - found.inner - fixed) * fewer + inner
    count = max(1, round(factor * len(sizes)))
    same = np.full(count, max(job.n_points // count, 1))
    return float(stored * _excess(job, found.density, same, np.full(count, max(round(float(ranks.mean()) * fewer), 1))))


def _expected(job: Job, found: Survey) -> tuple[IntArray, IntArray]:
    """Sizes and ranks of all clusters, from a survey of all points or of some."""
    scale = job.n_points / found.partition.n_points
    sizes = np.maximum(scale * found.partition.sizes, 1).astype(np.intp)
    return sizes, np.minimum(np.maximum(found.ranks_of(sizes), 1).astype(np.intp), sizes)


def _excess(job: Job, density: float, sizes: IntArray, ranks: IntArray) -> float:
    """Factor for excessive work.

    The work before the pass over the points grows with the number of clusters and does not depend on n. Where it
    exceeds the work of the pass, and is not short, each doubling counts as more floats.
    """
    work = building_work(sizes, ranks, density, FAST, known=job.known)
    return 1 + _EXCESS_COST * math.log2(max(work.before_pass / max(work.of_pass, _SHORT_WORK), 1.0))


def _most_clusters(job: Job) -> int:
    """The largest number of clusters that is surveyed and fits into a budget."""
    n = job.n_points
    most = max(1, min(n, max(n // _SMALLEST, 1), int(_MOST * math.sqrt(n))))
    while job.goal.memory is not None and most > 1 and least_stored(n, most, job.method.diagonal) > job.goal.memory:
        most -= 1
    return most


def least_stored(n: int, n_clusters: int, diagonal: bool) -> int:
    """Least number of floats of a factorization: one basis function for each cluster."""
    return n + n_clusters * (n_clusters + 1) // 2 + (n if diagonal else 0)


def ranks_of_all(found: Survey, sizes: IntArray, *, expected: bool) -> IntArray:
    """Ranks of all clusters, those that are expected or those that bases are sketched for, from a survey."""
    ranks = np.clip(np.rint(found.ranks_of(sizes, expected=expected)), 1, sizes).astype(np.intp)
    whole = not found.complete  # the highest ranks looked at are not enough
    return np.where(whole & (ranks >= np.floor(WHOLE_SHARE * sizes)), sizes, ranks).astype(np.intp)
