"""The plan of a factorization: clusters, ranks and costs before anything is built."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.html import summary_table
from blockbasis._utils.machine import available_memory
from blockbasis.construction.cluster_basis import max_rank
from blockbasis.construction.method import FAST, Method
from blockbasis.partition import QUICK, Partition, Partitioner
from blockbasis.planning import costs
from blockbasis.planning.goal import SINGLE_PRECISION, Goal, Request
from blockbasis.planning.search import least_stored, ranks_of_all, search_clusters

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.planning.survey import Survey

#: Bases are first sketched for the expected ranks times this factor, plus this increment.
_RESERVE_FACTOR = 1.05
_RESERVE_INCREMENT = 4
#: The factor where the sum of the ranks exceeds this share of the points. C then takes a large share of the entries of
#: the matrix, and these entries would be evaluated again if ranks had to be raised.
_LARGE_RESERVE_FACTOR = 1.25
_HIGH_RANKS = 1 / 6
#: Compression pays where a survey expects at most this share of the floats of the dense matrix: surveys are accurate to
#: about a tenth.
_LESS_THAN_DENSE = 0.9
#: Where compression does not pay, the suggested tolerance needs this share of the floats of the dense matrix.
_WORTHWHILE = 0.75


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """Clusters, ranks and costs of a factorization before it is built, as `blockbasis.plan` returns them.

    Parameters
    ----------
    goal : Goal
    method : Method
    partition : Partition
    ranks : ndarray of shape (n_clusters,)
        Expected ranks; the final ranks may differ, since the check adjusts them.
    sketched : ndarray of shape (n_clusters,)
        Ranks that bases are first sketched for: those expected, and a reserve.
    least_gains : ndarray of shape (n_clusters,) or None
        Squared error that a function of each cluster is expected to remove at least; None if it is not known.
    density : float
        Expected share of the entries of C that are in kept blocks.
    trimmed : float
        Expected share of these entries that is stored.
    norm : float
        Squared Frobenius norm of K, estimated.
    kernel : Kernel
    fingerprint : ndarray of shape (n_features,)
        Fingerprint of the points: a plan holds for these points in this order only.
    dtype : dtype
    predicted_error : float
        Relative Frobenius error.
    rates : Rates
        Measured speed of this machine.
    threads : int
        Threads that ``seconds`` is for.
    diagonal : bool
        Whether a diagonal part is expected to be carried.
    known : bool
        Whether all entries of the matrix are evaluated once and cached.
    fitting_tol : float or None
        Where compression does not pay or does not fit into free memory, a tolerance that would.

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
    sketched: IntArray
    least_gains: FloatArray | None
    density: float
    trimmed: float
    norm: float
    kernel: Kernel
    fingerprint: FloatArray
    dtype: np.dtype[np.floating]
    predicted_error: float
    rates: costs.Rates
    threads: int
    diagonal: bool
    known: bool
    fitting_tol: float | None = None

    def __post_init__(self) -> None:
        for array in (self.ranks, self.sketched, self.least_gains, self.fingerprint):
            if array is not None:
                array.setflags(write=False)

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters

    @property
    def n_features(self) -> int:
        return len(self.fingerprint)

    @property
    def dense(self) -> int:
        """Floats of the dense matrix, with each pair of symmetric entries counted once."""
        return costs.dense_floats(self.partition.n_points)

    @property
    def single(self) -> bool:
        """Whether float32 is accurate enough for the work before the pass over the points."""
        return (self.predicted_error if self.goal.tol is None else self.goal.tol) >= SINGLE_PRECISION

    @property
    def stored(self) -> int:
        """Floats that a product will read."""
        sizes, share = self.partition.sizes, self.trimmed * self.density
        return costs.stored_floats(sizes, self.ranks, diagonal=self.diagonal, density=share)

    @property
    def nbytes(self) -> int:
        """Bytes of everything that will be kept."""
        landmarks = np.maximum(FAST.landmarks * self.sketched, FAST.min_landmarks)
        sizes, itemsize = self.partition.sizes, self.dtype.itemsize
        n_coordinates = self.partition.centers.shape[1]  # a metric maps the columns to others
        kept = costs.kept_bytes(sizes, self.ranks, landmarks, n_coordinates, itemsize, self.stored)
        return min(kept, self.goal.memory * itemsize) if self.goal.memory and self.goal.everything else kept

    @property
    def working_bytes(self) -> int:
        """Peak bytes of the construction, including the bytes that are kept."""
        sizes, precision = self.partition.sizes, {"cached": self.known, "single": self.single}
        inner = costs.inner_bytes(self.sketched, self.ranks, self.density)
        return self.nbytes + costs.working_bytes(sizes, self.sketched, inner, FAST, self.threads, **precision)

    @property
    def entries(self) -> int:
        """Kernel entries that will be evaluated."""
        return self._work.entries

    @property
    def seconds(self) -> float:
        """Time of the construction, from the counted work and the measured rates."""
        repair = costs.repair_operations(self.ranks) if self.density < 1 else 0.0
        return self.rates.seconds(self._work, self.threads, repair)

    @property
    def _work(self) -> costs.Work:
        return costs.building_work(self.partition.sizes, self.sketched, self.density, FAST, cached=self.known)

    @property
    def remedy(self) -> str:
        """Suggestion where compression does not pay or does not fit into free memory."""
        if self.goal.memory is not None:
            return "a smaller memory"
        return f"tol={self.fitting_tol:.2g} or a larger bandwidth" if self.fitting_tol else "a larger tol or bandwidth"

    def _repr_html_(self) -> str:
        facts = {
            "clusters": f"{self.n_clusters}, ranks {self.ranks.min()} to {self.ranks.max()}",
            "memory": f"{self.nbytes / 1e6:.3g} MB kept, {self.working_bytes / 1e6:.3g} MB while it is built",
            "predicted error": f"{self.predicted_error:.2g}",
            "time": f"{self.seconds:.1f} s",
        }
        return summary_table(f"Plan for {self.partition.n_points} points", facts)

    def __repr__(self) -> str:
        n = self.partition.n_points
        asked = f"tol={self.goal.tol:g}" if self.goal.memory is None else f"memory={self.goal.memory} floats"
        if self.goal.memory is not None and self.goal.everything:
            asked = f"memory={self.goal.memory * self.dtype.itemsize / 1e6:.4g} MB"
        lines = [
            f"Plan for {n} points, {asked}",
            f"  clusters         {self.n_clusters}",
            f"  ranks            {self.ranks.min()} to {self.ranks.max()}, {self.ranks.mean():.1f} on average",
            f"  stored           {self.stored} floats, {self.stored / n:.1f} per point, {self.stored / n**2:.2%} of n²",
            f"  bytes            {self.nbytes / 1e6:.1f} MB kept, {self.working_bytes / 1e6:.1f} MB while it is built",
            f"  kernel entries   {self.entries}, {self.entries / n**2:.2%} of n²",
            f"  predicted error  {self.predicted_error:.2g}",
            f"  time             {self.seconds:.1f} s",
        ]
        if self.fitting_tol is not None:
            lines.append(f"  too large        {self.remedy} would fit")
        return "\n".join(lines)


