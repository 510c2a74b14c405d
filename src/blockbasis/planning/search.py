"""The number of clusters: surveys of a few numbers, each twice or half of one before."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from blockbasis.partition import Partitioner
from blockbasis.planning.goal import Job
from blockbasis.planning.survey import WHOLE_SHARE, Survey, survey

#: The search starts at sqrt(n) over this number of clusters.
_START = 8.0
#: The rank that the first survey looks for, and the one above which many small clusters are looked at, too.
_FIRST_RANK = 20
_HIGH_RANK = 64
#: Points of the smallest clusters, on average, and clusters at the most, in units of sqrt(n).
_SMALLEST = 24
_MOST = 12.0
#: Many small clusters: so many points each, or 2 sqrt(n) clusters if that is less.
_SMALL = 64
#: More clusters are looked at where C has less than this share of the floats of U, fewer where it has more.
_LITTLE_INNER = 0.12
_MUCH_INNER = 0.3
#: Another number of clusters is taken where it costs less than this part: the minimum is flat.
_IMPROVEMENT = 0.95
#: Ranks follow the size of the clusters by about this power; a survey looks a little higher than expected.
_RANK_POWER = 0.6
_MARGIN = 1.15


def default_clusters(n: int) -> int:
    """Number of clusters when ranks are given: near the best for bandwidths of interest."""
    return max(1, round(math.sqrt(n) / 4))


def search_clusters(job: Job, clusters: Partitioner, rng: np.random.Generator) -> list[Survey]:
    """Surveys of the numbers of clusters that were looked at, the best one first."""
    n = job.n_points
    seen: dict[int, Survey] = {}
    last: Survey | None = None

    def look(k: int, limit: float = math.inf) -> Survey:
        nonlocal last
        if k not in seen or (not seen[k].complete and limit > seen[k].stored):
            (stream,) = rng.spawn(1)
            rank = _FIRST_RANK
            if last is not None:
                rank = max(4, math.ceil(_MARGIN * last.mean_rank * (last.n_asked / k) ** _RANK_POWER))
            seen[k] = last = survey(job, clusters, k, rank, stream, limit)
        return seen[k]

    if clusters.given is not None:
        return [look(clusters.given)]
    most = _most_clusters(job)
    start = min(max(1, round(math.sqrt(n) / _START)), most)
    first = look(start, limit=_HIGH_RANK * float(n))
    best = start
    if not first.complete or first.mean_rank > _HIGH_RANK:
        many = min(max(start, min(n // _SMALL, round(2 * math.sqrt(n)))), most)
        look(many)
        best = min((start, many), key=lambda k: _cost(job, seen[k]))
    while (better := _better_neighbour(job, look, seen[best], most)) != best:
        best = better
    look(best)  # to its end, where every survey was cut short
    return [seen[best], *(each for k, each in seen.items() if k != best)]


def _better_neighbour(job: Job, look: Callable[..., Survey], here: Survey, most: int) -> int:
    """Twice or half as many clusters where that is better, otherwise the same number."""
    k = here.n_asked
    outer = here.stored - here.inner - here.allocation.fixed
    small = here.partition.n_points < 4 * _SMALL * k  # clusters so small that C is sparse: both ways may be better
    tried = []
    if small or here.inner < _LITTLE_INNER * outer:
        tried.append(min(2 * k, most))
    if small or here.inner > _MUCH_INNER * outer:
        tried.append(max(k // 2, 1))
    costs = {other: _cost(job, look(other, limit=1.1 * here.stored)) for other in tried if other != k}
    best = min(costs, key=lambda other: costs[other], default=k)
    return best if best != k and costs[best] < _IMPROVEMENT * _cost(job, here) else k


def _cost(job: Job, found: Survey) -> float:
    """What a survey is compared by: floats for a tolerance, error for a budget."""
    if job.goal.memory is not None:
        return found.error
    return found.stored if found.complete else math.inf


def _most_clusters(job: Job) -> int:
    """The largest number of clusters that is looked at, and that a budget has room for."""
    n = job.n_points
    most = max(1, min(n, max(n // _SMALLEST, 1), int(_MOST * math.sqrt(n))))
    while job.goal.memory is not None and most > 1 and least_stored(n, most, job.method.diagonal) > job.goal.memory:
        most -= 1
    return most


def least_stored(n: int, n_clusters: int, diagonal: bool) -> int:
    """Floats of one function for each cluster: no factorization of so many clusters stores less."""
    return n + n_clusters * (n_clusters + 1) // 2 + (n if diagonal else 0)


def expected_ranks(found: Survey, sizes: np.ndarray) -> np.ndarray:
    """Ranks of all clusters, from those of a survey."""
    ranks = np.clip(np.rint(found.ranks_of(sizes)), 1, sizes).astype(np.intp)
    whole = not found.complete  # the highest ranks looked at are not enough
    return np.where(whole & (ranks >= np.floor(WHOLE_SHARE * sizes)), sizes, ranks).astype(np.intp)
