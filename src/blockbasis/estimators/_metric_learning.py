"""Learn a metric by kernel ridge regressions and the mean outer product of their gradients.

An isotropic kernel treats all columns alike. Let M be the mean outer product of the gradients of a regression. The
distances |M^(1/2) (x - y)| are long in directions in which the function changes, and short in the others. A regression
with these distances has better gradients, from which the next metric is computed.

References
----------
A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin: Mechanism for feature learning in neural networks and
backpropagation-free machine learning models. Science 383 (2024), 1461-1467.
D. Beaglehole, D. Holzmüller, A. Radhakrishnan, M. Belkin: xRFM: accurate, scalable, and interpretable feature learning
models for tabular data. 2025.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import linalg
from sklearn.ensemble import ExtraTreesRegressor

from blockbasis._utils.linalg import eigenpairs
from blockbasis.estimators._exact_ridge import leave_one_out, walk
from blockbasis.kernels import Kernel, RadialKernel, WithMetric, squared_distances
from blockbasis.kernels.linear_map import LinearMap

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Added to the eigenvalues of M, relative to the largest, so that later rounds can use every direction again.
_FLOOR = 1e-6
#: Maximum number of directions of a full metric.
_WIDE = 128
#: Maximum size (rows times columns times targets) of the gradients of one round, and minimum number of rows.
_GRADIENT_NUMBERS = 4_000_000
_FEWEST_GRADIENTS = 256
#: Rounds end when the relative decrease of the error is below this.
_GAIN = 2e-3
#: Share of the variance of the targets below which a regression has no gradients to learn from, and number of trees and
#: least number of rows in a leaf of the ensemble from which a first metric is then taken.
_SIGNAL = 0.2
_TREES = 100
_LEAF_ROWS = 3
#: First and last exponents: bandwidths are the median distance times powers of 2, and ridges are powers of 4.
_BANDWIDTH_STEPS = (-5, 6)
_ALPHA_STEPS = (-12, 3)
#: Steps of bandwidth and ridge in the search: one of them, or both in opposite directions, since a larger bandwidth
#: needs a smaller ridge.
_MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
START = (1, -3)
#: From this ridge on, float32 is accurate enough to compare regressions of a few thousand points.
_RIDGE_OF_SINGLE = 2e-4
#: Number of rows in the median distance, the unit of bandwidths.
_MEDIAN_ROWS = 400

#: Exponents of a bandwidth and a ridge.
Place: TypeAlias = tuple[int, int]


class OutOfTime(Exception):
    """Raised instead of beginning a regression or an ensemble of trees after the deadline."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of the data that are few enough for exact regressions.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points in float64.
    Y : ndarray of shape (n, n_targets)
        Targets minus their mean.
    weights : ndarray of shape (n,) or None
        Positive weights of the points.
    deadline : float
        Value of `time.perf_counter` after which no regression begins.
    cancelled : Event
        No regression begins after it is set.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray | None = None
    deadline: float = math.inf
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def require_time(self) -> None:
        """Raise `OutOfTime` after the deadline, or if the search is cancelled."""
        if self.cancelled.is_set() or time.perf_counter() > self.deadline:
            raise OutOfTime

    def losses(self, left_out: FloatArray) -> FloatArray:
        """Squared leave-one-out residuals, averaged over the targets, times relative weights."""
        return self.weighed(np.asarray((left_out**2).mean(axis=1), dtype=np.float64))

    @cached_property
    def metric_of_trees(self) -> FloatArray:
        """First metric where an isotropic kernel explains little: see `metric_of_trees`."""
        return metric_of_trees(self)

    def shared_metric_of_trees(self) -> FloatArray:
        """Return `metric_of_trees`, computed once even if several threads ask for it."""
        with self._lock:
            return self.metric_of_trees

    def weighed(self, losses: FloatArray) -> FloatArray:
        """Losses times the weights divided by their mean."""
        return losses if self.weights is None else losses * self.weights / self.weights.mean()


