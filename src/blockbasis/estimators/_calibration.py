"""Class probabilities from decision values, calibrated on leave-one-out decision values.

References
----------
J. C. Platt: Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods.
Advances in Large Margin Classifiers (2000), 61-74.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize
from scipy.special import log_softmax

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Bounds of the logarithms of slope and power. Without them the log-loss of separable classes has no minimum.
_BOUNDS = (-5.0, 5.0)
_START = (1.0, 0.5)
#: Below this, log(log(1 + exp(z))) is z to rounding.
_LINEAR = -30.0


@dataclass(frozen=True)
class Calibration:
    """Class probabilities proportional to softplus(slope (f + 1)) ** power, where f is the decision value of the class.

    With targets 1 and -1, least squares estimates the probability of a class by (f + 1) / 2; softplus makes the
    estimate positive. The class with the largest decision value has the largest probability.

    Parameters
    ----------
    slope, power : float
        Positive.
    """

    slope: float
    power: float

    def log_probabilities(self, values: FloatArray) -> FloatArray:
        """Logarithms of the probabilities of each class.

        Parameters
        ----------
        values : ndarray of shape (n, n_classes), or (n, 1) for two classes
            Decision values; for two classes, those of the second class.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        every = np.concatenate((-values, values), axis=1) if values.shape[1] == 1 else values
        z = self.slope * (every + 1)
        positive = np.logaddexp(0, np.maximum(z, _LINEAR))
        return np.asarray(log_softmax(self.power * np.where(z < _LINEAR, z, np.log(positive)), axis=1))

    def losses(self, values: FloatArray, labels: IntArray) -> FloatArray:
        """Log-losses: minus the logarithms of the probabilities of the true classes, 0 to n_classes - 1."""
        return np.asarray(-self.log_probabilities(values)[np.arange(len(labels)), labels])


def calibrated(
    left_out: FloatArray, labels: IntArray, weights: FloatArray | None, *, cautious: bool = False
) -> Calibration:
    """Calibration with the smallest log-loss.

    Parameters
    ----------
    left_out : ndarray of shape (n, n_classes), or (n, 1) for two classes
        Leave-one-out decision values.
    labels : ndarray of shape (n,)
        True classes, 0 to n_classes - 1.
    weights : ndarray of shape (n,) or None
    cautious : bool, default=False
        Whether each label counts as another class with probability 1 / (n + 2) (Platt, section 2.2). Otherwise, the
        calibration of a few points, all of which are classified correctly, is certain of all classes, and the first
        error at a new point has a huge log-loss.

    Returns
    -------
    Calibration
    """
    places = np.arange(len(labels))
    # Scaled weights are the same weights: n is the number of equal weights that vary a mean as much.
    n = len(labels) if weights is None else float(weights.sum() ** 2 / (weights**2).sum())
    doubt = 1 / (n + 2) if cautious else 0.0

    def log_loss(parameters: FloatArray) -> float:
        logarithms = Calibration(*np.exp(parameters).tolist()).log_probabilities(left_out)
        own = logarithms[places, labels]
        others = (logarithms.sum(axis=1) - own) / (logarithms.shape[1] - 1)
        return -float(np.average((1 - doubt) * own + doubt * others, weights=weights))

    found = optimize.minimize(log_loss, _START, method="L-BFGS-B", bounds=[_BOUNDS, _BOUNDS])
    return Calibration(*np.exp(found.x).tolist())


def class_targets(labels: IntArray, n_classes: int) -> FloatArray:
    """1 for the points of a class and -1 for the others; one column, of the second class, when there are two."""
    columns = [1] if n_classes == 2 else range(n_classes)
    return np.stack([np.where(labels == c, 1.0, -1.0) for c in columns], axis=1)


def winners(values: FloatArray) -> IntArray:
    """The class of the largest value; of two classes, the second where the one value is positive."""
    return np.asarray(values[:, 0] > 0, dtype=np.intp) if values.shape[1] == 1 else values.argmax(axis=1)
