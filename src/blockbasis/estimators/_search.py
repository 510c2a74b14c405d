"""The search for a kernel, its metric, bandwidth and ridge: successive halving on growing samples.

Bandwidths and ridges are chosen by leave-one-out. A metric has seen the targets of its sample, so that leave-one-out
errors with it are too small: the winner is the best at rows outside of all samples, where there are enough. Metrics of
few rows may be no good at other rows yet, and become so with more: the best by leave-one-out go on as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.progress import advancing
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._columns import View
from blockbasis.estimators._comparison import Comparison, no_worse
from blockbasis.estimators._exact_ridge import rows_of_walk
from blockbasis.estimators._metric_learning import (
    FREE,
    START,
    Grid,
    OutOfTime,
    Regression,
    Sample,
    regression,
    rounds,
    tuned,
    with_best_ridge,
    with_matrix,
)
from blockbasis.estimators._optimism import optimism
from blockbasis.estimators._trials import Candidate, Found, Trial, name_of
from blockbasis.kernels import Kernel, RadialKernel, WithMetric
from blockbasis.kernels.linear_map import LinearMap

METRICS = ("none", "diagonal", "full")
#: Rows of the largest sample, at most.
_LARGEST_SAMPLE = 3200
#: Stages, each with so many times the rows of the one before. The first is not to be small: where few of many columns
#: matter, metrics of a few hundred rows tell nothing, and the best candidate would be lost.
_STAGES, _GROWTH = 3, 1.6
_SMALLEST_SAMPLE = 200
#: Candidates that go on to the second stage and to the third, by leave-one-out, beside the best one at other rows and
#: the best one without a metric, which are compared with them on the same rows.
_KEPT = (3, 2)
#: Rows outside of all samples at which trials are compared: so many times the largest sample at most. Where there are
#: fewer than the least, leave-one-out compares them.
_HELD_OUT, _FEWEST_HELD_OUT = 2, 1000
#: Part of the time in which the view of the columns is to be chosen.
_VIEW_PART = 0.25
#: Means of two kernels that are compared once more, with more rows.
_MEANS = 2
#: Rounds of a metric in a stage, at most.
_ROUNDS = 6
#: Rounds have lost a metric of the stage before where it has less than this share of their error.
_LOST = 0.9
#: The time of a candidate grows with this power of the rows: with their cube for each regression, but the later stages
#: begin near the best bandwidths and ridges, and need fewer regressions.
_GROWTH_OF_TIME = 2.5
#: Regressions of a candidate in the first stage, about.
_REGRESSIONS = 40


@dataclass(frozen=True, eq=False)
class Task:
    """What a search is to find the kernel for.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
        Around their mean.
    weights : ndarray of shape (n,) or None
    views : sequence of View
        How the columns may be seen. Another one than the first is taken where its error is smaller by more than a
        standard error.
    grid : Grid
        Bandwidths and ridges to choose among.
    seconds : float
        After which nothing new begins.
    sums : bool
        Whether the sum of two of the best kernels may be taken.
    classes : bool
        Whether the targets are classes: each has two values, and the log-loss compares candidates.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray | None
    views: Sequence[View]
    grid: Grid = FREE
    seconds: float = math.inf
    sums: bool = False
    classes: bool = False

    def sample(self, rows: IntArray, view: View, deadline: float = math.inf) -> Sample:
        """Some of the rows, seen in a way."""
        weights = None if self.weights is None else self.weights[rows]
        return Sample(view(self.X[rows]), self.Y[rows], weights, deadline)

    def comparison(self, sample: Sample, others: IntArray, view: View) -> Comparison:
        """What compares regressions of a sample, at other rows where there are enough."""
        held_out = self.sample(others, view) if len(others) >= _FEWEST_HELD_OUT else None
        values = np.stack((self.Y.min(axis=0), self.Y.max(axis=0))) if self.classes else None
        return Comparison(sample, held_out, values)


