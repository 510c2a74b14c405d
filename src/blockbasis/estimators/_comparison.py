"""What regressions of a sample are compared by: squared residuals, or the log-loss where targets are classes.

The least squared residuals do not make the best decisions: where classes are far apart most of the error is how far
values are from 1 and -1, which decides nothing. Wrong decisions themselves are too few to tell regressions apart. The
log-loss of calibrated decision values is neither blind nor coarse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blockbasis.estimators._calibration import calibrated

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._metric_learning import Regression, Sample


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows at which regressions of a sample are compared, and by what.

    Parameters
    ----------
    sample : Sample
        What they were fitted to.
    held_out : Sample or None
        Other rows; None where there are not enough.
    classes : ndarray of shape (2, n_targets) or None
        Where targets are classes: what they are for points of other classes, and for those of the class. There is one
        column for each class, or one for the second of two.
    """

    sample: Sample
    held_out: Sample | None = None
    classes: FloatArray | None = None

    def losses(self, fitted: Regression, kernels: Sequence[Regression]) -> tuple[FloatArray, FloatArray | None]:
        """Losses by leave-one-out, and at the rows held out, of a regression with the mean of some kernels."""
        values = None if self.held_out is None else self._values(self.held_out.X, fitted, kernels)
        if self.classes is not None:
            return self._class_losses(self.classes, fitted, values)
        if self.held_out is None or values is None:
            return fitted.losses, None
        return fitted.losses, self.held_out.losses(self.held_out.Y - values)

    def _values(self, X: FloatArray, fitted: Regression, kernels: Sequence[Regression]) -> FloatArray:
        values = np.zeros((len(X), fitted.coefficients.shape[1]))
        for each in kernels:
            values += each.whole_kernel()(X, self.sample.X) @ fitted.coefficients
        return values / len(kernels)

    def _class_losses(
        self, classes: FloatArray, fitted: Regression, values: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        sample, held_out = self.sample, self.held_out
        middle, half = classes.mean(axis=0), (classes[1] - classes[0]) / 2
        left_out, labels = (sample.Y - fitted.left_out - middle) / half, _labels(sample.Y - middle)
        calibration = calibrated(left_out, labels, sample.weights)
        own = sample.weighed(calibration.losses(left_out, labels))
        if held_out is None or values is None:
            return own, None
        there = calibration.losses((values - middle) / half, _labels(held_out.Y - middle))
        return own, held_out.weighed(there)


def _labels(Y: FloatArray) -> IntArray:
    """Classes of targets that are positive for their points."""
    return (Y[:, 0] > 0).astype(np.intp) if Y.shape[1] == 1 else Y.argmax(axis=1)


def no_worse(losses: FloatArray, than: FloatArray) -> bool:
    """Whether the mean losses at the same points differ by at most a standard error, or the first is smaller."""
    difference = losses - than
    return float(difference.mean()) <= float(difference.std()) / math.sqrt(len(difference))
