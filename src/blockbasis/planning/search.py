"""Search for the number of clusters, by surveys of a few numbers that differ by factors of 1.4 to 2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from blockbasis.construction.cluster_basis import IDENTITY_SHARE
from blockbasis.construction.method import FAST
from blockbasis.planning.costs import building_work, floats_beside_product
from blockbasis.planning.survey import Survey, survey

if TYPE_CHECKING:
    from blockbasis._utils.typing import IntArray
    from blockbasis.partition import Partitioner
    from blockbasis.planning.goal import Request

#: The first number of clusters is sqrt(n) divided by this number.
_FIRST_DIVISOR = 8.0
#: Rank of the first survey.
_FIRST_RANK = 48
#: Floats per point above which the first survey is stopped.
_FIRST_LIMIT = 250
#: Many small clusters are surveyed too where the mean rank is above the first number, and the density of C below the
#: second one; and, where all entries are cached, above the third number times the number of points, since surveys are
#: then cheap. The small clusters have ``_SMALL_SIZE`` points each, and there are at most 2 sqrt(n) of them.
_HIGH_RANK = 80
_DENSE = 0.9
_HIGH_RANK_SHARE = 0.01
_SMALL_SIZE = 64
#: Mean rank above which fewer clusters are not surveyed: the time of a basis grows with the cube of its rank.
_MAX_RANK = 250
#: Least mean number of points of a cluster, and largest number of clusters in units of sqrt(n).
_MIN_SIZE = 24
_MAX_CLUSTERS = 12.0
#: Of two numbers of clusters that differ by less than this share only one is surveyed.
_SAME_NUMBER = 0.1
#: Another number of clusters is preferred where its cost is below this share of the present cost: the minimum is flat.
#: A larger number of small clusters must improve more: its survey is less accurate, and construction takes longer. The
#: second number is for the first choice, from which the search goes on; the third one is for the steps of the search.
_IMPROVEMENT = 0.95
_IMPROVEMENT_OF_MANY = 0.8
_IMPROVEMENT_OF_SMALL = 0.6
#: Factors of the number of clusters whose cost is predicted, to choose the next number to survey.
_FACTORS = (0.5, 0.7, 1.4, 2.0)
#: Work that is short, in kernel entries: some tenths of a second. Every doubling of excessive work counts as this share
#: of the floats.
_SHORT_WORK = 1e8
_EXCESS_COST = 0.2
#: No further number of clusters is surveyed once surveys have evaluated this share of the entries of the matrix.
_MAX_SURVEYED = 0.2
#: Ranks are roughly proportional to this power of the cluster size; a survey starts at this multiple of that.
_RANK_POWER = 0.4
_RANK_MARGIN = 1.15


def default_clusters(n: int) -> int:
    """Number of clusters when ranks are given."""
    return max(1, round(math.sqrt(n) / 4))


class Surveys:
    """Surveys of several numbers of clusters of the same points; one that exists is not repeated.

    Parameters
    ----------
    request : Request
    partitioner : Partitioner
    rng : Generator
    """

    def __init__(self, request: Request, partitioner: Partitioner, rng: np.random.Generator) -> None:
        self.request, self.partitioner, self.rng = request, partitioner, rng
        self.by_number: dict[int, Survey] = {}
        self._limits: dict[int, float] = {}
        self._last: Survey | None = None

    def __call__(self, k: int, limit: float = math.inf) -> Survey:
        """Survey of ``k`` clusters or nearly as many, which stops where more than ``limit`` floats are needed."""
        k = next((other for other in self.by_number if abs(other - k) < _SAME_NUMBER * k), k)
        known = self.by_number.get(k)
        if known is None or (not known.complete and limit > max(self._limits[k], known.stored)):
            (stream,) = self.rng.spawn(1)
            rank, last = _FIRST_RANK, self._last
            if last is not None:
                rank = max(4, math.ceil(_RANK_MARGIN * last.mean_rank * (last.n_requested / k) ** _RANK_POWER))
            known = survey(self.request, self.partitioner, k, rank, stream, limit)
            self.by_number[k] = self._last = known
            self._limits[k] = limit
        return known


def search_clusters(request: Request, partitioner: Partitioner, rng: np.random.Generator) -> list[Survey]:
    """Surveys of several numbers of clusters, the best one first."""
    n = request.n_points
    surveys = Surveys(request, partitioner, rng)
    if partitioner.given is not None:
        return [surveys(partitioner.given)]
    largest = _largest_number(request)
    start = min(max(1, round(math.sqrt(n) / _FIRST_DIVISOR)), largest)
    first = surveys(start, limit=_FIRST_LIMIT * float(n))
    best = start
    sparse = first.mean_rank > _HIGH_RANK and first.density < _DENSE
    cheap = request.cached and first.mean_rank > _HIGH_RANK_SHARE * n
    if request.goal.memory is not None or not first.complete or sparse or cheap:
        many = min(max(start, min(n // _SMALL_SIZE, round(2 * math.sqrt(n)))), largest)
        limit = first.stored if first.complete and request.goal.memory is None else math.inf
        survey_of_many = surveys(many, limit=limit)
        if not first.complete and survey_of_many.complete:  # the best number may be in between
            surveys(round(math.sqrt(start * many)), limit=survey_of_many.stored)
        best = _first_choice(request, surveys.by_number)
        while not surveys.by_number[best].complete and max(surveys.by_number) < largest:  # clusters are too large
            best = surveys(min(2 * max(surveys.by_number), largest)).n_requested
    current = surveys.by_number[best]
    while not _surveyed_enough(request) and (k := _better_number(surveys, current, largest)) != current.n_requested:
        current = surveys(k)
    best = current.n_requested
    surveys(best)  # to its end, where every survey was stopped
    return [surveys.by_number[best], *(each for k, each in surveys.by_number.items() if k != best)]


def _first_choice(request: Request, by_number: dict[int, Survey]) -> int:
    """The number of clusters of least cost; the best smaller number where the cost is not much less than there."""
    costs = {k: _cost(request, result) for k, result in by_number.items()}
    best = min(costs, key=lambda k: costs[k])
    improvement = _IMPROVEMENT if request.cached or request.goal.memory is not None else _IMPROVEMENT_OF_MANY
    fewer = [k for k in costs if k < best and costs[best] >= improvement * costs[k]]
    return min(fewer, key=lambda k: costs[k], default=best)


def _surveyed_enough(request: Request) -> bool:
    """Whether surveys have evaluated so many entries that the search ends."""
    return not request.cached and request.counter.value > _MAX_SURVEYED * request.n_points**2


def _better_number(surveys: Surveys, current: Survey, largest: int) -> int:
    """A larger or smaller number of clusters where it costs less, otherwise the current number."""
    request, k, cost = surveys.request, current.n_requested, _cost(surveys.request, current)
    small = current.partition.n_points < 4 * _SMALL_SIZE * k
    factors: list[float] = [0.5, 2.0]
    if not small and request.goal.memory is None:  # C is not sparse: the cost of other numbers is predictable
        predicted = {factor: _predicted_cost(request, current, factor) for factor in _FACTORS}
        factors = [factor for factor in predicted if predicted[factor] < _IMPROVEMENT * cost]
        factors = sorted(factors, key=lambda factor: predicted[factor])[:1]
    if current.mean_rank >= _MAX_RANK:
        factors = [factor for factor in factors if factor >= 1]
    numbers = [min(max(round(factor * k), 1), largest) for factor in factors]
    costs = {other: _cost(request, surveys(other, limit=1.1 * current.stored)) for other in numbers if other != k}
    best = min(costs, key=lambda other: costs[other], default=k)
    sampled = small and request.goal.memory is None and not request.cached
    improvement = _IMPROVEMENT_OF_SMALL if sampled and best > k else _IMPROVEMENT
    return best if best != k and costs[best] < improvement * cost else k


def _cost(request: Request, result: Survey) -> float:
    """Cost by which surveys are compared: floats for a tolerance, error for a budget, more where work is excessive."""
    if not result.complete:
        return math.inf
    amount = result.stored if request.goal.memory is None else result.error
    return amount * _excess(request, result.density, *_sizes_and_ranks(request, result))


def _predicted_cost(request: Request, result: Survey, factor: float) -> float:
    """Cost for ``factor`` times as many clusters, with a C of the same density."""
    if not result.complete:
        return math.inf
    sizes, ranks = _sizes_and_ranks(request, result)
    rank_factor = factor**-_RANK_POWER
    inner = result.inner * (factor * rank_factor) ** 2
    fixed = result.allocation.fixed
    stored = fixed + (result.stored - result.inner - fixed) * rank_factor + inner
    count = max(1, round(factor * len(sizes)))
    new_sizes = np.full(count, max(request.n_points // count, 1))
    new_ranks = np.full(count, max(round(float(ranks.mean()) * rank_factor), 1))
    return float(stored * _excess(request, result.density, new_sizes, new_ranks))


def _sizes_and_ranks(request: Request, result: Survey) -> tuple[IntArray, IntArray]:
    """Expected sizes and ranks of all clusters, from a survey of all points or of a subset."""
    scale = request.n_points / result.partition.n_points
    sizes = np.maximum(scale * result.partition.sizes, 1).astype(np.intp)
    return sizes, np.minimum(np.maximum(result.ranks_of(sizes), 1).astype(np.intp), sizes)


def _excess(request: Request, density: float, sizes: IntArray, ranks: IntArray) -> float:
    """Factor for excessive work.

    The work before the pass over the points grows with the number of clusters and does not depend on n. Where it
    exceeds the work of the pass, and is not short, each doubling counts as more floats.
    """
    work = building_work(sizes, ranks, density, FAST, cached=request.cached)
    return 1 + _EXCESS_COST * math.log2(max(work.before_pass / max(work.of_pass, _SHORT_WORK), 1.0))


def _largest_number(request: Request) -> int:
    """The largest number of clusters that is surveyed and fits into a budget."""
    n, memory = request.n_points, request.goal.memory
    largest = max(1, min(n, max(n // _MIN_SIZE, 1), int(_MAX_CLUSTERS * math.sqrt(n))))
    while memory is not None and largest > 1 and _least_counted(request, largest) > memory:
        largest -= 1
    return largest


def _least_counted(request: Request, n_clusters: int) -> float:
    """Least number of floats that count for a budget: those of a product, or all that are kept."""
    n, least = request.n_points, least_stored(request.n_points, n_clusters, request.method.diagonal)
    if not request.goal.everything:
        return least
    d, itemsize = request.X.shape[1], request.X.itemsize
    landmarks = n_clusters * min(FAST.min_landmarks, n)
    return least + landmarks + floats_beside_product(landmarks, n, n_clusters, d, itemsize)


def least_stored(n: int, n_clusters: int, diagonal: bool) -> int:
    """Least number of floats of a factorization: one basis function for each cluster."""
    return n + n_clusters * (n_clusters + 1) // 2 + (n if diagonal else 0)


def ranks_of_all(result: Survey, sizes: IntArray, *, expected: bool) -> IntArray:
    """Ranks of all clusters from a survey: the expected ones, or those that bases are sketched for."""
    ranks = np.clip(np.rint(result.ranks_of(sizes, expected=expected)), 1, sizes).astype(np.intp)
    if result.complete:
        return ranks
    # The highest surveyed ranks are not enough.
    return np.where(ranks >= np.floor(IDENTITY_SHARE * sizes), sizes, ranks).astype(np.intp)
