"""The search for a kernel, its metric, bandwidth and ridge: successive halving on growing samples.

Bandwidths and ridges are chosen by leave-one-out. A metric has seen the targets of its sample, so that leave-one-out
errors with it are too small: the winner is the best at rows outside of all samples, where there are enough. Metrics of
few rows may be no good at other rows yet, and become so with more: the best by leave-one-out go on as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.progress import advancing
from blockbasis._utils.typing import FloatArray, IntArray
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
)
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
#: Rounds of a metric in a stage, at most.
_ROUNDS = 6
#: Rounds have lost a metric of the stage before where it has less than this share of their error.
_LOST = 0.9
#: Regressions of a candidate in the first stage, about.
_REGRESSIONS = 40


@dataclass(frozen=True)
class Candidate:
    """A family of kernels, and what its metric may be: "none", "diagonal" or "full"."""

    family: RadialKernel
    metric: str


@dataclass(frozen=True, eq=False)
class Task:
    """What a search is to find the kernel for.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
        Around their mean.
    weights : ndarray of shape (n,) or None
    scales : sequence of ndarray of shape (d,)
        By what to multiply the columns first: the one of least leave-one-out error is taken.
    grid : Grid
        Bandwidths and ridges to choose among.
    seconds : float
        After which nothing new begins.
    sums : bool
        Whether the sum of two of the best kernels may be taken.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray | None
    scales: Sequence[FloatArray]
    grid: Grid = FREE
    seconds: float = math.inf
    sums: bool = False


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate in a stage: its regression, or why there is none.

    With ``added``, another trial of the stage: the mean of the kernels of both, with a ridge of its own. ``elsewhere``
    has the losses at rows outside of all samples, where there are enough.
    """

    candidate: Candidate
    stage: int
    n_rows: int
    seconds: float
    regression: Regression | None
    failure: str = ""
    added: Trial | None = None
    elsewhere: FloatArray | None = None

    @property
    def left_out_error(self) -> float:
        """Mean squared leave-one-out residual."""
        return math.inf if self.regression is None else self.regression.error

    @property
    def losses(self) -> FloatArray:
        """What trials are compared by."""
        assert self.regression is not None
        return self.regression.losses if self.elsewhere is None else self.elsewhere

    @property
    def error(self) -> float:
        """The mean of these."""
        return math.inf if self.regression is None else float(self.losses.mean())

    @property
    def kernel_name(self) -> str:
        """The name of the family, or of both."""
        own = name_of(self.candidate.family)
        return own if self.added is None else f"{own} + {self.added.kernel_name}"

    @property
    def metric_name(self) -> str:
        """What the metric is, or both are."""
        own = self.candidate.metric
        return own if self.added is None else f"{own} + {self.added.metric_name}"


@dataclass(frozen=True, eq=False)
class Found:
    """The winner of a search.

    Parameters
    ----------
    kernel : Kernel
        As a function of the points given, with its bandwidth; a sum of two where the trial is of two.
    metric : ndarray of shape (d,) or (m, d)
        Of its distances; mapped points have the total variance that standardised columns have. For a sum the squared
        distances are the mean of both.
    scale : ndarray of shape (d,)
        What the columns were multiplied by before the search.
    trial : Trial
    trials : list of Trial
        All of them.
    """

    kernel: Kernel
    metric: FloatArray
    scale: FloatArray
    trial: Trial
    trials: list[Trial]

    @property
    def alpha(self) -> float:
        assert self.trial.regression is not None
        return self.trial.regression.alpha


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
    order = rng.permutation(len(task.X))
    order, others = order[: sizes[-1]], order[sizes[-1] :][: max(_HELD_OUT * sizes[-1], _FEWEST_HELD_OUT)]
    with single_threaded():
        scale = _best_scale(task, candidates[0].family, order[: sizes[0]])
        trials = _halving(task, candidates, [order[:size] for size in sizes], others, scale, deadline)
    best = _best(trials)
    if best.regression is None:
        reasons = "; ".join(dict.fromkeys(trial.failure for trial in trials))
        raise ValueError(f"None of the {len(candidates)} candidates of the search could be fitted: {reasons}.")
    kernel, metric = _in_units_of_columns(best, scale, np.asarray(task.X[order], dtype=np.float64))
    return Found(kernel, metric, scale, best, trials)


def sample_sizes(n: int, seconds: float = math.inf, n_candidates: int = 1) -> list[int]:
    """Rows of the stages: the first shall take half of the time at most."""
    largest = min(n, _LARGEST_SAMPLE)
    if seconds < math.inf:
        first = rows_of_walk(seconds / 2, n_candidates * _REGRESSIONS)
        largest = min(largest, max(_SMALLEST_SAMPLE, int(first * _GROWTH ** (_STAGES - 1))))
    sizes = {max(min(_SMALLEST_SAMPLE, largest), int(largest / _GROWTH**before)) for before in range(_STAGES)}
    return sorted(sizes)


def _sample(task: Task, rows: IntArray, scale: FloatArray, deadline: float = math.inf) -> Sample:
    centred = task.X[rows].astype(np.float64) - task.X.mean(axis=0, dtype=np.float64)
    weights = None if task.weights is None else task.weights[rows]
    return Sample(centred * scale, task.Y[rows], weights, deadline)


def _best_scale(task: Task, family: RadialKernel, rows: IntArray) -> FloatArray:
    """That of least leave-one-out error on the smallest sample; the first where none can be fitted."""
    if len(task.scales) == 1:
        return task.scales[0]
    errors = []
    for scale in task.scales:
        try:
            sample = _sample(task, rows, scale)
            errors.append(tuned(sample, family, np.ones_like(scale), grid=task.grid).error)
        except (linalg.LinAlgError, ValueError):
            errors.append(math.inf)
    return task.scales[int(np.argmin(errors))]


def _halving(
    task: Task,
    candidates: Sequence[Candidate],
    samples: Sequence[IntArray],
    others: IntArray,
    scale: FloatArray,
    deadline: float,
) -> list[Trial]:
    held_out = _sample(task, others, scale) if len(others) >= _FEWEST_HELD_OUT else None
    sizes, trials, plain = [len(rows) for rows in samples], list[Trial](), dict[RadialKernel, Regression]()
    going: list[tuple[Candidate, Regression | None]] = [(candidate, None) for candidate in candidates]
    numbers = [len(candidates), *(min(kept + 2, len(candidates)) for kept in _KEPT)]
    advance = advancing(sum(number * size**3 for number, size in zip(numbers, sizes, strict=False)))
    for stage, (size, rows) in enumerate(zip(sizes, samples, strict=True)):
        sample = _sample(task, rows, scale, deadline)
        done, starts, plain = list[Trial](), plain, dict[RadialKernel, Regression]()
        for candidate, before in going:
            patient = not done and stage == 0  # something must come of any search
            on = replace(sample, deadline=math.inf) if patient else sample
            done.append(_trial(Attempt(candidate, on, held_out, task.grid, before, starts, plain), stage))
            advance(f"search: {name_of(candidate.family)}, metric {candidate.metric}, {size} rows", size**3)
        trials += done
        going = [(trial.candidate, trial.regression) for trial in _kept(done, (*_KEPT, len(done))[stage])]
        if time.perf_counter() > deadline:
            return trials
    fitted = sorted((trial for trial in done if trial.regression is not None), key=lambda trial: trial.error)
    if task.sums and fitted:
        trials += _sums(sample, held_out, fitted, task.grid)
    return trials


def _kept(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The best by leave-one-out, the best at other rows, and the best without a metric."""
    fitted = sorted((trial for trial in trials if trial.regression is not None), key=lambda trial: trial.left_out_error)
    plain = [trial for trial in fitted if trial.candidate.metric == "none"]
    elsewhere = sorted(fitted, key=lambda trial: trial.error)
    return list(dict.fromkeys(fitted[:count] + elsewhere[:1] + plain[:1]))