def with_reserve(ranks: IntArray, sizes: IntArray) -> IntArray:
    """Ranks to build, with a reserve for the check; the size of a cluster where its rank is close to it."""
    limit = max_rank(sizes)
    factor = _RESERVE_FACTOR if ranks.sum() <= _HIGH_RANKS * sizes.sum() else _LARGE_RESERVE_FACTOR
    raised = np.ceil(factor * ranks).astype(np.intp) + _RESERVE_INCREMENT
    return np.asarray(np.where(ranks >= limit, sizes, np.minimum(raised, limit)), dtype=np.intp)


def fingerprint(X: FloatArray) -> FloatArray:
    """Sums of the columns with weights by position, which differ for other points and for another order."""
    return np.asarray(np.linspace(1, 2, X.shape[0]) @ X)


def make_plan(request: Request, partitioner: Partitioner, rng: np.random.Generator) -> Plan:
    """Number of clusters and ranks for a goal, from surveys."""
    search_stream, partition_stream = rng.spawn(2)
    n, goal = request.n_points, request.goal
    surveys = search_clusters(request, partitioner, search_stream)
    best = surveys[0]
    partition = best.partition
    if partition.n_points < n:
        partition = partitioner(best.n_requested, partition_stream, effort=QUICK)
    least = least_stored(n, partition.n_clusters, request.method.diagonal)
    if goal.memory is not None and goal.memory < least:
        raise ValueError(
            f"The 'memory' parameter must be at least {least} floats for {partition.n_clusters} clusters. Got "
            f"{goal.memory} instead: take more memory, or fewer clusters."
        )
    ranks, sketched = (ranks_of_all(best, partition.sizes, expected=expected) for expected in (True, False))
    expected = best.expected
    if goal.memory is not None:
        sketched = _within_budget(request, partition, ranks)
        expected = np.maximum(expected * (sketched.sum() / ranks.sum()), 1).astype(np.intp)
        ranks = sketched
    elif partitioner.given is None and not (best.complete and best.stored <= _LESS_THAN_DENSE * costs.dense_floats(n)):
        # Compression does not pay: many clusters with identity bases take hardly more floats than the matrix.
        partition = partitioner(min(n, round(4 * np.sqrt(n))), partition_stream, effort=QUICK)
        ranks = sketched = partition.sizes.astype(np.intp)
    sizes = partition.sizes
    dense = goal.memory is not None or bool((ranks == sizes).all())
    density, trimmed = (1.0, 1.0) if dense else (best.density, best.trimmed)
    predicted = float(np.sqrt(best.allocation.error(expected) / best.norm)) if best.norm > 0 else 0.0
    if goal.tol is not None:  # ranks are raised until the check shows the tolerance met
        predicted = min(predicted, goal.tol)
    plan = Plan(
        goal=goal,
        method=request.method,
        partition=partition,
        ranks=ranks,
        sketched=with_reserve(sketched, sizes),
        least_gains=best.price * (sizes + trimmed * density * float(sketched.sum())) if best.price > 0 else None,
        density=density,
        trimmed=trimmed,
        norm=best.norm,
        kernel=request.kernel,
        fingerprint=fingerprint(request.X),
        dtype=request.X.dtype,
        predicted_error=predicted,
        rates=costs.measure_rates(request.matrix(partition)),
        threads=max(1, min(request.n_jobs, os.cpu_count() or 1, len(sizes))),
        diagonal=best.diagonal,
        known=request.cached,
    )
    return _with_fitting_tol(request, surveys, plan)


