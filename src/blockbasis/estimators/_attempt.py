"""One candidate of a search on one sample: its metric, bandwidth and ridge."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis.estimators._metric_learning import (
    START,
    Grid,
    OutOfTime,
    Place,
    Regression,
    Sample,
    regression,
    rounds,
    tuned,
    tuned_again,
)
from blockbasis.estimators._trials import Candidate, Trial

if TYPE_CHECKING:
    from blockbasis.estimators._comparison import Comparison
    from blockbasis.kernels import RadialKernel

#: Maximum number of rounds of a metric.
_ROUNDS = 6
#: The metric of the previous stage replaces that of the present rounds if its error is below this share of theirs.
_LOST = 0.9
#: What a regression of a sample can raise.
_FAILURES = (OutOfTime, linalg.LinAlgError, ValueError)


@dataclass(frozen=True, eq=False)
class WithoutMetric:
    """Regression of a family of kernels without a metric, or the exception that prevented it.

    Parameters
    ----------
    outcome : Regression or Exception
    seconds : float
    """

    outcome: Regression | Exception
    seconds: float

    def regression(self) -> Regression:
        """Return the regression, or raise the exception."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def without_metric(sample: Sample, family: RadialKernel, start: Place, grid: Grid) -> WithoutMetric:
    """Tune the bandwidth and the ridge of a family of kernels from a given start."""
    begun = time.perf_counter()
    outcome: Regression | Exception
    try:
        outcome = tuned(sample, family, np.ones(sample.X.shape[1]), start, grid)
    except _FAILURES as error:
        outcome = error
    return WithoutMetric(outcome, time.perf_counter() - begun)


def place_of(known: WithoutMetric | None) -> Place:
    """Return the bandwidth and the ridge of a previous sample, from which the search in a larger one starts."""
    return known.outcome.place if known is not None and isinstance(known.outcome, Regression) else START


@dataclass(frozen=True, eq=False)
class Attempt:
    """A candidate on the sample of a stage.

    Parameters
    ----------
    candidate : Candidate
    comparison : Comparison
        Comparison of the regressions of the sample.
    grid : Grid
    before : Regression or None
        Regression of the candidate in the previous stage; None in the first stage.
    plain : WithoutMetric
        Regression of the same sample and family without a metric.
    """

    candidate: Candidate
    comparison: Comparison
    grid: Grid
    before: Regression | None
    plain: WithoutMetric

    def trial(self, stage: int) -> Trial:
        """Return the best regression that is found before the deadline of the sample."""
        begun, failure = time.perf_counter(), ""
        best: Regression | None = None
        try:
            for better in self._regressions():
                best = better if math.isfinite(better.error) else best
        except OutOfTime:
            failure = "there was no time for it"
        except (linalg.LinAlgError, ValueError) as error:
            failure = str(error)
        left_out, elsewhere = (None, None) if best is None else self.comparison.losses(best, [best])
        seconds = time.perf_counter() - begun
        if self.candidate.metric == "none":
            seconds += self.plain.seconds
        made = Trial(self.candidate, stage, len(self.comparison.sample.X), seconds, best, failure)
        return replace(made, left_out=left_out, elsewhere=elsewhere)

    def _regressions(self) -> Iterator[Regression]:
        """Yield the regressions from which the best one is taken.

        Every stage starts without a metric: a metric of few rows is noisy, and rounds that start from it keep the
        noise. From the second stage on, the rounds use the bandwidth and the ridge of the previous stage, in steps of
        the grid, and only the last regression is tuned again. If few of many columns matter, the gradients without a
        metric can be useless. Rounds whose error exceeds that of the metric of the previous stage start again from that
        metric.
        """
        first, kind = self.plain.regression(), self.candidate.metric
        yield first
        if kind == "none":
            return
        sample, before, best = self.comparison.sample, self.before, first
        place = None if before is None else before.place
        for after in rounds(sample, first, kind, _ROUNDS, self.grid, place):
            best = after
            yield best
        if before is None:
            return
        again = regression(sample, before.kernel, before.metric, before.place, self.grid)
        if again.error < _LOST * best.error:
            best = again
            yield best
            for after in rounds(sample, again, kind, _ROUNDS, self.grid, place):
                best = after
                yield best
        if best is not first:
            yield tuned_again(sample, best, self.grid)