def search(task: Task, candidates: Sequence[Candidate], rng: np.random.Generator) -> Found:
    """The candidate of least error at rows outside of the samples, or by leave-one-out where these are few.

    All candidates begin on a small sample; the best go on to larger ones, with the bandwidth and the ridge found.

    Raises
    ------
    ValueError
        Where every candidate fails.
    """
    deadline = time.perf_counter() + task.seconds
    sizes = sample_sizes(len(task.X), task.seconds, len(candidates))
    every = rng.permutation(len(task.X))
    order, others = _divided(every, sizes[-1])
    with single_threaded():
        view = _best_view(task, candidates, order[: sizes[0]], others)
        trials = _halving(task, candidates, [order[:size] for size in sizes], others, view, deadline)
        if len(others) >= _FEWEST_HELD_OUT:
            more, outside = _divided(every, int(_GROWTH * sizes[-1]))
            comparison = task.comparison(task.sample(more, view, deadline), outside, view)
            trials += _with_more_rows(comparison, trials, len(order))
    best = _best(trials)
    if best.regression is None:
        reasons = "; ".join(dict.fromkeys(trial.failure for trial in trials))
        raise ValueError(f"None of the {len(candidates)} candidates of the search could be fitted: {reasons}.")
    mapped = np.asarray(view.mapped(task.X[order]), dtype=np.float64)
    kernel, metric = _in_units_of_columns(best, view.scale, mapped)
    factor = 1.0 if task.classes else _optimism(task, best, order[: best.n_rows], view, deadline)
    return Found(kernel, metric, view, best, trials, task.classes, factor)


def _optimism(task: Task, best: Trial, rows: IntArray, view: View, deadline: float) -> float:
    """Factor by which leave-one-out residuals of all rows are too small, since metrics have seen the targets of some.

    Where there are rows outside of the samples, the errors at them are known.
    """
    seen = len(rows) / len(task.X)
    if best.elsewhere is None:
        with single_threaded():
            ratio = optimism(best, task.sample(rows, view, deadline), task.grid) ** 2
    else:
        ratio = best.error / best.left_out_error if best.left_out_error > 0 else 1.0
    return math.sqrt(max(seen * ratio + 1 - seen, 1.0))


