"""How much too small leave-one-out residuals are where a metric has been learned from the same targets.

A residual is left out of the regression, but not of the metric: among many columns, a metric finds directions in which
the targets of the sample change by chance. Metrics are therefore learned from each half of the sample. The residuals at
the rows that such a metric has seen are smaller than at the other rows, by about the same factor. Where the metric of
the whole sample fits its targets by chance and those of the halves do not, the factor is too small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis.estimators._metric_learning import FREE, START, Grid, OutOfTime, Sample, rounds, tuned, with_matrix

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.estimators._trials import Trial

#: Rounds of the metric of a half, at most.
_ROUNDS = 6


def optimism(trial: Trial, sample: Sample, grid: Grid = FREE) -> float:
    """Factor, at least 1, by which residuals at new points are larger than the leave-one-out residuals of a trial.

    Parameters
    ----------
    trial : Trial
        Its regression, and that of the trial added to it, are of the sample.
    sample : Sample
        In a random order. After its deadline, the factor is 1.
    grid : Grid

    Returns
    -------
    float
        Ratio of the root mean squares of both kinds of residuals.
    """
    parts = [trial] if trial.added is None else [trial, trial.added]
    if trial.regression is None or all(part.candidate.metric == "none" for part in parts):
        return 1.0
    seen = unseen = 0.0
    try:
        for first in (0, 1):
            own = np.arange(len(sample.X)) % 2 == first
            K = sum(_matrix_of_half(part, sample, own, grid) / len(parts) for part in parts)
            losses = with_matrix(sample, np.asarray(K), trial.regression).losses
            seen, unseen = seen + float(losses[own].sum()), unseen + float(losses[~own].sum())
    except (OutOfTime, linalg.LinAlgError):
        return 1.0
    ratio = unseen / seen if 0 < seen < math.inf else 1.0
    return math.sqrt(max(ratio, 1.0))


def _matrix_of_half(trial: Trial, sample: Sample, own: FloatArray, grid: Grid) -> FloatArray:
    """Kernel matrix of a sample, with a metric that is learned from the rows ``own``."""
    fitted, kind = trial.regression, trial.candidate.metric
    assert fitted is not None
    if kind == "none":
        return fitted.whole_kernel()(sample.X)
    weights = None if sample.weights is None else sample.weights[own]
    half = Sample(sample.X[own], sample.Y[own], weights, sample.deadline, sample.cancelled)
    best = tuned(half, trial.candidate.family, np.ones(sample.X.shape[1]), START, grid)
    for better in rounds(half, best, kind, _ROUNDS, grid, fitted.place):
        best = better
    return best.whole_kernel()(sample.X)
