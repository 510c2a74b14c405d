"""Figures of a fitted model: errors, predictions, calibration, importances, the search and the learning curve.

Each function draws into the given matplotlib axes, or into new ones, and returns the axes. Colours are those of Okabe
and Ito, and a figure is legible without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.report.figures import COLOURS, new_axes, style

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Largest number of points of a scatter plot.
_POINTS = 2_000
#: Largest number of bars, of classes with their counts as text, and of bins of a calibration.
_BARS, _CELLS, _BINS = 15, 12, 10
#: Smallest number of rows of a bin, and smallest importance of a bar.
_PER_BIN, _LEAST = 20, 0.005


def score_bars(names: Sequence[str], errors: Sequence[float], stderrs: Sequence[float], *, axes: Any = None) -> Any:
    """Draw test errors as bars, with a line of two standard errors to both sides.

    Parameters
    ----------
    names : sequence of str
        Names of the models.
    errors, stderrs : sequence of float
        Errors and their standard errors.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import score_bars
    >>> axes = score_bars(["ours", "mean"], [0.1, 1.0], [0.01, 0.05])
    >>> len(axes.patches)
    2
    """
    axes = new_axes(axes)
    places = np.arange(len(names))[::-1]
    colours = [COLOURS[0] if i == 0 else COLOURS[7] for i in range(len(names))]
    axes.barh(places, errors, xerr=2 * np.nan_to_num(np.asarray(stderrs)), color=colours, ecolor=COLOURS[1], capsize=4)
    axes.set_yticks(places, names)
    axes.set(xlabel="test error", xlim=(0, None))
    axes.grid(False, axis="y")
    return axes


def predicted_against_true(y: Any, predictions: Any, *, axes: Any = None) -> Any:
    """Draw predictions against true targets, with the line of equality.

    Parameters
    ----------
    y, predictions : array-like of shape (n,)
        Of more than 2,000 points, a random sample is drawn.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import predicted_against_true
    >>> predicted_against_true([1.0, 2.0], [1.1, 1.9]).get_xlabel()
    'true value'
    """
    axes = new_axes(axes)
    y, predictions = np.asarray(y, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    some = np.random.default_rng(0).permutation(len(y))[:_POINTS]
    axes.plot(y[some], predictions[some], linestyle="none", marker="o", ms=3, alpha=0.5, color=COLOURS[0])
    ends = [min(y.min(), predictions.min()), max(y.max(), predictions.max())]
    axes.plot(ends, ends, color=COLOURS[1], linestyle="--", linewidth=1)
    axes.set(xlabel="true value", ylabel="prediction")
    return axes


def confusion_matrix(y: Any, predictions: Any, classes: Sequence[Any], *, axes: Any = None) -> Any:
    """Draw the shares of the predicted classes in each true class, with the counts as text.

    Parameters
    ----------
    y, predictions : array-like of shape (n,)
    classes : sequence
        All classes, in the order of rows and columns.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import confusion_matrix
    >>> axes = confusion_matrix(["a", "b", "b"], ["a", "b", "a"], ["a", "b"])
    >>> [text.get_text() for text in axes.texts]
    ['1', '0', '1', '1']
    """
    axes = new_axes(axes)
    counts = confusion_counts(y, predictions, classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    axes.grid(False)
    if len(classes) <= _CELLS:
        for (i, j), count in np.ndenumerate(counts):
            dark = shares[i, j] > 0.5
            axes.text(j, i, str(count), ha="center", va="center", color="white" if dark else "#1a1a1a", fontsize=8)
        names = [str(name) for name in classes]
        axes.set_xticks(range(len(names)), names, rotation=45 if max(map(len, names)) > 3 else 0)
        axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted class", ylabel="true class")
    return axes


def confusion_counts(y: Any, predictions: Any, classes: Sequence[Any]) -> Any:
    """Return the number of rows of each true class (rows) and predicted class (columns)."""
    place = {str(name): i for i, name in enumerate(classes)}
    counts = np.zeros((len(place), len(place)), dtype=np.intp)
    for true, predicted in zip(y, predictions, strict=True):
        counts[place[str(true)], place[str(predicted)]] += 1
    return counts


def calibration_bins(y: Any, probabilities: FloatArray, classes: Sequence[Any]) -> FloatArray:
    """Return for bins of the probability of the predicted class: the mean probability, the share of hits, the rows."""
    best = probabilities.max(axis=1)
    names = np.array([str(name) for name in classes])
    hits = names[probabilities.argmax(axis=1)] == np.array([str(true) for true in y])
    count = max(2, min(_BINS, len(best) // _PER_BIN))
    edges = np.quantile(best, np.linspace(0, 1, count + 1)[1:-1])
    bins = np.searchsorted(edges, best, side="right")
    return np.array([(best[bins == b].mean(), hits[bins == b].mean(), (bins == b).sum()) for b in np.unique(bins)])


def calibration_curve(y: Any, probabilities: FloatArray, classes: Sequence[Any], *, axes: Any = None) -> Any:
    """Draw the share of correct predictions against the probability that the model gives them.

    Parameters
    ----------
    y : array-like of shape (n,)
        True classes.
    probabilities : ndarray of shape (n, n_classes)
    classes : sequence
        Classes of the columns.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.report.model_figures import calibration_curve
    >>> p = np.tile([[0.8, 0.2], [0.3, 0.7]], (10, 1))
    >>> calibration_curve(["a", "b"] * 10, p, ["a", "b"]).get_ylabel()
    'share of correct predictions'
    """
    axes = new_axes(axes)
    bins = calibration_bins(y, probabilities, classes)
    low = min(float(bins[:, :2].min()), 0.95)
    axes.plot([low, 1], [low, 1], color=COLOURS[1], linestyle="--", linewidth=1, label="perfect")
    axes.plot(bins[:, 0], bins[:, 1], color=COLOURS[0], marker="o", ms=5, label="model")
    axes.set(xlabel="probability of the predicted class", ylabel="share of correct predictions")
    axes.legend(frameon=False)
    return axes


def importance_bars(names: Sequence[str], importances: Any, *, axes: Any = None) -> Any:
    """Draw the largest feature importances of the learned metric as bars.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    importances : array-like
        Shares with sum 1.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import importance_bars
    >>> axes = importance_bars(["a", "b"], [0.2, 0.8])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['b', 'a']
    """
    axes = new_axes(axes)
    order = np.argsort(importances)[::-1][:_BARS]
    order = order[np.asarray(importances)[order] >= min(_LEAST, np.max(importances))]
    places = np.arange(len(order))[::-1]
    axes.barh(places, np.asarray(importances)[order], color=COLOURS[0])
    axes.set_yticks(places, [_short(names[i]) for i in order])
    axes.set(xlabel="share of the learned metric", xlim=(0, None))
    axes.grid(False, axis="y")
    return axes


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def search_map(results: Mapping[str, Any], *, label: str = "leave-one-out score", axes: Any = None) -> Any:
    """Draw the leave-one-out score over bandwidth and ridge as a map, with a cross at the best pair.

    Parameters
    ----------
    results : mapping
        ``cv_results_`` of `KernelRidge` or `KernelRidgeClassifier` with lists of candidates.
    label : str, default="leave-one-out score"
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import search_map
    >>> results = {"param_bandwidth": [1, 1, 2, 2], "param_alpha": [0.1, 1, 0.1, 1], "mean_test_score": [4, 3, 2, 1]}
    >>> search_map(results).get_xlabel()
    'bandwidth'
    """
    axes = new_axes(axes)
    bandwidths, alphas, scores = search_grid(results)
    low = np.quantile(scores, 0.1)
    image = axes.imshow(scores, origin="lower", aspect="auto", cmap="cividis", vmin=low)
    axes.grid(False)
    axes.set_xticks(range(len(bandwidths)), [f"{h:.2g}" for h in bandwidths])
    axes.set_yticks(range(len(alphas)), [f"{a:.2g}" for a in alphas])
    i, j = np.unravel_index(np.argmax(scores), scores.shape)
    axes.plot(j, i, marker="X", color=COLOURS[1], ms=10, markeredgecolor="white")
    axes.set(xlabel="bandwidth", ylabel="ridge")
    axes.figure.colorbar(image, ax=axes, label=label)
    return axes


def search_grid(results: Mapping[str, Any]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the bandwidths, the ridges and the scores of shape (ridges, bandwidths)."""
    at_h, at_a = np.asarray(results["param_bandwidth"], dtype=float), np.asarray(results["param_alpha"], dtype=float)
    bandwidths, alphas = np.unique(at_h), np.unique(at_a)
    scores = np.full((len(alphas), len(bandwidths)), np.nan)
    values = np.asarray(results["mean_test_score"], dtype=float)
    scores[np.searchsorted(alphas, at_a), np.searchsorted(bandwidths, at_h)] = values
    return bandwidths, alphas, scores