@dataclass(frozen=True)
class Grid:
    """Candidate bandwidths and ridges.

    Parameters
    ----------
    alphas : tuple of float
        Ridges. Empty for powers of 4.
    bandwidth : float or None
        The only bandwidth. None for the median distance times powers of 2.
    """

    alphas: tuple[float, ...] = ()
    bandwidth: float | None = None

    @property
    def limits(self) -> tuple[Place, Place]:
        """First and last exponents (or indices) of bandwidths and of ridges."""
        lengths = _BANDWIDTH_STEPS if self.bandwidth is None else (0, 0)
        return lengths, (0, len(self.alphas) - 1) if self.alphas else _ALPHA_STEPS

    def nearest(self, place: Place) -> Place:
        """The place within the limits that is nearest to a place."""
        (least, most), (lowest, highest) = self.limits
        return min(max(place[0], least), most), min(max(place[1], lowest), highest)

    def at(self, place: Place, unit: float) -> tuple[float, float]:
        """Bandwidth and ridge of a place; ``unit`` is the median distance."""
        length = unit * 2.0 ** place[0] if self.bandwidth is None else self.bandwidth
        return length, self.alphas[place[1]] if self.alphas else 4.0 ** place[1]


FREE = Grid()


@dataclass(frozen=True, eq=False)
class Regression:
    """An exact kernel ridge regression of a sample.

    Parameters
    ----------
    kernel : RadialKernel
        Kernel with its bandwidth.
    metric : ndarray of shape (d,) or (m, d)
        L of the distances |L (x - y)|, or its diagonal.
    place : tuple of int
        Exponents of the bandwidth and the ridge.
    alpha : float
        Ridge.
    coefficients, left_out : ndarray of shape (n, n_targets)
        Coefficients and leave-one-out residuals.
    losses : ndarray of shape (n,)
        Weighted squared leave-one-out residuals; infinite if the regression could not be solved.
    """

    kernel: RadialKernel
    metric: FloatArray
    place: Place
    alpha: float
    coefficients: FloatArray
    left_out: FloatArray
    losses: FloatArray

    @cached_property
    def error(self) -> float:
        """Mean squared leave-one-out residual."""
        return float(self.losses.mean())

    def whole_kernel(self) -> Kernel:
        """Kernel, with its metric, as a function of the points of the sample."""
        return WithMetric(self.kernel, LinearMap(self.metric.copy()))


# --- bandwidth and ridge ---------------------------------------------------------------------------------------------


def tuned(
    sample: Sample, family: RadialKernel, metric: FloatArray, start: Place = START, grid: Grid = FREE
) -> Regression:
    """Find the bandwidth and ridge of least leave-one-out error by a local search from ``start``.

    Parameters
    ----------
    sample : Sample
    family : RadialKernel
        Its bandwidth is ignored.
    metric : ndarray of shape (d,) or (m, d)
    start : tuple of int
    grid : Grid

    Returns
    -------
    Regression

    Raises
    ------
    OutOfTime
    LinAlgError
        If no regression could be solved.
    """
    at = _regressions(sample, family, metric, grid)
    return _descended(at, at(grid.nearest(start)), grid)


def tuned_again(sample: Sample, first: Regression, grid: Grid = FREE) -> Regression:
    """Find the bandwidth and ridge of least leave-one-out error from a regression of the sample, which is not repeated.

    Raises
    ------
    OutOfTime
    LinAlgError
        If no regression could be solved.
    """
    return _descended(_regressions(sample, first.kernel, first.metric, grid), first, grid)


