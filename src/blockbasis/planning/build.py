"""The factorization of a plan.

Bases are sketched with slightly higher ranks than planned, and the draft is checked against a sample of exact entries.
Where the error is too large, the clusters with most of the error get higher ranks. The same entries then determine the
smallest ranks that meet the tolerance. The cost of these steps does not depend on n. The pass over the points is last.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.cluster_basis import WHOLE_SHARE, ClusterBasis, decay_rate
from blockbasis.construction.inner_matrix import exact_block, inner_of_blocks, related_pairs
from blockbasis.construction.method import FAST, SampleSizes
from blockbasis.construction.pipeline import (
    Draft,
    assemble,
    make_bases,
    semidefinite_draft,
    shift_reserve,
    sketched_draft,
)
from blockbasis.construction.semidefinite import semidefinite_inner
from blockbasis.construction.trimming import SPARSE, expected_share, rotated_draft, rotations, trimmed_draft
from blockbasis.exceptions import AccuracyWarning
from blockbasis.kernels.evaluator import CachedKernelMatrix, KernelMatrix
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.partition import Partition
from blockbasis.planning.allocation import Allocation
from blockbasis.planning.check import HeldOutCheck, Measured
from blockbasis.planning.goal import Goal
from blockbasis.planning.plan import Plan
from blockbasis.planning.survey import DROPPED_SHARE

#: The check must show the tolerance met by this many standard errors.
_DEVIATIONS = 2.5
#: Largest factor and increment of the ranks of clusters that have more than half of their share of the allowed error,
#: and the number of times that ranks are raised.
_RAISE = 1.4
_RAISE_MORE = 4
_RAISES = 8
#: Share of the allowed squared error that raised ranks aim at.
_RAISED_SHARE = 0.6
#: Where making C semi-definite adds error, ranks are chosen for a smaller error, with this additional factor.
_LESS_ERROR = 0.95
#: Share of the floats that blocks of C beside the diagonal must have to be trimmed, and share of the allowed squared
#: error that this may add.
_WORTH_TRIMMING = 0.2
_TRIMMED_SHARE = 0.12
#: Share to leave for the repair of a C that trimming makes indefinite. Trimmed blocks can add more error at all points
#: than at the points that the bases were sketched from: largest factors of the error between one trial and the next.
_REPAIR_SHARE = 0.05
_LESS_TRIMMED = (0.9, 0.5, 0.3, 0.1)
#: Ranks are not raised once this share of the entries of the matrix was evaluated.
_MOST_ENTRIES = 0.6
#: Largest factor by which the predicted error of a cluster is corrected, relative to the other clusters.
_CORRECTION = 2.0
#: A budget of which less than this share is used is not spent, where higher ranks can be built.
_SPENT = 0.9
#: Ranks are lowered until the error is between this share of the allowed error and all of it, in so many trials.
_NEARLY_ALL = 0.95
_TRIALS = 8
#: The predicted error changes like this power of the measured error, which has parts that ranks do not change.
_PREDICTED_POWER = 1.25
#: The determining rows of all clusters are at most this share of the points: by symmetry, C then takes at most an
#: eighth of the entries of the matrix.
_DETERMINING_SHARE = 0.5
_LEAST_INNER_ROWS = 3
#: Where that is not enough, this share of the points of a cluster determines its coordinates: C then takes less than a
#: fifth of the entries, and all samples together less than half.
_HIGH_RANK_SHARE = 0.57
#: A diagonal part is carried where the squared error without it is larger by more than this share.
_DIAGONAL_PAYS = 0.05


def build(matrix: KernelMatrix, plan: Plan, rng: np.random.Generator, n_jobs: int) -> BlockBasis:
    """The factorization of a plan, with ranks that are checked and adjusted to the goal."""
    partition, method, goal = plan.partition, plan.method, plan.goal
    of_bases, of_pairs, of_inner, of_check = rng.spawn(4)
    planning = matrix.entries
    sizes = _sample_sizes(partition, plan.sketched, goal)
    whole, matrix = matrix, matrix.single if plan.single else matrix.double
    bases = make_bases(
        matrix,
        partition,
        plan.sketched,
        method,
        sizes,
        of_bases,
        n_jobs,
        least_gains=plan.least_gains,
        keep_samples=True,
    )
    for_bases = matrix.entries - planning
    check = HeldOutCheck(matrix, partition, _expected_errors(bases), of_check)
    kept = None
    if goal.tol is not None and method.cutoff is None:
        streams, budget = of_pairs.spawn(partition.n_clusters), DROPPED_SHARE * goal.tol**2 * plan.norm
        kept, _ = related_pairs(matrix, partition, budget, streams, n_jobs)
        kept = check.with_missed_pairs(kept, budget)
    before_inner = matrix.entries
    sketch = replace(method, inner="sampled")
    draft = sketched_draft(matrix, partition, bases, sketch, sizes, of_inner, n_jobs, kept)
    for_inner = matrix.entries - before_inner
    if goal.tol is None:
        draft = _spending_budget(matrix, plan, draft, sizes, (of_bases, of_inner), n_jobs)
        values = check.evaluate(whole, draft, n_jobs)
    else:
        draft, values, measured = _meeting_tolerance(
            matrix, plan, draft, sizes, check, kept, (of_bases, of_inner), n_jobs
        )
    carried = diagonal = _carries_diagonal(plan, draft)
    if diagonal and goal.tol is not None:
        diagonal = _diagonal_pays(plan, check, draft, values)
    if goal.tol is None or diagonal != carried:
        measured = check.measure(draft, values, draft.ranks, diagonal=diagonal, spectral=goal.ridge > 0)
    _warn_if_missed(plan, measured, float(np.finfo(whole.dtype).eps))
    evaluated = Entries(for_bases, for_inner, matrix.entries - for_bases - for_inner)
    A = assemble(whole, partition, draft, evaluated, n_jobs, diagonal, measured.relative())
    return _with_exact_inner(whole, A) if method.inner == "exact" else A


def _sample_sizes(partition: Partition, built: IntArray, goal: Goal) -> SampleSizes:
    """Sizes of the samples, with fewer determining rows where C would otherwise need too many kernel entries."""
    most = _DETERMINING_SHARE * partition.n_points / max(int(built.sum()), 1)
    inner_rows = int(np.clip(most, _LEAST_INNER_ROWS, FAST.inner_rows))
    inner_share = 1.0 if most >= _LEAST_INNER_ROWS else _HIGH_RANK_SHARE
    return replace(FAST, inner_rows=inner_rows, inner_share=inner_share, negligible=goal.negligible)


def _expected_errors(bases: list[ClusterBasis]) -> FloatArray:
    return np.array([float(basis.residuals[-1]) for basis in bases])


def _allocation(
    draft: Draft,
    diagonal: bool,
    fixed: float = 0.0,
    per_function: FloatArray | None = None,
    factors: FloatArray | None = None,
    trimmed: float = 1.0,
) -> Allocation:
    """Allocation of floats among the clusters of a draft, for the blocks of C that the draft keeps.

    ``factors`` correct the predicted residuals of the clusters. ``trimmed`` is the share of the entries of blocks
    beside the diagonal that will be stored.
    """
    k = len(draft.bases)
    related = np.eye(k)
    for i, kept in enumerate(draft.inner.kept):
        others = kept[kept != i]
        related[i, others] = related[others, i] = trimmed
    sizes = np.array([float(basis.size) for basis in draft.bases])
    stored = fixed + (float(sizes.sum()) if diagonal else 0.0)
    residuals = [basis.residuals for basis in draft.bases]
    if factors is not None:
        residuals = [factor * each for factor, each in zip(factors, residuals, strict=True)]
    extra = np.zeros(k) if per_function is None else per_function
    return Allocation(residuals, sizes, np.ones(k), lambda ranks: related @ ranks, stored, extra)


def _affordable(plan: Plan, draft: Draft) -> tuple[IntArray, float]:
    """Ranks of least predicted error within the budget, and the floats that they take of it."""
    assert plan.goal.memory is not None
    fixed, per_function = 0.0, None
    if plan.goal.everything:  # all bytes kept count, in floats
        partition, itemsize = plan.partition, plan.dtype.itemsize
        n, k, d = partition.n_points, partition.n_clusters, plan.n_features
        landmarks = np.array([float(len(basis.landmarks)) for basis in draft.bases])
        fixed = float(landmarks.sum()) * d + (8 * (n + k + 1 + k * d + k + k * (k + 1) // 2) + _FILE_BYTES) / itemsize
        per_function = landmarks + draft.ranks / 2
    allocation = _allocation(draft, plan.method.diagonal, fixed, per_function)
    ranks = allocation.affordable(plan.goal.memory)[0]
    return ranks, allocation.stored(ranks)


def _spending_budget(
    matrix: KernelMatrix,
    plan: Plan,
    draft: Draft,
    sizes: SampleSizes,
    streams: tuple[np.random.Generator, np.random.Generator],
    n_jobs: int,
) -> Draft:
    """The draft with the ranks that the budget affords; higher ranks are built while the budget has room for them."""
    assert plan.goal.memory is not None
    method = replace(plan.method, inner="sampled")
    for _ in range(_RAISES):
        ranks, stored = _affordable(plan, draft)
        held_back = (ranks == draft.ranks) & (draft.ranks < plan.partition.sizes)
        if stored >= _SPENT * plan.goal.memory or not held_back.any():
            break
        higher = _higher(draft.ranks, plan.partition.sizes)
        bases = _raised_bases(matrix, plan, draft.bases, np.where(held_back, higher, 0), sizes, streams[0], n_jobs)
        draft = sketched_draft(
            matrix, plan.partition, bases, method, sizes, streams[1], n_jobs, known=(draft, ~held_back)
        )
    ranks, stored = _affordable(plan, draft)
    if stored > plan.goal.memory:  # bases of the ranks themselves have fewer landmarks
        bases = _raised_bases(matrix, plan, draft.bases, ranks, sizes, streams[0], n_jobs)
        draft = sketched_draft(matrix, plan.partition, bases, method, sizes, streams[1], n_jobs)
        ranks, stored = _affordable(plan, draft)
    if stored > plan.goal.memory:
        needed, itemsize = math.ceil(stored), plan.dtype.itemsize
        raise ValueError(
            f"The 'memory' parameter must be at least {needed * itemsize:,} bytes for {plan.n_clusters} clusters of "
            f"points with {plan.n_features} columns. Got {plan.goal.memory * itemsize:,} instead: take more memory, or "
            "fewer clusters by n_clusters."
        )
    truncated = draft.truncated(ranks).without_samples()
    return semidefinite_draft(matrix, truncated, _allocation(draft, plan.method.diagonal).error(ranks))


#: Bytes of a file beside its arrays.
_FILE_BYTES = 8_192


# --- a tolerance -----------------------------------------------------------------------------------------------------


def _meeting_tolerance(
    matrix: KernelMatrix,
    plan: Plan,
    draft: Draft,
    sizes: SampleSizes,
    check: HeldOutCheck,
    kept: NDArray[np.bool_] | None,
    streams: tuple[np.random.Generator, np.random.Generator],
    n_jobs: int,
) -> tuple[Draft, list[FloatArray], Measured]:
    """A draft that meets the tolerance with the smallest ranks, its functions at the checked points, and its error."""
    partition, method = plan.partition, replace(plan.method, inner="sampled")
    trimmed_share = _TRIMMED_SHARE if _trimming_pays(plan, draft) else 0.0
    most_share = 1 - shift_reserve(draft) - (_REPAIR_SHARE if trimmed_share > 0 else 0.0)
    goal_share = most_share - trimmed_share
    for _ in range(_RAISES):
        values = check.evaluate(matrix, draft, n_jobs)
        measured, share = _share_of_allowed(plan, check, draft, values)
        last = _entries_spent(matrix)
        if share <= (most_share if last else goal_share):
            ranks, measured, share = _smallest_ranks(plan, check, draft, values, measured, share, goal_share)
            truncated, allowed = draft.truncated(ranks).without_samples(), plan.goal.allowed(measured.norm)
            small, kept_values = truncated, [own[:, :rank] for own, rank in zip(values, ranks, strict=True)]
            if trimmed_share > 0:
                small, kept_values = _trimmed(plan, check, truncated, kept_values, share, most_share)
            small = semidefinite_draft(matrix, small, allowed)
            if small is not truncated:
                measured, share = _share_of_allowed(plan, check, small, kept_values)
            if share <= 1:
                return small, kept_values, measured
            most_share *= _LESS_ERROR / share  # making C semi-definite has added error
            goal_share *= _LESS_ERROR / share
            continue
        raised = _raised(measured, plan, draft, share / goal_share)
        same = raised == draft.ranks
        if same.all() or last:
            break
        bases = _raised_bases(matrix, plan, draft.bases, np.where(same, 0, raised), sizes, streams[0], n_jobs)
        draft = sketched_draft(matrix, partition, bases, method, sizes, streams[1], n_jobs, kept, (draft, same))
    draft = semidefinite_draft(matrix, draft.without_samples(), plan.goal.allowed(measured.norm))
    values = check.evaluate(matrix, draft, n_jobs)
    return draft, values, _share_of_allowed(plan, check, draft, values)[0]


def _entries_spent(matrix: KernelMatrix) -> bool:
    """Whether too many entries were evaluated to raise ranks, unless all of them are known."""
    return not isinstance(matrix, CachedKernelMatrix) and matrix.entries > _MOST_ENTRIES * matrix.shape[0] ** 2


def _trimmed(
    plan: Plan, check: HeldOutCheck, draft: Draft, values: list[FloatArray], share: float, most: float
) -> tuple[Draft, list[FloatArray]]:
    """The draft with C trimmed, and its functions at the checked points.

    The bound of the error rises from ``share`` of the allowed error to at most ``most``.
    """
    turns = rotations(draft.inner)
    rotated = rotated_draft(draft, turns)
    values = [own @ turn for own, turn in zip(values, turns, strict=True)]
    budget = max(most - share, 0.0) * plan.goal.allowed(check.norm)
    for most_of_it in _LESS_TRIMMED:
        trimmed = trimmed_draft(rotated, budget)
        reached = _share_of_allowed(plan, check, trimmed, values)[1]
        if reached <= most:
            return trimmed, values
        budget *= min(_LESS_ERROR * max(most - share, 0.0) / (reached - share), most_of_it)
    return rotated, values


def _trimming_pays(plan: Plan, draft: Draft) -> bool:
    """Whether the blocks of C beside the diagonal have a share of the floats that is worth trimming."""
    ranks = draft.ranks
    own = int((ranks * (ranks + 1) // 2).sum())
    stored = draft.inner.stored + int(plan.partition.sizes @ ranks)
    # An exact inner matrix has all blocks; blocks that the caller cut off are not trimmed further.
    sparse = plan.method.inner == "sampled" and plan.method.cutoff is None and draft.inner.density < SPARSE
    return sparse and draft.inner.stored - own > _WORTH_TRIMMING * stored


def _higher(ranks: IntArray, sizes: IntArray) -> IntArray:
    """Ranks raised by a factor and an increment."""
    return _whole_or(np.minimum((_RAISE * ranks).astype(np.intp) + _RAISE_MORE, sizes), sizes)


def _whole_or(ranks: IntArray, sizes: IntArray) -> IntArray:
    """The ranks, or the size of a cluster where its rank is close to that: the cluster is kept whole."""
    return np.where(ranks > WHOLE_SHARE * sizes, sizes, ranks).astype(np.intp)


def _raised_bases(
    matrix: KernelMatrix,
    plan: Plan,
    bases: list[ClusterBasis],
    ranks: IntArray,
    sizes: SampleSizes,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[ClusterBasis]:
    """New bases where the rank is positive, the old bases where it is zero."""
    method = replace(plan.method, inner="sampled")
    chosen = np.flatnonzero(ranks)
    fresh = make_bases(
        matrix, plan.partition, ranks, method, sizes, rng, n_jobs, chosen, earlier=bases, keep_samples=True
    )
    result = list(bases)
    for i, basis in zip(chosen.tolist(), fresh, strict=True):
        result[i] = basis
    return result


def _share_of_allowed(
    plan: Plan, check: HeldOutCheck, draft: Draft, values: list[FloatArray], ranks: IntArray | None = None
) -> tuple[Measured, float]:
    """Measured error at the given ranks (None: those of the draft), and its upper bound over the allowed error."""
    spectral = plan.goal.ridge > 0
    ranks = draft.ranks if ranks is None else ranks
    measured = check.measure(draft, values, ranks, diagonal=_carries_diagonal(plan, draft), spectral=spectral)
    upper = measured.upper(_DEVIATIONS)
    allowed = plan.goal.allowed(measured.norm, upper, measured.spectral)
    return measured, upper / allowed if allowed > 0 else (0.0 if upper == 0 else np.inf)


def _raised(measured: Measured, plan: Plan, draft: Draft, share: float) -> IntArray:
    """Higher ranks for clusters with more than half of their share of the allowed error, or for all if none has.

    The residuals of a cluster decay nearly exponentially with the rank, at the rate of the second half of its ranks.
    """
    ranks, sizes = draft.ranks, plan.partition.sizes
    fair = plan.goal.allowed(measured.norm) * sizes / plan.partition.n_points
    growing = ranks < sizes
    over = growing & (measured.per_cluster > fair / 2)
    over = over if over.any() else growing
    rates = np.array([decay_rate(basis.residuals) for basis in draft.bases])
    more = np.ceil(np.log(max(share / _RAISED_SHARE, 1.0)) / rates) + _RAISE_MORE
    higher = np.minimum(ranks + np.minimum(more, np.maximum(ranks, _RAISE_MORE)), _higher(ranks, sizes))
    return np.where(over, _whole_or(higher.astype(np.intp), sizes), ranks).astype(np.intp)


def _smallest_ranks(
    plan: Plan,
    check: HeldOutCheck,
    draft: Draft,
    values: list[FloatArray],
    measured: Measured,
    share: float,
    goal_share: float,
) -> tuple[IntArray, Measured, float]:
    """The ranks of least memory that meet the tolerance, the error with these ranks, and its share of the allowed.

    Each trial corrects the prediction by the ratio of predicted and measured error in the trial before.
    """
    trimmed = expected_share(draft.inner.density) if _trimming_pays(plan, draft) else 1.0
    factors = _corrections(draft, measured)
    allocation = _allocation(draft, _carries_diagonal(plan, draft), factors=factors, trimmed=trimmed)
    best = draft.ranks, measured, share
    low = max(allocation.error(draft.ranks), np.finfo(np.float64).tiny)
    high = np.inf
    target = low * (0.98 * goal_share / share) ** _PREDICTED_POWER if share > 0 else np.inf
    for _ in range(_TRIALS):
        ranks = np.minimum(allocation.within(target)[0], draft.ranks)
        measured, share = _share_of_allowed(plan, check, draft, values, ranks)
        if share <= goal_share:
            best, low = (ranks, measured, share), target
            if share > _NEARLY_ALL * goal_share or (ranks == 1).all():
                break
        else:
            high = target
        target = target * (0.98 * goal_share / max(share, 1e-3)) ** _PREDICTED_POWER
        if not low < target < high:
            if high <= 1.01 * low:
                break
            target = float(np.sqrt(low * high)) if np.isfinite(high) else 2 * low
    return best


def _corrections(draft: Draft, measured: Measured) -> FloatArray:
    """Measured over predicted error of each cluster, against that of the other clusters, within limits."""
    predicted = _expected_errors(draft.bases)
    known = (predicted > 0) & (measured.per_cluster > 0)
    factors = np.ones(len(predicted))
    if known.any():
        ratios = np.log(measured.per_cluster[known]) - np.log(predicted[known])
        most = math.log(_CORRECTION)
        factors[known] = np.exp(np.clip(ratios - np.median(ratios), -most, most))
    return factors


def _carries_diagonal(plan: Plan, draft: Draft) -> bool:
    """Whether a diagonal part is carried: always with a budget, otherwise where a cluster has one."""
    wanted = plan.method.diagonal
    return wanted and (plan.goal.tol is None or any(basis.diagonal.any() for basis in draft.bases))


def _diagonal_pays(plan: Plan, check: HeldOutCheck, draft: Draft, values: list[FloatArray]) -> bool:
    """Whether the error without a diagonal part is not allowed, or larger by more than its floats are worth."""
    carried = check.measure(draft, values, draft.ranks, diagonal=True)
    without = check.measure(draft, values, draft.ranks, diagonal=False, spectral=plan.goal.ridge > 0)
    upper = without.upper(_DEVIATIONS)
    too_much = upper > plan.goal.allowed(without.norm, upper, without.spectral)
    return too_much or without.error > (1 + _DIAGONAL_PAYS) * carried.error


def _warn_if_missed(plan: Plan, measured: Measured, rounding: float) -> None:
    """Warn of a tolerance that the check does not show to be met, or that is below the rounding of the entries."""
    goal = plan.goal
    if goal.tol is None:
        return
    upper = measured.upper(_DEVIATIONS)
    if upper <= goal.allowed(measured.norm, upper, measured.spectral) and goal.tol >= rounding:
        return
    error = max(measured.relative().value, rounding)
    warnings.warn(
        f"The tolerance of {goal.tol:g} was not reached: the relative error is about {error:.2g}. "
        "Take a larger tolerance, a smaller cutoff, or dtype=numpy.float64.",
        AccuracyWarning,
        stacklevel=5,
    )


def _with_exact_inner(matrix: KernelMatrix, A: BlockBasis) -> BlockBasis:
    """The factorization with the same bases and C = Uᵀ (K - D) U, computed from every entry of K."""
    partition, blocks = A.partition, A.bases
    part = None if A.diagonal_part is None else A.diagonal_part[partition.order].astype(np.float64)
    rows = []
    for i, U in enumerate(blocks):
        row = {}
        for j in range(i, len(blocks)):
            row[j] = exact_block(matrix, partition.cluster(i), U, partition.cluster(j), blocks[j])
        if part is not None:
            row[i] = row[i] - (U * part[partition.cluster(i), np.newaxis]).T @ U
        row[i] = (row[i] + row[i].T) / 2
        rows.append(row)
    inner = semidefinite_inner(inner_of_blocks(A.ranks.tolist(), rows), float(np.finfo(matrix.dtype).eps))
    return replace(A, inner=inner.astype(matrix.dtype))