def learning_curve(results: Mapping[str, Any], *, label: str = "score", axes: Any = None) -> Any:
    """Draw the best score of each kernel in a search against the number of rows of the sample.

    Parameters
    ----------
    results : mapping
        ``cv_results_`` of `KernelRidgeCV` or `KernelRidgeClassifierCV`.
    label : str, default="score"
        What the score is: R² for `KernelRidgeCV`, minus the log-loss for `KernelRidgeClassifierCV`.
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.model_figures import learning_curve
    >>> results = {"n_resources": [100, 400], "param_kernel": ["gaussian"] * 2, "mean_test_score": [0.5, 0.7]}
    >>> len(learning_curve(results).lines)
    1
    """
    axes = new_axes(axes)
    for place, (kernel, (rows, scores)) in enumerate(learning_scores(results).items()):
        axes.plot(rows, scores, **style(place), ms=5, label=kernel)
    axes.set(xscale="log", xlabel="rows of the sample", ylabel=label)
    sizes = np.unique(np.asarray(results["n_resources"])).tolist()
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False, fontsize="small")
    return axes


def learning_scores(results: Mapping[str, Any]) -> dict[str, tuple[list[int], list[float]]]:
    """Return for each single kernel of a search the rows of the samples and the best score at each."""
    found: dict[str, dict[int, float]] = {}
    rows = zip(results["param_kernel"], results["n_resources"], results["mean_test_score"], strict=True)
    for kernel, n, score in rows:
        if " + " in str(kernel) or not np.isfinite(score):
            continue
        own = found.setdefault(str(kernel), {})
        own[int(n)] = max(float(score), own.get(int(n), -np.inf))
    return {kernel: (sorted(own), [own[n] for n in sorted(own)]) for kernel, own in found.items()}