def _descended(at: Callable[[Place], Regression], first: Regression, grid: Grid) -> Regression:
    """Local minimum of the leave-one-out error over bandwidths and ridges, from a regression downwards."""
    (least, most), (lowest, highest) = grid.limits
    seen, best, improving = {first.place: first}, first, True
    while improving:
        improving = False
        for move in _MOVES:
            while True:
                there = best.place[0] + move[0], best.place[1] + move[1]
                inside = least <= there[0] <= most and lowest <= there[1] <= highest
                if not inside or there in seen:
                    break
                seen[there] = at(there)
                if seen[there].error >= best.error:
                    break
                best, improving = seen[there], True
    if not math.isfinite(best.error):
        raise linalg.LinAlgError(f"no regression with {first.kernel!r} has a finite leave-one-out error")
    return best


def regression(sample: Sample, family: RadialKernel, metric: FloatArray, place: Place, grid: Grid = FREE) -> Regression:
    """Regression with one bandwidth and ridge. Its error is infinite if it cannot be solved."""
    return _regressions(sample, family, metric, grid)(place)


def with_best_ridge(sample: Sample, K: FloatArray, near: Regression, grid: Grid = FREE) -> Regression:
    """Regression of a kernel matrix with the ridge of least leave-one-out error.

    Parameters
    ----------
    sample : Sample
    K : ndarray of shape (n, n)
    near : Regression
        Start of the search, from which the result has its kernel, metric and bandwidth.
    grid : Grid

    Returns
    -------
    Regression
        Its error is infinite if no regression could be solved.

    Raises
    ------
    OutOfTime
    """
    seen = dict[int, Regression]()

    def error(step: int) -> float:
        if step not in seen:
            place = near.place[0], step
            seen[step] = with_matrix(sample, K, replace(near, place=place, alpha=grid.at(place, 1.0)[1]))
        return seen[step].error

    return seen[walk(error, near.place[1], grid.limits[1])]


def with_matrix(sample: Sample, K: FloatArray, like: Regression) -> Regression:
    """The regression of a given kernel matrix with the ridge of another; its error is infinite where there is none."""
    coefficients, left_out, losses = _solved(sample, K, like.alpha)
    return replace(like, coefficients=coefficients, left_out=left_out, losses=losses)


def _regressions(sample: Sample, family: RadialKernel, metric: FloatArray, grid: Grid) -> Callable[[Place], Regression]:
    """Return a function from places to regressions, which computes the distances once."""
    Z = LinearMap(metric.copy())(sample.X)
    squared = squared_distances(Z, Z, Z.mean(axis=0))
    unit = _median_distance(squared)
    last: tuple[int, FloatArray] | None = None

    def at(place: Place) -> Regression:
        nonlocal last
        length, alpha = grid.at(place, unit)
        kernel = replace(family, bandwidth=length)
        if last is None or last[0] != place[0]:
            last = place[0], kernel.profile(squared.copy())
        return Regression(kernel, metric, place, alpha, *_solved(sample, last[1], alpha))

    return at