def _divided(order: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """A sample, and rows outside of it."""
    return order[:size], order[size:][: max(_HELD_OUT * size, _FEWEST_HELD_OUT)]


def sample_sizes(n: int, seconds: float = math.inf, n_candidates: int = 1) -> list[int]:
    """Rows of the stages: the first shall take half of the time at most."""
    largest = min(n, _LARGEST_SAMPLE)
    if seconds < math.inf:
        first = rows_of_walk(seconds / 2, n_candidates * _REGRESSIONS)
        largest = min(largest, max(_SMALLEST_SAMPLE, int(first * _GROWTH ** (_STAGES - 1))))
    sizes = {max(min(_SMALLEST_SAMPLE, largest), int(largest / _GROWTH**before)) for before in range(_STAGES)}
    return sorted(sizes)


def _best_view(task: Task, candidates: Sequence[Candidate], rows: IntArray, others: IntArray) -> View:
    """The view with which the first family does best on the smallest sample, without a metric or with one.

    What a metric makes of the columns matters: one that is drawn in may be better without a metric, and worse with it.
    """
    chosen, leading = task.views[0], None
    if len(task.views) == 1:
        return chosen
    deadline = time.perf_counter() + _VIEW_PART * task.seconds
    metrics = {each.metric for each in candidates}
    kinds = metrics - {"full"} or metrics  # two tell enough
    for view in task.views:
        sample, plain = task.sample(rows, view, deadline), dict[RadialKernel, Regression]()
        comparison = task.comparison(sample, others, view)
        attempts = [
            Attempt(Candidate(candidates[0].family, kind), comparison, task.grid, None, {}, plain)
            for kind in sorted(kinds, reverse=True)  # none comes first
        ]
        best = min((_trial(attempt, 0) for attempt in attempts), key=lambda trial: trial.error)
        if best.regression is not None and (leading is None or not no_worse(leading.losses, best.losses)):
            chosen, leading = view, best
    return chosen


def _halving(
    task: Task,
    candidates: Sequence[Candidate],
    samples: Sequence[IntArray],
    others: IntArray,
    view: View,
    deadline: float,
) -> list[Trial]:
    sizes, trials, plain = [len(rows) for rows in samples], list[Trial](), dict[RadialKernel, Regression]()
    going: list[tuple[Candidate, Regression | None]] = [(candidate, None) for candidate in candidates]
    numbers = [len(candidates), *(min(kept + 1, len(candidates)) for kept in _KEPT)]
    parts = [int(number * size**_GROWTH_OF_TIME) for number, size in zip(numbers, sizes, strict=False)]
    advance = advancing(sum(parts))
    for stage, (size, rows) in enumerate(zip(sizes, samples, strict=True)):
        comparison = task.comparison(task.sample(rows, view, deadline), others, view)
        done, starts, plain = list[Trial](), plain, dict[RadialKernel, Regression]()
        for candidate, before in going:
            patient = not done and stage == 0  # something must come of any search
            on = replace(comparison, sample=replace(comparison.sample, deadline=math.inf)) if patient else comparison
            done.append(_trial(Attempt(candidate, on, task.grid, before, starts, plain), stage))
            name = f"search: {name_of(candidate.family)}, metric {candidate.metric}, {size} rows"
            advance(name, parts[stage] // len(going))
        trials += done
        going = [(trial.candidate, trial.regression) for trial in _kept(done, (*_KEPT, len(done))[stage])]
        if time.perf_counter() > deadline:
            return trials
    fitted = sorted((trial for trial in done if trial.regression is not None), key=lambda trial: trial.error)
    if task.sums and fitted:
        trials += _sums(comparison, fitted, task.grid)
    return trials


def _kept(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The best by leave-one-out, the best at other rows, and the best without a metric."""
    fitted = sorted((trial for trial in trials if trial.regression is not None), key=lambda trial: trial.left_out_error)
    elsewhere = sorted(fitted, key=lambda trial: trial.error)
    plain = [trial for trial in elsewhere if trial.candidate.metric == "none"]
    return list(dict.fromkeys(fitted[:count] + elsewhere[:1] + plain[:1]))


@dataclass(frozen=True, eq=False)
class Attempt:
    """A candidate on the sample of a stage.

    Parameters
    ----------
    candidate : Candidate
    comparison : Comparison
        Of the sample, and by what its regressions are compared.
    grid : Grid
    before : Regression or None
        That of the stage before; None in the first.
    starts, plain : dict
        Regressions without a metric, by family, of the sample before and of this one: what the metrics of a family all
        begin with.
    """

    candidate: Candidate
    comparison: Comparison
    grid: Grid
    before: Regression | None
    starts: dict[RadialKernel, Regression]
    plain: dict[RadialKernel, Regression]

    @property
    def sample(self) -> Sample:
        return self.comparison.sample

    def without_metric(self) -> Regression:
        """The regression that has none, tuned."""
        family = self.candidate.family
        if family not in self.plain:
            start = self.starts[family].place if family in self.starts else START
            none = np.ones(self.sample.X.shape[1])
            self.plain[family] = tuned(self.sample, family, none, start, self.grid)
        return self.plain[family]

    def with_metric_before(self) -> Regression | None:
        """The regression by the metric, bandwidth and ridge of the stage before; None in the first."""
        if self.before is None:
            return None
        return regression(self.sample, self.before.kernel, self.before.metric, self.before.place, self.grid)

    def regressions(self) -> Iterator[Regression]:
        """Better and better ones.

        A metric of few rows is noisy, and rounds do not forget it: every stage begins without one. A bandwidth and a
        ridge, in steps, are as good for more rows, so that from the second stage on the rounds take those of the stage
        before, and they are tuned once more in the end only. Where few of many columns matter, the gradients without a
        metric may point nowhere: rounds that lose what the stage before had found begin again from its metric.
        """
        first, kind = self.without_metric(), self.candidate.metric
        yield first
        if kind == "none":
            return
        place, best = None if self.before is None else self.before.place, first
        for after in rounds(self.sample, first, kind, _ROUNDS, self.grid, place):
            best = after
            yield best
        again = self.with_metric_before()
        if again is not None and again.error < _LOST * best.error:
            best = again
            yield best
            for after in rounds(self.sample, again, kind, _ROUNDS, self.grid, place):
                best = after
                yield best
        if place is not None and best is not first:
            yield tuned(self.sample, best.kernel, best.metric, best.place, self.grid)


def _trial(attempt: Attempt, stage: int) -> Trial:
    """The best regression of an attempt; what there is when time runs out."""
    begun, failure = time.perf_counter(), ""
    best: Regression | None = None
    try:
        for better in attempt.regressions():
            best = better if math.isfinite(better.error) else best
    except OutOfTime:
        failure = "there was no time for it"
    except (linalg.LinAlgError, ValueError) as error:
        failure = str(error)
    left_out, elsewhere = (None, None) if best is None else attempt.comparison.losses(best, [best])
    made = Trial(attempt.candidate, stage, len(attempt.sample.X), time.perf_counter() - begun, best, failure)
    return replace(made, left_out=left_out, elsewhere=elsewhere)


def _sums(comparison: Comparison, trials: Sequence[Trial], grid: Grid) -> list[Trial]:
    """The mean of the kernel of the best trial and that of each other one."""
    made, (best, *others), own, sample = list[Trial](), trials, trials[0].regression, comparison.sample
    assert own is not None
    for other in others:
        added, begun = other.regression, time.perf_counter()
        if added is None or added.metric is own.metric or begun > sample.deadline:  # a metric may have been no gain
            continue
        K = (own.whole_kernel()(sample.X) + added.whole_kernel()(sample.X)) / 2
        with suppress(OutOfTime, linalg.LinAlgError):
            fitted = with_best_ridge(sample, K, _middle(own, added), grid)
            left_out, elsewhere = comparison.losses(fitted, (own, added))
            both = replace(best, regression=fitted, added=other, left_out=left_out, elsewhere=elsewhere)
            made.append(replace(both, seconds=time.perf_counter() - begun))
    return made


def _with_more_rows(comparison: Comparison, trials: Sequence[Trial], n_seen: int) -> list[Trial]:
    """The best kernel of the last stage and the best means of two, with more rows than metrics were learnt from.

    Which is better depends on the number of rows. They are compared at all rows that no metric has seen: at those in
    the sample by leave-one-out. A bandwidth and a ridge are those of fewer rows.
    """
    sample, made = comparison.sample, list[Trial]()
    means = [trial for trial in trials if trial.added is not None and math.isfinite(trial.error)]
    alone = _best([trial for trial in trials if trial.added is None])
    for trial in [alone, *sorted(means, key=lambda trial: trial.error)[:_MEANS]] if means else []:
        begun, fitted = time.perf_counter(), trial.regression
        assert fitted is not None
        added = None if trial.added is None else trial.added.regression
        parts = [fitted] if added is None else [fitted, added]
        try:
            K = sum(each.whole_kernel()(sample.X) / len(parts) for each in parts)
            fitted = with_matrix(sample, np.asarray(K), fitted)
        except OutOfTime:
            return []
        left_out, elsewhere = comparison.losses(fitted, parts)
        unseen = left_out[n_seen:] if elsewhere is None else np.concatenate((left_out[n_seen:], elsewhere))
        grown = replace(trial, stage=trial.stage + 1, n_rows=len(sample.X), regression=fitted)
        grown = replace(grown, left_out=left_out, elsewhere=unseen, seconds=time.perf_counter() - begun)
        made.append(grown)
    return made if all(math.isfinite(trial.error) for trial in made) else []


def _middle(first: Regression, second: Regression) -> Regression:
    """The first regression, with a ridge between those of both."""
    return replace(first, place=(first.place[0], (first.place[1] + second.place[1]) // 2))


def _best(trials: list[Trial]) -> Trial:
    """The least error of the last stage in which anything was fitted: errors of smaller samples are larger.

    A sum of two kernels is taken where it is no worse than the best alone by one standard error: the rows cannot tell
    them apart.
    """
    last = max((trial.stage for trial in trials if trial.regression is not None), default=0)
    alone = min((t for t in trials if t.stage == last and t.added is None), key=lambda trial: trial.error)
    sums = [
        trial
        for trial in trials
        if trial.added is not None
        and trial.stage == last
        and math.isfinite(trial.error)
        and no_worse(trial.losses, alone.losses)
    ]
    return min(sums, key=lambda trial: trial.error) if sums else alone


def _in_units_of_columns(trial: Trial, scale: FloatArray, X: FloatArray) -> tuple[Kernel, FloatArray]:
    """Kernel and metric of a trial of scaled columns, as functions of the columns themselves."""
    assert trial.regression is not None
    kernel, metric = _one_in_units_of_columns(trial.regression, scale, X)
    if trial.added is None:
        return kernel, metric
    other, another = _in_units_of_columns(trial.added, scale, X)
    both = [np.diag(each) if each.ndim == 1 else each for each in (metric, another)]
    return 0.5 * kernel + 0.5 * other, np.concatenate(both) / math.sqrt(2)


def _one_in_units_of_columns(fitted: Regression, scale: FloatArray, X: FloatArray) -> tuple[Kernel, FloatArray]:
    metric = fitted.metric * scale
    if metric.ndim == 1 and (metric == 1).all():
        return fitted.kernel, metric
    mapped = LinearMap(metric.copy())(X - X.mean(axis=0))
    variance = float(mapped.var(axis=0).sum())
    factor = math.sqrt(X.shape[1] / variance) if variance > 0 else 1.0
    metric = metric * factor
    family = replace(fitted.kernel, bandwidth=fitted.kernel.bandwidth * factor)
    return WithMetric(family, LinearMap(metric.copy())), metric


def importances(metric: FloatArray, X: FloatArray) -> FloatArray:
    """Diagonal of LᵀL for columns in units of their standard deviation, with sum 1; zeros where all is constant."""
    squared = metric**2 if metric.ndim == 1 else (metric**2).sum(axis=0)
    weighed = squared * X.var(axis=0, dtype=np.float64)
    total = float(weighed.sum())
    return np.asarray(weighed / total) if total > 0 else np.zeros(len(weighed))