def _within_budget(request: Request, partition: Partition, ranks: IntArray) -> IntArray:
    """Expected ranks, all lowered by the same factor until they fit into the budget."""
    assert request.goal.memory is not None
    diagonal, sizes = request.method.diagonal, partition.sizes

    def counted(ranks: IntArray) -> float:
        stored = costs.stored_floats(sizes, ranks, diagonal=diagonal)
        if not request.goal.everything:
            return stored
        (k, d), itemsize = partition.centers.shape, request.X.itemsize
        landmarks = np.maximum(FAST.landmarks * ranks, FAST.min_landmarks)
        beside = costs.floats_beside_product(float(landmarks.sum()), partition.n_points, k, d, itemsize)
        return stored + beside + float(landmarks @ ranks)

    while counted(ranks) > request.goal.memory and (ranks > 1).any():
        ranks = np.maximum(np.floor(0.98 * ranks), 1).astype(np.intp)
    return ranks


def _with_fitting_tol(request: Request, surveys: list[Survey], plan: Plan) -> Plan:
    """The plan; where its tolerance does not pay or does not fit into memory, with a tolerance that would."""
    n, free = request.n_points, available_memory()
    fits = free is None or plan.working_bytes <= free
    if request.goal.memory is not None or (fits and costs.pays(plan.stored, n)):
        return plan
    budget = _WORTHWHILE * plan.dense
    if free is not None and not fits:
        budget = min(budget, plan.stored * free / plan.working_bytes / 2)
    errors = []
    for survey in surveys:
        if least_stored(n, survey.partition.n_clusters, request.method.diagonal) <= budget:
            allocation = survey.allocation
            errors.append(allocation.error(allocation.affordable(budget)[0]) / survey.norm)
    return replace(plan, fitting_tol=float(np.sqrt(min(errors))) if errors else None)
