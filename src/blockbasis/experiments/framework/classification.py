"""Kernel support vector machines at several bandwidths: scores of single classes, and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from blockbasis._utils.progress import counting
from blockbasis.kernels import squared_distances
from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.experiments.framework.base import Result, Row

#: Penalty parameter C of the support vector machine; the paper does not give it.
_PENALTY = 1.0
#: Number of folds of the cross-validation: 80% of the points are training points, as in the paper. The test part of a
#: single split would have only ten points of the smallest classes.
_FOLDS = 5
#: Lower bound of exponents: exp is slow for results that underflow.
_MIN_EXPONENT = -300.0
#: Number of grid points along each side of the plot of a decision boundary.
_GRID = 160
#: Number of points from which their markers are drawn as an image.
_MANY = 500


def machine(bandwidth: float) -> SVC:
    """Return a support vector machine with the paper's Gaussian kernel."""
    return SVC(C=_PENALTY, gamma=1 / bandwidth**2)


def accuracies(
    X: FloatArray, y: IntArray, X_test: FloatArray, y_test: IntArray, bandwidths: Sequence[float]
) -> FloatArray:
    """Return the test accuracy of a two-class support vector machine at each bandwidth."""
    squared = _squared_distances(X, X)
    to_train = _squared_distances(X, X_test)  # rows are training points, so that support vectors are contiguous
    K = np.empty_like(squared)  # a new array for every bandwidth takes longer than exp
    shares = []
    for h in bandwidths:
        model = SVC(C=_PENALTY, kernel="precomputed").fit(_gaussian(squared, h, out=K), y)
        decision = model.dual_coef_[0] @ _gaussian(to_train[model.support_], h) + model.intercept_
        shares.append(np.mean(model.classes_[(decision > 0).astype(np.intp)] == y_test))
    return np.array(shares)


def _squared_distances(rows: FloatArray, columns: FloatArray) -> FloatArray:
    return squared_distances(rows, columns, columns.mean(axis=0))


def _gaussian(squared: FloatArray, bandwidth: float, out: FloatArray | None = None) -> FloatArray:
    """Return the paper's Gaussian kernel of squared distances."""
    exponents = np.multiply(squared, -1 / bandwidth**2, out=out)
    np.maximum(exponents, _MIN_EXPONENT, out=exponents)
    return np.asarray(np.exp(exponents, out=exponents))


def f1_by_class(X: FloatArray, y: FloatArray, bandwidths: list[float], rng: np.random.Generator) -> list[Row]:
    """Return the cross-validated F1 score of every class and the accuracy at every bandwidth."""
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    squared = _squared_distances(X, X)
    K = np.empty_like(squared)
    classes = np.unique(y)
    rows = []
    count = counting("bandwidths", len(bandwidths))
    for h in bandwidths:
        found = cross_val_predict(SVC(C=_PENALTY, kernel="precomputed"), _gaussian(squared, h, out=K), y, cv=folds)
        scores = f1_score(y, found, average=None, labels=classes, zero_division=0.0)
        accuracy = float(np.mean(found == y))
        rows += [
            {"h": h, "class": int(c), "f1": float(score), "accuracy": accuracy}
            for c, score in zip(classes, scores, strict=True)
        ]
        count()
    return rows


def best_bandwidth(rows: list[Row], score: str) -> float:
    """Return the bandwidth of the highest score; the largest one if there are several (the paper's h*)."""
    top = max(row[score] for row in rows)
    return float(max(row["h"] for row in rows if row[score] == top))


def score_at(rows: list[Row], bandwidth: float, score: str) -> float:
    """Return the score at a bandwidth."""
    return float(next(row[score] for row in rows if row["h"] == bandwidth))


def draw_f1(axes: Any, result: Result, labels: dict[int, str], **selected: Any) -> None:
    """Plot F1 against the bandwidth for each class, with the best bandwidth of each class and of all classes."""
    for place, (c, label) in enumerate(labels.items()):
        rows = result.where(**selected, **{"class": c})
        look = figures.style(place)
        axes.plot([r["h"] for r in rows], [r["f1"] for r in rows], **look, ms=3.5, lw=1.2, label=label)
        best = best_bandwidth(rows, "f1")
        axes.plot(best, score_at(rows, best, "f1"), marker=look["marker"], color=look["color"], ms=10, mew=1.5, mec="k")
    chosen = best_bandwidth([row for row in result.where(**selected) if "accuracy" in row], "accuracy")
    axes.plot([], [], "o", color="w", mec="k", ms=10, mew=1.5, label="best h of the class")
    axes.axvline(chosen, color="0.4", linestyle=":", label=f"$h_{{CV}}$ = {chosen:.3g}")
    axes.set(xscale="log", xlabel="h", ylabel="test $F_1$ score", ylim=(-0.03, 1.03))
    figures.legend_below(axes, columns=2)


def draw_classes(axes: Any, X: FloatArray, y: IntArray) -> None:
    """Plot points in the plane, with a colour and a marker for each class."""
    for place, c in enumerate(np.unique(y)):
        look = figures.style(place)
        # Thousands of markers are an image within the SVG file, which would have a megabyte otherwise.
        look = {"marker": look["marker"], "color": look["color"], "rasterized": len(X) > _MANY}
        axes.plot(*X[y == c].T, linestyle="none", ms=2.5, alpha=0.6, **look)
    axes.set(aspect="equal", xticks=[], yticks=[])


def draw_boundary(axes: Any, model: Any, X: FloatArray, *, colour: str, linestyle: str = "-") -> None:
    """Plot the boundaries between the predicted classes of a model."""
    low, high = X.min(axis=0) - 0.05, X.max(axis=0) + 0.05
    grid = np.meshgrid(*(np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True)))
    found = model.predict(np.column_stack([axis.ravel() for axis in grid])).reshape(grid[0].shape)
    for c in model.classes_[:-1]:
        axes.contour(*grid, (found <= c).astype(float), levels=[0.5], colors=[colour], linestyles=[linestyle])