def _solved(sample: Sample, K: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coefficients, leave-one-out residuals and losses. Losses are infinite if the system cannot be solved."""
    sample.require_time()
    least = alpha if sample.weights is None else alpha / float(sample.weights.max())
    precision = np.float32 if least >= _RIDGE_OF_SINGLE else np.float64
    try:
        # K is symmetric: its transpose has contiguous columns at the price of a copy without a transposition.
        coefficients, left_out = leave_one_out(K.astype(precision).T, sample.Y, sample.weights, alpha)
    except linalg.LinAlgError:
        return np.zeros_like(sample.Y), np.full_like(sample.Y, math.inf), np.full(len(K), math.inf)
    losses = sample.losses(left_out)
    return coefficients, left_out, losses if np.isfinite(losses).all() else np.full(len(K), math.inf)


def _median_distance(squared: FloatArray) -> float:
    """Median distance of different points; 1 if all points are equal."""
    some = squared[:_MEDIAN_ROWS, :_MEDIAN_ROWS]
    positive = some[some > 0]
    return math.sqrt(float(np.median(positive))) if positive.size else 1.0


# --- rounds ----------------------------------------------------------------------------------------------------------


def rounds(
    sample: Sample, first: Regression, kind: str, limit: int, grid: Grid = FREE, place: Place | None = None
) -> Iterator[Regression]:
    """Update the metric by the gradients as long as the leave-one-out error decreases.

    Parameters
    ----------
    sample : Sample
    first : Regression
        Regression of the same sample, from whose metric the rounds begin. Where it explains little, they begin from the
        metric of trees if that has the smaller error.
    kind : {"diagonal", "full"}
    limit : int
        Maximum number of rounds.
    grid : Grid
    place : tuple of int or None
        Bandwidth and ridge of all rounds. With None, each round searches for its own.

    Yields
    ------
    Regression
        Best regression so far, after each round.
    """
    best = current = first
    if limit > 0 and first.error > (1 - _SIGNAL) * float(sample.losses(sample.Y).mean()):
        of_trees = tuned(sample, first.kernel, sample.shared_metric_of_trees(), START if place is None else place, grid)
        best = current = of_trees if of_trees.error < first.error else first
        yield best
    for _ in range(limit):
        metric = updated_metric(sample, current, kind)
        if metric is None:
            return
        if place is None:
            current = tuned(sample, current.kernel, metric, current.place, grid)
        else:
            current = regression(sample, current.kernel, metric, place, grid)
        gained = current.error < (1 - _GAIN) * best.error
        best = current if current.error < best.error else best
        yield best
        if not gained:
            return


def metric_of_trees(sample: Sample) -> FloatArray:
    """Diagonal metric from the importances of the columns in an ensemble of regression trees.

    Where few of many columns matter, all distances are nearly equal, and an isotropic kernel explains nothing. Trees
    find such columns one at a time.

    Raises
    ------
    OutOfTime
    """
    sample.require_time()
    centred = sample.X - sample.X.mean(axis=0)
    spread = centred.std(axis=0)
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)  # importances have no unit
    trees = ExtraTreesRegressor(_TREES, min_samples_leaf=_LEAF_ROWS, max_features=1 / 3, random_state=0, n_jobs=1)
    trees.fit(centred * unit, sample.Y if sample.Y.shape[1] > 1 else sample.Y[:, 0], sample.weights)
    importances = trees.feature_importances_
    lengths = unit * np.sqrt(importances / max(importances.max(), np.finfo(float).tiny) + _FLOOR)
    return np.asarray(lengths / (lengths.max() or 1.0))


def updated_metric(sample: Sample, fitted: Regression, kind: str) -> FloatArray | None:
    """Metric from the mean outer product of the gradients of a regression; None if all gradients are zero.

    Parameters
    ----------
    sample : Sample
    fitted : Regression
    kind : {"diagonal", "full"}

    Returns
    -------
    ndarray of shape (d,) for "diagonal", (m, d) for "full"
        Its entries, or singular values, are at most 1.
    """
    n, d = sample.X.shape
    count = max(_FEWEST_GRADIENTS, _GRADIENT_NUMBERS // (d * sample.Y.shape[1]))
    rows = slice(None, min(n, count))
    slopes = fitted.whole_kernel().gradient(sample.X[rows], sample.X, fitted.coefficients)
    if sample.weights is not None:
        slopes *= np.sqrt(sample.weights[rows] / sample.weights[rows].mean())[:, np.newaxis, np.newaxis]
    largest = float(np.abs(slopes).max(initial=0.0))
    if not (math.isfinite(largest) and largest > 0):
        return None
    slopes /= largest  # prevents overflow and underflow of the squares
    if kind == "diagonal":
        moments = np.einsum("idt,idt->d", slopes, slopes)
        return np.asarray(np.sqrt(moments / moments.max() + _FLOOR))
    flat = slopes.transpose(0, 2, 1).reshape(-1, d)
    values, vectors = eigenpairs(flat.T @ flat)
    values, vectors = values[-_WIDE:], vectors[:, -_WIDE:]
    return np.asarray(np.sqrt(np.maximum(values, 0) / values[-1] + _FLOOR)[:, np.newaxis] * vectors.T)