@dataclass(frozen=True, eq=False)
class Attempt:
    """A candidate on the sample of a stage.

    Parameters
    ----------
    candidate : Candidate
    sample : Sample
    held_out : Sample or None
        Rows at which regressions are compared; None is by leave-one-out.
    grid : Grid
    before : Regression or None
        That of the stage before; None in the first.
    starts, plain : dict
        Regressions without a metric, by family, of the sample before and of this one: what the metrics of a family all
        begin with.
    """

    candidate: Candidate
    sample: Sample
    held_out: Sample | None
    grid: Grid
    before: Regression | None
    starts: dict[RadialKernel, Regression]
    plain: dict[RadialKernel, Regression]

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


def _losses(
    fitted: Regression, sample: Sample, held_out: Sample | None, kernels: Sequence[Regression]
) -> FloatArray | None:
    """Losses at the rows held out, of a regression of a sample with the mean of some kernels."""
    if held_out is None:
        return None
    values = np.zeros_like(held_out.Y)
    for each in kernels:
        values += each.whole_kernel()(held_out.X, sample.X) @ fitted.coefficients
    return held_out.losses(held_out.Y - values / len(kernels))


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
    elsewhere = None if best is None else _losses(best, attempt.sample, attempt.held_out, [best])
    seconds = time.perf_counter() - begun
    return Trial(attempt.candidate, stage, len(attempt.sample.X), seconds, best, failure, elsewhere=elsewhere)


