"""A plan into the factorization that keeps it.

It is built a little too large, checked against exact rows that it has not used, enlarged where the error sits if it
must be, and cut to the smallest ranks that do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import ClusterBasis
from blockbasis.construction import Method, assemble, basis_of, definite_inner, make_inner
from blockbasis.exceptions import AccuracyWarning
from blockbasis.inner import Cutoff, InnerMatrix, Known
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis
from blockbasis.partition import Partition
from blockbasis.plans import Goal, Plan
from blockbasis.ranks import Market, highest_in_part, with_reserve, worthwhile
from blockbasis.sampling import attentive_sampling
from blockbasis.settling import Spectrum
from blockbasis.verification import (
    CheckRows,
    Measured,
    RowProducts,
    cut_bases,
    cut_inner,
    draw_check_rows,
    market_of,
    measure,
    row_products,
    smallest_within,
    spectral_error,
)

#: The check must show the tolerance met by this many standard errors: rows are of heavy tails, and chose the ranks.
_DEVIATIONS = 3.5
#: A cluster that holds more than its share of the error is raised by this much.
_RAISE = 1.4
_RAISE_MORE = 4
#: The price falls at least to this part; ranks that have not grown so many times are at the limit of precision.
_CHEAPER = 0.25
_STALLED = 4
#: A budget of which less is used is not spent, when there is more to build.
_SPENT = 0.9


@dataclass(frozen=True)
class _Draft:
    """A factorization that is not yet known to keep its goal.

    Parameters
    ----------
    bases : list of ClusterBasis
    computed : InnerMatrix
        As it was sampled.
    inner : InnerMatrix
        The same, positive semi-definite.
    cut : Cutoff or None
    """

    bases: list[ClusterBasis]
    computed: InnerMatrix
    inner: InnerMatrix
    cut: Cutoff | None

    @property
    def ranks(self) -> IntArray:
        return np.array([basis.vectors.shape[1] for basis in self.bases])


class _Tally:
    """Entries that each part of the work has evaluated."""

    def __init__(self, matrix: KernelMatrix) -> None:
        self._matrix = matrix
        self._seen = 0
        self.inner = 0
        self.planning = self.since()

    def since(self) -> int:
        """Entries since it was last asked."""
        before, self._seen = self._seen, self._matrix.entries
        return self._seen - before


@dataclass(frozen=True)
class _Check:
    """Whether ranks keep the tolerance, by check rows.

    Parameters
    ----------
    products : RowProducts or None
        Known when there is a ridge, and with it the spectral norm of the error.
    """

    goal: Goal
    rows: Sequence[CheckRows]
    bases: Sequence[ClusterBasis]
    inner: FloatArray
    diagonal: bool
    products: RowProducts | None

    def at(self, ranks: IntArray) -> tuple[Measured, float]:
        """Squared error at the given ranks, and the one allowed."""
        measured = measure(self.rows, self.bases, self.inner, ranks, diagonal=self.diagonal)
        if self.products is None:
            return measured, self.goal.allowed(measured.norm)
        spectral = spectral_error(self.products, self.rows, self.bases, self.inner, ranks, diagonal=self.diagonal)
        return measured, self.goal.allowed(measured.norm, measured.upper(_DEVIATIONS), spectral)

    def enough(self, ranks: IntArray) -> bool:
        measured, allowed = self.at(ranks)
        return measured.upper(_DEVIATIONS) <= allowed


def _products(
    matrix: KernelMatrix, plan: Plan, draft: _Draft, checks: Sequence[CheckRows], n_jobs: int
) -> RowProducts | None:
    return row_products(matrix, plan.partition, draft.bases, checks, n_jobs) if plan.goal.ridge else None


def build(matrix: KernelMatrix, plan: Plan, rng: np.random.Generator, n_jobs: int) -> BlockBasis:
    """The factorization of a plan, checked, raised where the error sits and cut to its goal."""
    partition, method, goal = plan.partition, plan.method, plan.goal
    of_bases, of_inner, of_checks = rng.spawn(3)
    streams = of_bases.spawn(partition.n_clusters)
    tally = _Tally(matrix)
    price, guesses = plan.price, with_reserve(plan.ranks, partition.sizes)
    total = float(plan.ranks.sum())
    todo: Sequence[int] = range(partition.n_clusters)
    draft: _Draft | None = None
    built, stalled = 0, 0
    while True:
        tasks = [(matrix, partition, i, int(guesses[i]), price, total, method, streams[i]) for i in todo]
        fresh = map_threads(_priced_basis, tasks, n_jobs, "bases")
        tally.since()
        draft = _draft(matrix, plan, draft, dict(zip(todo, fresh, strict=True)), of_inner, n_jobs)
        tally.inner += tally.since()
        dense = draft.inner.todense()
        market = market_of(draft.bases, dense, diagonal=method.diagonal)
        grown = draft.ranks.sum() > built
        if goal.memory is not None:
            ranks = market.affordable(goal.memory)
            todo = _held_back(market, ranks, draft.ranks, goal.memory)
            if not todo or not grown:
                checks = draw_check_rows(matrix, partition, draft.bases, of_checks, n_jobs)
                break
            built, total, guesses = int(draft.ranks.sum()), float(ranks.sum()), _raised(draft.ranks)
            price = _CHEAPER * min(price, *(market.gains[i][ranks[i] - 1] / (market.sizes[i] + total) for i in todo))
            continue
        checks = draw_check_rows(matrix, partition, draft.bases, of_checks, n_jobs)
        check = _Check(
            goal, checks, draft.bases, dense, method.diagonal, _products(matrix, plan, draft, checks, n_jobs)
        )
        tally.planning += tally.since()
        measured, allowed = check.at(draft.ranks)
        met = measured.upper(_DEVIATIONS) <= allowed
        stalled = 0 if grown else stalled + 1
        if met or stalled == _STALLED:
            if not met:
                _warn_of(measured, goal)
            ranks = smallest_within(market, check.enough)
            break
        built = int(draft.ranks.sum())
        price, total = _lower_price(draft, price, measured.upper(_DEVIATIONS), allowed), float(draft.ranks.sum())
        todo = _where_the_error_sits(measured, allowed, draft.ranks, partition)
        guesses = _raised(draft.ranks)
    tally.planning += tally.since()
    return _finished(matrix, partition, method, draft, ranks, checks, dense, tally)


def _warn_of(measured: Measured, goal: Goal) -> None:
    warnings.warn(
        f"The tolerance of {goal.tol:g} was not reached: the relative error is {measured.relative():.2g}, and no more "
        "directions can be told from rounding. Take a larger tolerance, a smaller cutoff, or dtype=numpy.float64.",
        AccuracyWarning,
        stacklevel=5,
    )


def _raised(ranks: IntArray) -> IntArray:
    return (_RAISE * ranks).astype(np.intp) + _RAISE_MORE


def _held_back(market: Market, ranks: IntArray, built: IntArray, budget: int) -> list[int]:
    """Clusters that take all that was built of them, while the budget has room for more."""
    if market.stored(ranks) >= _SPENT * budget:
        return []
    return np.flatnonzero((ranks == built) & (built < market.sizes)).tolist()


def _lower_price(draft: _Draft, price: float, upper: float, allowed: float) -> float:
    """The price at which the error now measured would come down to what is allowed, by the spectra of all clusters."""
    sizes = np.array([basis.vectors.shape[0] for basis in draft.bases])
    spectra = [basis.spectrum for basis in draft.bases if basis.spectrum is not None]
    market = Market(int(sizes.sum()), sizes, np.ones(len(sizes)), spectra, diagonal=True)
    target = allowed * min(1.0, market.error(draft.ranks) / upper)
    found = market.price_within(lambda ranks: market.error(ranks) <= target)
    return price * _CHEAPER if found is None else min(found, price * _CHEAPER)


def _where_the_error_sits(measured: Measured, allowed: float, ranks: IntArray, partition: Partition) -> list[int]:
    """Clusters with more than half of their share of the allowed error; all that can grow, if those cannot."""
    fair = allowed * partition.sizes / partition.n_points
    growing = ranks < partition.sizes
    over = growing & (measured.per_cluster > fair / 2)
    return np.flatnonzero(over if over.any() else growing).tolist()


def _draft(
    matrix: KernelMatrix,
    plan: Plan,
    before: _Draft | None,
    fresh: dict[int, ClusterBasis],
    rng: np.random.Generator,
    n_jobs: int,
) -> _Draft:
    """Bases, those of the draft before where there is no fresh one, and their inner matrix."""
    partition, method = plan.partition, plan.method
    known = None
    bases = [fresh[i] if before is None or i in fresh else before.bases[i] for i in range(partition.n_clusters)]
    if before is not None:
        known = Known(before.computed, np.array([i not in fresh for i in range(partition.n_clusters)]))
    computed, cut = make_inner(matrix, partition, bases, method, rng, n_jobs, known)
    # Made definite before the check, so that what is checked is what is returned.
    norm = sum(basis.spectrum.norm for basis in bases if basis.spectrum is not None)
    allowed = 0.0 if plan.goal.tol is None else plan.goal.allowed(norm)
    return _Draft(bases, computed, definite_inner(matrix, partition, bases, computed, cut, method, allowed), cut)


def _finished(
    matrix: KernelMatrix,
    partition: Partition,
    method: Method,
    draft: _Draft,
    ranks: IntArray,
    checks: Sequence[CheckRows],
    dense: FloatArray,
    tally: _Tally,
) -> BlockBasis:
    """The operator of a draft, cut to ``ranks``, with the error that the check rows show."""
    measured = measure(checks, draft.bases, dense, ranks, diagonal=method.diagonal)
    return assemble(
        matrix,
        partition,
        cut_bases(draft.bases, ranks),
        cut_inner(draft.inner, ranks),
        draft.cut,
        method,
        tally.inner,
        tally.planning,
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
    """Basis with the vectors that are worth ``price``, and some more; computed again while all of them are.

    A cluster is kept whole only where the guess says so: then there is no diagonal part, and little to choose from.
    """
    cluster = partition.cluster(i)
    size = cluster.stop - cluster.start
    cost = price * (size + total)

    def keep(spectrum: Spectrum) -> int:
        return int(with_reserve(np.array(worthwhile(spectrum, cost)), np.array(size)))

    most = int(highest_in_part(np.array(size)))
    if guess > most:
        most = size
    rank = min(guess, most)
    while True:
        n_columns = method.columns_per_rank * rank
        skeleton = attentive_sampling(matrix, cluster, partition, n_columns, rng)
        basis = basis_of(matrix, cluster, skeleton, rank, method, rng, keep)
        assert basis.spectrum is not None
        if rank == most or worthwhile(basis.spectrum, cost) <= rank:
            return basis
        rank = min(2 * rank, most)
