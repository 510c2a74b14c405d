"""Search for a kernel, its metric, bandwidth and ridge by successive halving on growing samples.

Bandwidths and ridges have the least leave-one-out error. A metric depends on the targets of its sample, so that
leave-one-out errors with this metric are too small. If there are enough rows outside of all samples, the winner is the
candidate of least error at these held-out rows. A metric of few rows can be poor at held-out rows and improve with more
rows: the best candidates by leave-one-out therefore reach the next stage too. The candidates of a stage are computed by
several threads.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.progress import advancing
from blockbasis.estimators._attempt import Attempt, WithoutMetric, place_of, without_metric
from blockbasis.estimators._comparison import Comparison, no_worse
from blockbasis.estimators._exact_ridge import rows_of_walk
from blockbasis.estimators._metric_learning import (
    FREE,
    Grid,
    OutOfTime,
    Regression,
    Sample,
    with_best_ridge,
    with_matrix,
)
from blockbasis.estimators._optimism import optimism
from blockbasis.estimators._trials import Candidate, Found, Trial, name_of
from blockbasis.kernels import Kernel, RadialKernel, WithMetric
from blockbasis.kernels.linear_map import LinearMap

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._columns import View

T = TypeVar("T")
#: A candidate that reached a stage, and its regression of the previous stage.
Going: TypeAlias = tuple[Candidate, Regression | None]
#: Trials of a stage, and the regressions of their families without a metric.
Tried: TypeAlias = tuple[list[Trial], dict[RadialKernel, WithoutMetric]]

METRICS = ("none", "diagonal", "full")
#: Maximum number of rows of a sample.
_LARGEST_SAMPLE = 3200
#: Number of stages, factor of the number of rows from one stage to the next, and least number of rows. The first stage
#: must not be small: if few of many columns matter, a metric of a few hundred rows contains no information, and the
#: best candidate would be lost.
_STAGES, _GROWTH = 3, 1.6
_SMALLEST_SAMPLE = 200
#: Number of candidates that reach the second and the third stage by leave-one-out. The best candidate at held-out rows
#: and the best one without a metric reach them too.
_KEPT = (3, 2)
#: Maximum number of held-out rows in units of the largest sample, and the least number: with fewer, leave-one-out
#: compares the candidates.
_HELD_OUT, _FEWEST_HELD_OUT = 2, 1000
#: Share of the time for the choice of the view of the columns.
_VIEW_PART = 0.25
#: Number of means of two kernels that are compared again with more rows.
_MEANS = 2
#: The time of a candidate grows with this power of the number of rows. A regression takes the third power. Later stages
#: start near the best bandwidth and ridge, and need fewer regressions.
_GROWTH_OF_TIME = 2.5
#: Approximate number of regressions of a candidate in the first stage.
_REGRESSIONS = 40


@dataclass(frozen=True, eq=False)
class Task:
    """Data and settings of a search.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
        Targets minus their mean.
    weights : ndarray of shape (n,) or None
    views : sequence of View
        Candidate maps of the columns. The first one is used unless the error of another one is smaller by more than a
        standard error.
    grid : Grid
        Candidate bandwidths and ridges.
    seconds : float
        Time after which no regression begins.
    sums : bool
        Whether the mean of two of the best kernels is a candidate.
    classes : bool
        Whether the targets are classes: each has two values, and the log-loss compares candidates.
    n_jobs : int
        Number of threads.
    cancelled : Event
        Set after an interrupt: no regression begins.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray | None
    views: Sequence[View]
    grid: Grid = FREE
    seconds: float = math.inf
    sums: bool = False
    classes: bool = False
    n_jobs: int = 1
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    def map(self, function: Callable[..., T], tasks: Sequence[tuple[Any, ...]]) -> list[T]:
        """Return the results of the tasks, computed by the threads of the search."""
        return map_threads(function, tasks, self.n_jobs, cancelled=self.cancelled)

    def sample(self, rows: IntArray, view: View, deadline: float = math.inf) -> Sample:
        """Return some of the rows, mapped by a view."""
        weights = None if self.weights is None else self.weights[rows]
        return Sample(view(self.X[rows]), self.Y[rows], weights, deadline, self.cancelled)

    def comparison(self, sample: Sample, others: IntArray, view: View) -> Comparison:
        """Return the comparison of the regressions of a sample, at held-out rows if there are enough."""
        held_out = self.sample(others, view) if len(others) >= _FEWEST_HELD_OUT else None
        values = np.stack((self.Y.min(axis=0), self.Y.max(axis=0))) if self.classes else None
        return Comparison(sample, held_out, values)


