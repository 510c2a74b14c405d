"""What a search tries and what it finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.estimators._columns import View
    from blockbasis.estimators._metric_learning import Regression
    from blockbasis.kernels import Kernel, RadialKernel


@dataclass(frozen=True)
class Candidate:
    """A family of kernels, and what its metric may be: "none", "diagonal" or "full"."""

    family: RadialKernel
    metric: str


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate in a stage: its regression, or why there is none.

    With ``added``, another trial of the stage: the mean of the kernels of both, with a ridge of its own. ``left_out``
    has the losses by leave-one-out, ``elsewhere`` those at rows outside of all samples, where there are enough.
    """

    candidate: Candidate
    stage: int
    n_rows: int
    seconds: float
    regression: Regression | None
    failure: str = ""
    added: Trial | None = None
    left_out: FloatArray | None = None
    elsewhere: FloatArray | None = None

    @property
    def left_out_error(self) -> float:
        """Mean loss by leave-one-out."""
        return math.inf if self.left_out is None else float(self.left_out.mean())

    @property
    def losses(self) -> FloatArray:
        """What trials are compared by."""
        assert self.left_out is not None
        return self.left_out if self.elsewhere is None else self.elsewhere

    @property
    def error(self) -> float:
        """The mean of these."""
        return math.inf if self.left_out is None else float(self.losses.mean())

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
        As a function of points whose columns are mapped, with its bandwidth; a sum of two where the trial is of two.
    metric : ndarray of shape (d,) or (m, d)
        Of its distances; mapped points have the total variance that standardised columns have. For a sum the squared
        distances are the mean of both.
    view : View
        Columns as the search saw them.
    trial : Trial
    trials : list of Trial
        All of them.
    classes : bool
        Whether losses are those of classes.
    optimism : float
        Factor by which the residuals of new points are larger than leave-one-out residuals; 1 for classes.
    """

    kernel: Kernel
    metric: FloatArray
    view: View
    trial: Trial
    trials: list[Trial]
    classes: bool = False
    optimism: float = 1.0

    @property
    def alpha(self) -> float:
        assert self.trial.regression is not None
        return self.trial.regression.alpha

    def score(self, trial: Trial) -> float:
        """R^2, for targets in units of their standard deviation; of classes, minus the log-loss."""
        return -trial.error if self.classes else 1 - trial.error


def name_of(family: RadialKernel) -> str:
    """The name that estimators know a family by."""
    return type(family).__name__.lower()


def search_results(found: Found) -> dict[str, Any]:
    """Trials as scikit-learn's searches by halving show them."""
    trials = found.trials
    scores = np.array([found.score(trial) for trial in trials])
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