def _sums(sample: Sample, held_out: Sample | None, trials: Sequence[Trial], grid: Grid) -> list[Trial]:
    """The mean of the kernel of the best trial and that of each other one."""
    made, (best, *others), own = list[Trial](), trials, trials[0].regression
    assert own is not None
    for other in others:
        added, begun = other.regression, time.perf_counter()
        if added is None or added.metric is own.metric or begun > sample.deadline:  # a metric may have been no gain
            continue
        K = (own.whole_kernel()(sample.X) + added.whole_kernel()(sample.X)) / 2
        with suppress(OutOfTime, linalg.LinAlgError):
            fitted = with_best_ridge(sample, K, _middle(own, added), grid)
            losses, seconds = _losses(fitted, sample, held_out, (own, added)), time.perf_counter() - begun
            made.append(replace(best, seconds=seconds, regression=fitted, added=other, elsewhere=losses))
    return made


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
    sums = [trial for trial in trials if trial.added is not None and _no_worse(trial, alone)]
    return min(sums, key=lambda trial: trial.error) if sums else alone


def _no_worse(trial: Trial, than: Trial) -> bool:
    """Whether the errors at the same points differ by at most a standard error."""
    if trial.regression is None or than.regression is None or not math.isfinite(trial.error):
        return False
    difference = trial.losses - than.losses
    return float(difference.mean()) <= float(difference.std()) / math.sqrt(len(difference))


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


def column_scale(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """What makes the standard deviation of each column 1; zero for constant columns, which tell nothing."""
    double = X.astype(np.float64, copy=False)
    centred = double - double[0]  # far from zero the mean is rounded
    mean = np.average(centred, axis=0, weights=weights)
    deviation = np.sqrt(np.average((centred - mean) ** 2, axis=0, weights=weights))
    varies = (centred != 0).any(axis=0) & (deviation > 0)
    if not varies.any():
        return np.ones(X.shape[1])
    return np.asarray(np.divide(1, deviation, out=np.zeros_like(deviation), where=varies))


def importances(metric: FloatArray, X: FloatArray) -> FloatArray:
    """Diagonal of LᵀL for columns in units of their standard deviation, with sum 1; zeros where all is constant."""
    squared = metric**2 if metric.ndim == 1 else (metric**2).sum(axis=0)
    weighed = squared * X.var(axis=0, dtype=np.float64)
    total = float(weighed.sum())
    return np.asarray(weighed / total) if total > 0 else np.zeros(len(weighed))


def name_of(family: RadialKernel) -> str:
    """The name that estimators know a family by."""
    return type(family).__name__.lower()


def search_results(found: Found) -> dict[str, Any]:
    """Trials as scikit-learn's searches by halving show them."""
    trials = found.trials
    scores = np.array([1 - trial.error for trial in trials])
    stages = np.array([trial.stage for trial in trials])

    def each(value: Callable[[Regression], float]) -> FloatArray:
        return np.array([np.nan if trial.regression is None else value(trial.regression) for trial in trials])

    return {
        "iter": stages,
        "n_resources": np.array([trial.n_rows for trial in trials]),
        "param_kernel": np.array([trial.kernel_name for trial in trials]),
        "param_metric": np.array([trial.metric_name for trial in trials]),
        "param_bandwidth": np.where(
            [trial.added is None for trial in trials], each(lambda regression: regression.kernel.bandwidth), np.nan
        ),
        "param_alpha": each(lambda regression: regression.alpha),
        "mean_test_score": scores,
        "rank_test_score": np.array(
            [
                1 + np.count_nonzero((stages > s) | ((stages == s) & (scores > v)))
                for s, v in zip(stages, scores, strict=True)
            ]
        ),
        "fit_time": np.array([trial.seconds for trial in trials]),
    }