def search(task: Task, candidates: Sequence[Candidate], rng: np.random.Generator) -> Found:
    """Return the candidate of least error at held-out rows, or by leave-one-out if these are few.

    All candidates are fitted to a small sample. The best ones are fitted to larger samples, and start with the
    bandwidth and the ridge of the previous sample.

    Raises
    ------
    ValueError
        If every candidate fails.
    """
    deadline = time.perf_counter() + task.seconds
    sizes = sample_sizes(len(task.X), task.seconds, len(candidates))
    every = rng.permutation(len(task.X))
    order, others = _divided(every, sizes[-1])
    with single_threaded():
        view, known = _best_view(task, candidates, order[: sizes[0]], others)
        trials = _halving(task, candidates, [order[:size] for size in sizes], others, view, deadline, known)
        if len(others) >= _FEWEST_HELD_OUT:
            more, outside = _divided(every, int(_GROWTH * sizes[-1]))
            comparison = task.comparison(task.sample(more, view, deadline), outside, view)
            trials += _with_more_rows(comparison, trials, len(order), task)
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
    """Return a sample, and rows outside of it."""
    return order[:size], order[size:][: max(_HELD_OUT * size, _FEWEST_HELD_OUT)]


def sample_sizes(n: int, seconds: float = math.inf, n_candidates: int = 1) -> list[int]:
    """Return the number of rows of each stage. The first stage takes at most half of the time."""
    largest = min(n, _LARGEST_SAMPLE)
    if seconds < math.inf:
        first = rows_of_walk(seconds / 2, n_candidates * _REGRESSIONS)
        largest = min(largest, max(_SMALLEST_SAMPLE, int(first * _GROWTH ** (_STAGES - 1))))
    sizes = {max(min(_SMALLEST_SAMPLE, largest), int(largest / _GROWTH**before)) for before in range(_STAGES)}
    return sorted(sizes)


def _best_view(task: Task, candidates: Sequence[Candidate], rows: IntArray, others: IntArray) -> tuple[View, Tried]:
    """Return the view with the least error of the first family on the smallest sample, and its trials.

    A view can be better without a metric and worse with one. If there is one view only, there are no trials.
    """
    known: Tried = [], {}
    chosen, leading = task.views[0], None
    if len(task.views) == 1:
        return chosen, known
    deadline = time.perf_counter() + _VIEW_PART * task.seconds
    metrics = {each.metric for each in candidates}
    kinds = sorted(metrics - {"full"} or metrics, reverse=True)  # the other kinds are enough for this choice
    going: list[Going] = [(Candidate(candidates[0].family, kind), None) for kind in kinds]
    for view in task.views:
        comparison = task.comparison(task.sample(rows, view, deadline), others, view)
        tried = _trials(task, going, comparison, 0)
        best = min(tried[0], key=lambda trial: trial.error)
        if best.regression is not None and (leading is None or not no_worse(leading.losses, best.losses)):
            chosen, known, leading = view, tried, best
    return chosen, known


