"""The factorization of a plan.

Bases are sketched with slightly higher ranks than planned, and the draft is checked against a sample of exact entries.
Where the error is too large, the clusters with most of the error get higher ranks. The same entries then determine the
smallest ranks that meet the tolerance. The cost of these steps does not depend on n. The pass over the points is last.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.cluster_basis import IDENTITY_SHARE, ClusterBasis, decay_rate
from blockbasis.construction.inner_matrix import (
    SPARSE,
    energy_rotations,
    expected_share,
    related_pairs,
    rotated_inner,
    trimmed_inner,
    with_exact_inner,
)
from blockbasis.construction.method import FAST, SampleSizes
from blockbasis.construction.pipeline import (
    SHIFT_SHARE,
    Construction,
    Draft,
    assemble,
    make_bases,
    semidefinite_draft,
    shift_reserve,
    sketched_draft,
)
from blockbasis.construction.semidefinite import squared_changes
from blockbasis.exceptions import AccuracyWarning
from blockbasis.kernels.evaluator import CachedKernelMatrix, KernelMatrix
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.planning.allocation import Allocation
from blockbasis.planning.check import HeldOutCheck, Measured, corrections
from blockbasis.planning.costs import dense_floats, floats_beside_product
from blockbasis.planning.plan import Plan
from blockbasis.planning.survey import DROPPED_SHARE

#: The check must show the tolerance met by this many standard errors.
_STANDARD_ERRORS = 2.5
#: Number of times that ranks are raised, and largest factor and increment of the ranks each time.
_MAX_RAISES = 8
_RAISE_FACTOR = 1.4
_RAISE_INCREMENT = 4
#: Share of the allowed squared error that raised ranks aim at.
_RAISED_SHARE = 0.6
#: Where a repair of C adds error, ranks are chosen for a smaller error, with this additional factor.
_SAFETY_FACTOR = 0.95
#: Share of the floats that off-diagonal blocks of C must have to be trimmed, the same where nearly all blocks are kept,
#: and share of the allowed squared error that trimming may add.
_WORTH_TRIMMING = 0.2
_WORTH_TRIMMING_DENSE = 0.5
_TRIMMED_SHARE = 0.12
#: Share of the allowed squared error to reserve for the repair of a C that trimming makes indefinite.
_REPAIR_SHARE = 0.05
#: A multiple of the identity may take this share of the squared error that is still allowed.
_SPARE_SHARE = 0.5
#: Shares of the allowed squared error above which the repair of one block row of C, and of all, is too large.
_MAX_CHANGE = 0.1
_MAX_CHANGES = 1.0
#: Trimming can add more error at all points than at the sampled rows of the bases. Largest factor of the trimmed error
#: from one trial to the next.
_TRIMMING_FACTORS = (0.9, 0.5, 0.3, 0.1)
#: Ranks are not raised once this share of the entries of the matrix was evaluated.
_MAX_ENTRIES = 0.6
#: Ranks are raised while less than this share of a budget is used.
_USED_SHARE = 0.9
#: Ranks are lowered until the error is between this share of the allowed error and all of it, in this many trials.
_ACCEPTED_SHARE = 0.95
_MAX_TRIALS = 8
#: The predicted error changes like this power of the measured error, part of which does not depend on the ranks.
_PREDICTED_POWER = 1.25
#: The determining rows of all clusters are at most this share of the points: by symmetry, C then takes at most an
#: eighth of the entries of the matrix. There are at least ``_MIN_INNER_ROWS`` of them for each unit of rank.
_DETERMINING_SHARE = 0.5
_MIN_INNER_ROWS = 3
#: Where that is too many, this share of the points of a cluster determines its coordinates: C then takes less than a
#: fifth of the entries, and all samples together less than half.
_HIGH_RANK_SHARE = 0.57
#: A diagonal part is carried where the squared error without it is larger by more than this share.
_DIAGONAL_GAIN = 0.05


def build(matrix: KernelMatrix, plan: Plan, rng: np.random.Generator, n_jobs: int) -> BlockBasis:
    """The factorization of a plan, with ranks that are checked and adjusted to the goal."""
    partition, method, goal = plan.partition, plan.method, plan.goal
    bases_stream, pairs_stream, inner_stream, check_stream = rng.spawn(4)
    planning = matrix.entries
    original, matrix = matrix, matrix.single if plan.single else matrix.double
    sketched = replace(method, inner="sampled")
    construction = Construction(matrix, partition, sketched, _sample_sizes(plan).adapted(method), n_jobs)
    # An exact inner matrix takes singular vectors of all rows as bases: see `Method.sketched`.
    bases = make_bases(
        replace(construction, method=method),
        plan.sketched,
        bases_stream,
        least_gains=plan.least_gains,
        keep_samples=True,
    )
    bases_entries = matrix.entries - planning
    check = HeldOutCheck(matrix, partition, _predicted_errors(bases), check_stream)
    kept = None
    if goal.tol is not None and method.cutoff is None:
        streams, budget = pairs_stream.spawn(partition.n_clusters), DROPPED_SHARE * goal.tol**2 * plan.norm
        kept, _ = related_pairs(matrix, partition, budget, streams, n_jobs)
        kept = check.with_missed_pairs(kept, budget)
    before_inner = matrix.entries
    draft = sketched_draft(construction, bases, inner_stream, kept)
    inner_entries = matrix.entries - before_inner
    builder = _Builder(construction, plan, check, bases_stream, inner_stream, kept)
    if goal.tol is None:
        draft = builder.spend_budget(draft)
        values = check.evaluate(original, draft, n_jobs)
    else:
        draft, values, measured = builder.meet_tolerance(draft)
    carried = diagonal = builder.carries_diagonal(draft)
    if diagonal and goal.tol is not None:
        diagonal = builder.diagonal_pays(draft, values)
    if goal.tol is None or diagonal != carried:
        measured = check.measure(draft, values, draft.ranks, diagonal=diagonal, spectral=goal.ridge > 0)
    _warn_if_missed(plan, measured, float(np.finfo(original.dtype).eps))
    entries = Entries(bases_entries, inner_entries, matrix.entries - bases_entries - inner_entries)
    A = assemble(original, partition, draft, entries, n_jobs, diagonal, measured.relative())
    return with_exact_inner(original, A) if method.inner == "exact" else A


def _sample_sizes(plan: Plan) -> SampleSizes:
    """Sizes of the samples, with fewer determining rows where C would otherwise need too many kernel entries."""
    limit = _DETERMINING_SHARE * plan.partition.n_points / max(int(plan.sketched.sum()), 1)
    inner_rows = int(np.clip(limit, _MIN_INNER_ROWS, FAST.inner_rows))
    share = 1.0 if limit >= _MIN_INNER_ROWS else _HIGH_RANK_SHARE
    return replace(FAST, inner_rows=inner_rows, max_inner_share=share, negligible=plan.goal.negligible)


def _predicted_errors(bases: list[ClusterBasis]) -> FloatArray:
    """Predicted squared error of each cluster."""
    return np.array([float(basis.residuals[-1]) for basis in bases])


@dataclass(frozen=True)
class _Builder:
    """Adjusts the ranks of a draft to the goal of a plan.

    Parameters
    ----------
    construction : Construction
    plan : Plan
    check : HeldOutCheck
    bases_stream, inner_stream : Generator
    kept : ndarray of shape (k, k) or None
        Mask of the pairs of clusters whose blocks are computed.
    """

    construction: Construction
    plan: Plan
    check: HeldOutCheck
    bases_stream: np.random.Generator
    inner_stream: np.random.Generator
    kept: NDArray[np.bool_] | None

    def allocation(
        self,
        draft: Draft,
        *,
        diagonal: bool,
        fixed: float = 0.0,
        per_function: FloatArray | None = None,
        factors: FloatArray | None = None,
        trimmed: float = 1.0,
    ) -> Allocation:
        """Allocation of floats among the clusters of a draft, for the blocks of C that the draft keeps.

        Parameters
        ----------
        draft : Draft
        diagonal : bool
            Whether a diagonal part is carried.
        fixed, per_function
            Additional floats, as of `Allocation`.
        factors : ndarray of shape (k,), default=None
            Corrections of the predicted residuals of the clusters.
        trimmed : float, default=1.0
            Share of the entries of off-diagonal blocks that will be stored.
        """
        k = len(draft.bases)
        related = np.eye(k)
        for i, kept in enumerate(draft.inner.kept):
            off_diagonal = kept[kept != i]
            related[i, off_diagonal] = related[off_diagonal, i] = trimmed
        sizes = np.array([float(basis.size) for basis in draft.bases])
        residuals = [basis.residuals for basis in draft.bases]
        if factors is not None:
            residuals = [factor * each for factor, each in zip(factors, residuals, strict=True)]
        return Allocation(
            residuals=residuals,
            sizes=sizes,
            weights=np.ones(k),
            related=lambda ranks: related @ ranks,
            fixed=fixed + (float(sizes.sum()) if diagonal else 0.0),
            per_function=np.zeros(k) if per_function is None else per_function,
        )

    def raised(self, draft: Draft, ranks: IntArray, known: NDArray[np.bool_] | None) -> Draft:
        """The draft with new bases where the rank is positive; ``known`` clusters keep their coordinates too."""
        bases, selected, sizes = list(draft.bases), np.flatnonzero(ranks), self.construction.sizes
        # Directions beside a diagonal part can be exhausted while its error remains: a tolerance then goes without it.
        for rounds in (sizes.diagonal_rounds, 0) if self.plan.goal.tol is not None else (sizes.diagonal_rounds,):
            own = replace(self.construction, sizes=replace(sizes, diagonal_rounds=rounds))
            new = make_bases(own, ranks, self.bases_stream, selected=selected, earlier=draft.bases, keep_samples=True)
            for i, basis in zip(selected.tolist(), new, strict=True):
                bases[i] = basis
            exhausted = [bases[i].diagonal.any() and bases[i].rank <= draft.bases[i].rank for i in selected]
            selected = selected[np.array(exhausted, dtype=np.bool_)]
            if not len(selected):
                break
        unchanged = None if known is None else (draft, known)
        return sketched_draft(self.construction, bases, self.inner_stream, self.kept, unchanged)

    # --- a budget ----------------------------------------------------------------------------------------------------

    def spend_budget(self, draft: Draft) -> Draft:
        """The draft with the ranks that the budget affords; higher ranks are built while the budget has room."""
        plan, sizes = self.plan, self.plan.partition.sizes
        assert plan.goal.memory is not None
        for _ in range(_MAX_RAISES):
            ranks, stored = self.affordable(draft)
            limited = (ranks == draft.ranks) & (draft.ranks < sizes)
            if stored >= _USED_SHARE * plan.goal.memory or not limited.any():
                break
            draft = self.raised(draft, np.where(limited, _higher(draft.ranks, sizes), 0), ~limited)
        ranks, stored = self.affordable(draft)
        if stored > plan.goal.memory:  # bases of the ranks themselves have fewer landmarks
            draft = self.raised(draft, ranks, None)
            ranks, stored = self.affordable(draft)
        if stored > plan.goal.memory:
            itemsize = plan.dtype.itemsize
            fewer = ", or fewer clusters by n_clusters" if plan.n_clusters > 1 else ""
            raise ValueError(
                f"The 'memory' parameter must be at least {math.ceil(stored) * itemsize:,} bytes for points with "
                f"{plan.n_features} columns and n_clusters={plan.n_clusters}. "
                f"Got {plan.goal.memory * itemsize:,} instead: take more memory{fewer}."
            )
        error = self.allocation(draft, diagonal=plan.method.diagonal).error(ranks)
        return semidefinite_draft(
            self.construction.matrix, draft.truncated(ranks).without_samples(), error, self.construction.n_jobs
        )

    def affordable(self, draft: Draft) -> tuple[IntArray, float]:
        """Ranks of least predicted error within the budget, and the floats that count for the budget."""
        plan = self.plan
        assert plan.goal.memory is not None
        fixed, per_function = 0.0, None
        if plan.goal.everything:  # all bytes kept count, in floats
            n, (k, d), itemsize = plan.partition.n_points, plan.partition.centers.shape, plan.dtype.itemsize
            landmarks = np.array([float(len(basis.landmarks)) for basis in draft.bases])
            fixed = floats_beside_product(float(landmarks.sum()), n, k, d, itemsize)
            per_function = landmarks + draft.ranks / 2
        allocation = self.allocation(draft, diagonal=plan.method.diagonal, fixed=fixed, per_function=per_function)
        ranks = allocation.affordable(plan.goal.memory)[0]
        return ranks, allocation.stored(ranks)

    # --- a tolerance -------------------------------------------------------------------------------------------------

    def meet_tolerance(self, draft: Draft) -> tuple[Draft, list[FloatArray], Measured]:
        """A draft that meets the tolerance with the smallest ranks, its functions at checked points, and its error."""
        matrix, goal, n_jobs = self.construction.matrix, self.plan.goal, self.construction.n_jobs
        trimmed_share = _TRIMMED_SHARE if self.trimming_pays(draft) else 0.0
        max_share = 1 - shift_reserve(draft) - (_REPAIR_SHARE if trimmed_share > 0 else 0.0)
        target = max_share - trimmed_share
        for _ in range(_MAX_RAISES):
            values = self.check.evaluate(matrix, draft, n_jobs)
            measured, share = self.measure(draft, values)
            # Ranks are not raised where too many entries were evaluated, unless all of them are cached.
            last = not isinstance(matrix, CachedKernelMatrix) and matrix.entries > _MAX_ENTRIES * matrix.shape[0] ** 2
            if share <= (max_share if last else target):
                ranks, measured, share = self.smallest_ranks(draft, values, measured, share, target)
                result = truncated = draft.truncated(ranks).without_samples()
                allowed = goal.allowed(measured.norm)
                leading = [own[:, :rank] for own, rank in zip(values, ranks, strict=True)]
                if trimmed_share > 0:
                    result, leading = self.trimmed(truncated, leading, share, max_share)
                if result is not truncated:
                    measured, share = self.measure(result, leading)
                shift_share = max(SHIFT_SHARE, _SPARE_SHARE * (1 - share))
                indefinite, result = result, semidefinite_draft(matrix, result, allowed, n_jobs, shift_share)
                if result is not indefinite:
                    measured, share = self.measure(result, leading)
                if share <= 1:
                    return result, leading, measured
                # The diagonal parts of near points in different clusters can be too large for a semi-definite C. Higher
                # ranks do not reduce this error; an identity basis needs no diagonal part.
                changes = squared_changes(indefinite.inner, result.inner)
                changed = (changes > _MAX_CHANGE * allowed) & (draft.ranks < self.plan.partition.sizes)
                if changes.sum() > _MAX_CHANGES * allowed and changed.any() and not last:
                    draft = self.raised(draft, np.where(changed, self.plan.partition.sizes, 0), ~changed)
                    continue
                max_share *= _SAFETY_FACTOR / share  # making C semi-definite has added error
                target *= _SAFETY_FACTOR / share
                continue
            ranks = self.raised_ranks(draft, measured, share / target)
            unchanged = ranks == draft.ranks
            if unchanged.all() or last:
                break
            draft = self.raised(draft, np.where(unchanged, 0, ranks), unchanged)
        draft = semidefinite_draft(matrix, draft.without_samples(), goal.allowed(measured.norm), n_jobs)
        values = self.check.evaluate(matrix, draft, n_jobs)
        return draft, values, self.measure(draft, values)[0]

    def measure(self, draft: Draft, values: list[FloatArray], ranks: IntArray | None = None) -> tuple[Measured, float]:
        """Measured error at the given ranks (None: those of the draft), and its upper bound over the allowed error."""
        ranks, ridge = draft.ranks if ranks is None else ranks, self.plan.goal.ridge
        diagonal = self.carries_diagonal(draft)
        measured = self.check.measure(draft, values, ranks, diagonal=diagonal, spectral=ridge > 0)
        upper = measured.upper(_STANDARD_ERRORS)
        allowed = self.plan.goal.allowed(measured.norm, upper, measured.spectral)
        return measured, upper / allowed if allowed > 0 else (0.0 if upper == 0 else np.inf)

    def raised_ranks(self, draft: Draft, measured: Measured, excess: float) -> IntArray:
        """Higher ranks for clusters with more than half of their share of the allowed error, or for all if none has.

        The residuals of a cluster decay nearly exponentially with the rank, at the rate of the second half of its
        ranks. ``excess`` is the measured error over the error to reach.
        """
        ranks, sizes = draft.ranks, self.plan.partition.sizes
        fair = self.plan.goal.allowed(measured.norm) * sizes / self.plan.partition.n_points
        growing = ranks < sizes
        above = growing & (measured.per_cluster > fair / 2)
        above = above if above.any() else growing
        rates = np.array([decay_rate(basis.residuals) for basis in draft.bases])
        increments = np.ceil(np.log(max(excess / _RAISED_SHARE, 1.0)) / rates) + _RAISE_INCREMENT
        increments = np.minimum(increments, np.maximum(ranks, _RAISE_INCREMENT))
        higher = np.minimum(ranks + increments, _higher(ranks, sizes)).astype(np.intp)
        return np.where(above, _or_identity(higher, sizes), ranks).astype(np.intp)

    def smallest_ranks(
        self, draft: Draft, values: list[FloatArray], measured: Measured, share: float, target: float
    ) -> tuple[IntArray, Measured, float]:
        """The ranks of least memory that meet the tolerance, the error with these ranks, and its share of the allowed.

        Each trial corrects the prediction by the ratio of predicted and measured error of the previous trial.
        ``target`` is the share of the allowed error to reach.
        """
        kept = draft.inner.stored / max(dense_floats(draft.inner.shape[0]), 1)
        trimmed = expected_share(kept) if self.trimming_pays(draft) else 1.0
        factors = corrections(_predicted_errors(draft.bases), measured)
        allocation = self.allocation(draft, diagonal=self.carries_diagonal(draft), factors=factors, trimmed=trimmed)
        best = draft.ranks, measured, share
        low = max(allocation.error(draft.ranks), np.finfo(np.float64).tiny)
        high = np.inf
        error = low * (0.98 * target / share) ** _PREDICTED_POWER if share > 0 else np.inf
        for _ in range(_MAX_TRIALS):
            ranks = np.minimum(allocation.within(error)[0], draft.ranks)
            measured, share = self.measure(draft, values, ranks)
            if share <= target:
                best, low = (ranks, measured, share), error
                if share > _ACCEPTED_SHARE * target or (ranks == 1).all():
                    break
            else:
                high = error
            error = error * (0.98 * target / max(share, 1e-3)) ** _PREDICTED_POWER
            if not low < error < high:
                if high <= 1.01 * low:
                    break
                error = float(np.sqrt(low * high)) if np.isfinite(high) else 2 * low
        return best

    def trimming_pays(self, draft: Draft) -> bool:
        """Whether the off-diagonal blocks of C have a share of the floats that is worth trimming."""
        ranks, method = draft.ranks, self.plan.method
        diagonal_blocks = int((ranks * (ranks + 1) // 2).sum())
        stored = draft.inner.stored + int(self.plan.partition.sizes @ ranks)
        # An exact inner matrix has all blocks; a C with a cutoff is not trimmed further.
        allowed = method.inner == "sampled" and method.cutoff is None
        worth = _WORTH_TRIMMING if draft.inner.density < SPARSE else _WORTH_TRIMMING_DENSE
        return allowed and draft.inner.stored - diagonal_blocks > worth * stored

    def trimmed(
        self, draft: Draft, values: list[FloatArray], share: float, max_share: float
    ) -> tuple[Draft, list[FloatArray]]:
        """The draft with rotated bases and C trimmed, and its functions at the checked points.

        The bound of the error rises from ``share`` of the allowed error to at most ``max_share``.
        """
        rotations = energy_rotations(draft.inner)
        bases = [basis.rotated(V) for basis, V in zip(draft.bases, rotations, strict=True)]
        rotated = Draft(bases, [], rotated_inner(draft.inner, rotations), draft.cutoff)
        values = [own @ V for own, V in zip(values, rotations, strict=True)]
        budget = max(max_share - share, 0.0) * self.plan.goal.allowed(self.check.norm)
        for max_factor in _TRIMMING_FACTORS:
            result = replace(rotated, inner=trimmed_inner(rotated.inner, budget))
            reached = self.measure(result, values)[1]
            if reached <= max_share:
                return result, values
            budget *= min(_SAFETY_FACTOR * max(max_share - share, 0.0) / (reached - share), max_factor)
        return rotated, values

    # --- the diagonal part -------------------------------------------------------------------------------------------

    def carries_diagonal(self, draft: Draft) -> bool:
        """Whether a diagonal part is carried: always with a budget, otherwise where a cluster has one."""
        return self.plan.method.diagonal and (self.plan.goal.tol is None or draft.has_diagonal)

    def diagonal_pays(self, draft: Draft, values: list[FloatArray]) -> bool:
        """Whether the error without a diagonal part is not allowed, or larger by more than its floats are worth."""
        goal = self.plan.goal
        carried = self.check.measure(draft, values, draft.ranks, diagonal=True)
        without = self.check.measure(draft, values, draft.ranks, diagonal=False, spectral=goal.ridge > 0)
        upper = without.upper(_STANDARD_ERRORS)
        missed = upper > goal.allowed(without.norm, upper, without.spectral)
        return missed or without.error > (1 + _DIAGONAL_GAIN) * carried.error


def _higher(ranks: IntArray, sizes: IntArray) -> IntArray:
    """Ranks raised by a factor and an increment."""
    raised = (_RAISE_FACTOR * ranks).astype(np.intp) + _RAISE_INCREMENT
    return _or_identity(np.minimum(raised, sizes), sizes)


def _or_identity(ranks: IntArray, sizes: IntArray) -> IntArray:
    """The ranks, or the size of a cluster where its rank is close to it: the basis is then the identity."""
    return np.where(ranks > IDENTITY_SHARE * sizes, sizes, ranks).astype(np.intp)


def _warn_if_missed(plan: Plan, measured: Measured, rounding: float) -> None:
    """Warn of a tolerance that the check does not show to be met, or that is below the rounding of the entries."""
    goal = plan.goal
    if goal.tol is None:
        return
    upper = measured.upper(_STANDARD_ERRORS)
    if upper <= goal.allowed(measured.norm, upper, measured.spectral) and goal.tol >= rounding:
        return
    error = max(measured.relative().value, rounding)
    warnings.warn(
        f"The tolerance of {goal.tol:g} was not reached: the relative error is about {error:.2g}. "
        "Take a larger tolerance, a smaller cutoff, or dtype=numpy.float64.",
        AccuracyWarning,
        stacklevel=5,
    )
