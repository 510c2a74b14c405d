"""Test errors of a model beside those of simple models, with standard errors and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Names of the models in a scorecard.
OURS, LINEAR, MEAN, MAJORITY = "kernel model", "linear model", "mean", "most frequent class"
#: A difference of two errors counts if it exceeds this multiple of its standard error.
_SIGNIFICANT = 2.0
#: Errors below this share of the standard deviation of the targets are of the size of rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Score:
    """Test error of one model.

    Parameters
    ----------
    name : str
        Name of the model.
    error : float
        Root mean squared error, or share of wrong classes.
    stderr : float
        Standard error of ``error``, from the spread over the test rows; NaN for a single row. It is shown if positive.

    Examples
    --------
    >>> from blockbasis.tables import Score
    >>> str(Score("linear model", 0.25, 0.012))
    '0.25 ± 0.012'
    """

    name: str
    error: float
    stderr: float

    def __str__(self) -> str:
        # A standard error of 0 comes from equal losses, and does not say that the error is certain.
        return f"{self.error:.4g}" + (f" ± {self.stderr:.2g}" if self.stderr > 0 else "")


@dataclass(frozen=True)
class Scorecard:
    """Test errors of a model and of simple models on the same rows.

    Parameters
    ----------
    measure : {"RMSE", "error rate"}
    rows : int
        Number of test rows.
    scores : tuple of Score
        The model first.
    r2 : float or None
        Coefficient of determination of the model; None for classification and for a single row.
    verdict : str
        Sentence that names the best model, or says that none is.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables.scorecard import regression_scorecard
    >>> y = np.arange(100.0)
    >>> card = regression_scorecard(y, {"kernel ridge": y + 0.1 * (-1) ** y, "mean": np.full(100, 49.5)})
    >>> card.verdict
    'The kernel ridge has the lowest test error: 289 times lower than the mean.'
    """

    measure: str
    rows: int
    scores: tuple[Score, ...]
    r2: float | None
    verdict: str


def regression_scorecard(y: FloatArray, predictions: Mapping[str, FloatArray]) -> Scorecard:
    """Compare predictions of several models, the first one ours, by their root mean squared errors.

    Parameters
    ----------
    y : ndarray of shape (n,)
        True targets.
    predictions : mapping of str to ndarray of shape (n,)
        Predictions of each model.

    Returns
    -------
    Scorecard
    """
    losses = {name: (np.asarray(y) - predicted) ** 2 for name, predicted in predictions.items()}
    scores = tuple(_root_mean(name, loss) for name, loss in losses.items())
    spread = float(np.var(y))
    ours = next(iter(losses.values()))
    r2 = None if len(y) < 2 or spread == 0 else 1 - float(ours.mean()) / spread
    tiny = max(score.error for score in scores[:1]) <= _ROUNDING * np.sqrt(spread)
    return Scorecard("RMSE", len(y), scores, r2, _verdict(losses, scores, rounding=bool(tiny)))


def classification_scorecard(y: Any, predictions: Mapping[str, Any]) -> Scorecard:
    """Compare predictions of several models, the first one ours, by their shares of wrong classes.

    Parameters
    ----------
    y : ndarray of shape (n,)
        True classes.
    predictions : mapping of str to ndarray of shape (n,)
        Predicted classes of each model.

    Returns
    -------
    Scorecard

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables.scorecard import classification_scorecard
    >>> y = np.array(["a", "b"] * 50)
    >>> classification_scorecard(y, {"kernel ridge": y, "most frequent class": np.full(100, "a")}).verdict
    'The kernel ridge has the lowest test error: 0 against 0.5 of the most frequent class.'
    """
    losses = {name: np.asarray(y != predicted, dtype=np.float64) for name, predicted in predictions.items()}
    scores = tuple(Score(name, float(loss.mean()), _stderr(loss)) for name, loss in losses.items())
    return Scorecard("error rate", len(y), scores, None, _verdict(losses, scores, rounding=False))


def recalls(y: Any, predicted: Any) -> list[tuple[str, float, int]]:
    """Return the name of each class with the share of its rows that are predicted correctly, and its number of rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        True classes.
    predicted : ndarray of shape (n,)

    Returns
    -------
    list of tuple

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables.scorecard import recalls
    >>> recalls(np.array(["a", "a", "b"]), np.array(["a", "b", "b"]))
    [('a', 0.5, 2), ('b', 1.0, 1)]
    """
    y, right = np.asarray(y), np.asarray(y) == np.asarray(predicted)
    return [(str(name), float(right[y == name].mean()), int((y == name).sum())) for name in np.unique(y)]


def _root_mean(name: str, loss: FloatArray) -> Score:
    root = float(np.sqrt(loss.mean()))
    # The derivative of the square root carries the standard error over.
    return Score(name, root, _stderr(loss) / (2 * root) if root > 0 else (0.0 if len(loss) > 1 else np.nan))


def _stderr(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _verdict(losses: Mapping[str, FloatArray], scores: tuple[Score, ...], *, rounding: bool) -> str:
    """Return a sentence about the paired differences between the first model and each of the others."""
    ours = scores[0]
    if len(losses[ours.name]) < 2:
        return "One test row names no winner."
    if rounding:
        return f"The error of the {ours.name} is of the size of rounding: the test names no winner."
    best = min(scores[1:], key=lambda score: score.error)
    difference = losses[best.name] - losses[ours.name]
    margin = _SIGNIFICANT * _stderr(difference)
    if abs(difference.mean()) <= margin:
        return f"The {ours.name} and the {best.name} do not differ by more than the uncertainty of the test."
    if difference.mean() < 0:
        return f"The {best.name} has the lowest test error; the {ours.name} does not help here."
    if ours.error > 0 and best.error / ours.error >= 1.5:
        factor = best.error / ours.error
        return f"The {ours.name} has the lowest test error: {factor:.3g} times lower than the {best.name}."
    return f"The {ours.name} has the lowest test error: {ours.error:.3g} against {best.error:.3g} of the {best.name}."