def _halving(
    task: Task,
    candidates: Sequence[Candidate],
    samples: Sequence[IntArray],
    others: IntArray,
    view: View,
    deadline: float,
    known: Tried,
) -> list[Trial]:
    """Return the trials of all stages, and of the means of two kernels; ``known`` has some of the first stage."""
    sizes, trials, plain = [len(rows) for rows in samples], list[Trial](), dict[RadialKernel, WithoutMetric]()
    going: list[Going] = [(candidate, None) for candidate in candidates]
    numbers = [len(candidates), *(min(kept + 1, len(candidates)) for kept in _KEPT)]
    parts = [int(number * size**_GROWTH_OF_TIME) for number, size in zip(numbers, sizes, strict=False)]
    advance = advancing(sum(parts))
    for stage, (size, rows) in enumerate(zip(sizes, samples, strict=True)):

        def count(candidate: Candidate, size: int = size, part: int = parts[stage] // max(len(going), 1)) -> None:
            advance(f"search: {name_of(candidate.family)}, metric {candidate.metric}, {size} rows", part)

        comparison = task.comparison(task.sample(rows, view, deadline), others, view)
        before = known if stage == 0 else None
        done, plain = _trials(task, going, comparison, stage, plain, patient=stage == 0, known=before, count=count)
        trials += done
        going = [(trial.candidate, trial.regression) for trial in _kept(done, (*_KEPT, len(done))[stage])]
        if time.perf_counter() > deadline:
            return trials
    fitted = sorted((trial for trial in done if trial.regression is not None), key=lambda trial: trial.error)
    if task.sums and fitted:
        trials += _means(comparison, fitted, task)
    return trials


def _trials(
    task: Task,
    going: Sequence[Going],
    comparison: Comparison,
    stage: int,
    starts: Mapping[RadialKernel, WithoutMetric] | None = None,
    *,
    patient: bool = False,
    known: Tried | None = None,
    count: Callable[[Candidate], None] = lambda candidate: None,
) -> Tried:
    """Return the trials of a stage, and the regressions of their families without a metric.

    Parameters
    ----------
    task : Task
    going : sequence of (Candidate, Regression or None)
        Candidates, with their regressions of the previous stage.
    comparison : Comparison
    stage : int
    starts : dict, default=None
        Regressions of the families without a metric in the previous stage.
    patient : bool, default=False
        Whether the first candidate has no deadline, so that every search has a result.
    known : (list of Trial, dict), default=None
        What this function returned for some of the candidates on the same sample. Complete trials are not repeated.
    count : callable
        Takes a candidate. It is called after each trial.
    """
    done, fitted = known or ([], {})
    complete = {trial.candidate: trial for trial in done if not trial.failure}
    plain = {family: each for family, each in fitted.items() if isinstance(each.outcome, Regression)}
    endless = replace(comparison, sample=replace(comparison.sample, deadline=math.inf))
    comparisons = [endless if patient and i == 0 else comparison for i in range(len(going))]
    families = list(dict.fromkeys(candidate.family for candidate, _ in going))
    tasks = {
        family: (comparisons[i].sample, family, place_of((starts or {}).get(family)), task.grid)
        for i, family in enumerate(families)
        if family not in plain
    }
    plain |= dict(zip(tasks, task.map(without_metric, list(tasks.values())), strict=True))

    def trial(own: Comparison, candidate: Candidate, before: Regression | None) -> Trial:
        made = complete.get(candidate)
        if made is None:
            made = Attempt(candidate, own, task.grid, before, plain[candidate.family]).trial(stage)
        count(candidate)
        return made

    pairs = zip(comparisons, going, strict=True)
    return task.map(trial, [(own, *each) for own, each in pairs]), plain


def _kept(trials: Sequence[Trial], count: int) -> list[Trial]:
    """Return the best trials by leave-one-out, the best one at held-out rows, and the best one without a metric."""
    fitted = sorted((trial for trial in trials if trial.regression is not None), key=lambda trial: trial.left_out_error)
    elsewhere = sorted(fitted, key=lambda trial: trial.error)
    plain = [trial for trial in elsewhere if trial.candidate.metric == "none"]
    return list(dict.fromkeys(fitted[:count] + elsewhere[:1] + plain[:1]))


def _means(comparison: Comparison, trials: Sequence[Trial], task: Task) -> list[Trial]:
    """Return trials of the mean of the kernel of the best trial and that of each other trial."""
    (best, *others), own, sample = trials, trials[0].regression, comparison.sample
    assert own is not None

    def mean(other: Trial) -> Trial | None:
        added, begun = other.regression, time.perf_counter()
        if added is None or added.metric is own.metric or begun > sample.deadline:  # both can be without a metric
            return None
        K = (own.whole_kernel()(sample.X) + added.whole_kernel()(sample.X)) / 2
        try:
            fitted = with_best_ridge(sample, K, _middle(own, added), task.grid)
        except (OutOfTime, linalg.LinAlgError):
            return None
        left_out, elsewhere = comparison.losses(fitted, (own, added))
        both = replace(best, regression=fitted, added=other, left_out=left_out, elsewhere=elsewhere)
        return replace(both, seconds=time.perf_counter() - begun)

    made = task.map(mean, [(other,) for other in others])
    return [trial for trial in made if trial is not None]


def _with_more_rows(comparison: Comparison, trials: Sequence[Trial], n_seen: int, task: Task) -> list[Trial]:
    """Return the best kernel of the last stage and the best means of two, fitted to more rows.

    Which of them is better depends on the number of rows. They are compared at all rows that no metric depends on: at
    those of the sample by leave-one-out. The bandwidths and ridges are those of fewer rows.
    """
    sample = comparison.sample
    means = [trial for trial in trials if trial.added is not None and math.isfinite(trial.error)]
    alone = _best([trial for trial in trials if trial.added is None])

    def grown(trial: Trial) -> Trial | None:
        begun, fitted = time.perf_counter(), trial.regression
        assert fitted is not None
        added = None if trial.added is None else trial.added.regression
        parts = [fitted] if added is None else [fitted, added]
        try:
            K = sum(each.whole_kernel()(sample.X) / len(parts) for each in parts)
            fitted = with_matrix(sample, np.asarray(K), fitted)
        except OutOfTime:
            return None
        left_out, elsewhere = comparison.losses(fitted, parts)
        unseen = left_out[n_seen:] if elsewhere is None else np.concatenate((left_out[n_seen:], elsewhere))
        made = replace(trial, stage=trial.stage + 1, n_rows=len(sample.X), regression=fitted)
        return replace(made, left_out=left_out, elsewhere=unseen, seconds=time.perf_counter() - begun)

    compared = [alone, *sorted(means, key=lambda trial: trial.error)[:_MEANS]] if means else []
    made = task.map(grown, [(trial,) for trial in compared])
    complete = [trial for trial in made if trial is not None and math.isfinite(trial.error)]
    return complete if len(complete) == len(made) else []


def _middle(first: Regression, second: Regression) -> Regression:
    """Return the first regression with a ridge between those of both."""
    return replace(first, place=(first.place[0], (first.place[1] + second.place[1]) // 2))


def _best(trials: list[Trial]) -> Trial:
    """Return the trial of least error in the last stage with a regression: errors of smaller samples are larger.

    A mean of two kernels is preferred unless the best single kernel is better by more than one standard error.
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
    """Return the kernel and the metric of a trial as functions of the columns before scaling."""
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
    """Return the diagonal of LᵀL for columns in units of their standard deviation, with sum 1.

    All entries are zero if all columns are constant.
    """
    squared = metric**2 if metric.ndim == 1 else (metric**2).sum(axis=0)
    weighed = squared * X.var(axis=0, dtype=np.float64)
    total = float(weighed.sum())
    return np.asarray(weighed / total) if total > 0 else np.zeros(len(weighed))
