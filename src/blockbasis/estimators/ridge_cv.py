"""Kernel ridge regression and classification with everything chosen by leave-one-out."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blockbasis._typing import FloatArray, IntArray
from blockbasis._validation import check_choice, check_flag, check_positive
from blockbasis.estimators.base import bandwidth_of, has_bandwidth, make_kernel
from blockbasis.estimators.classifier import RidgeClassifier
from blockbasis.estimators.exact_ridge import ridge_walk, seconds_of_walk
from blockbasis.estimators.metric_learning import Grid
from blockbasis.estimators.ridge import KernelRidge, RidgeRegressor
from blockbasis.estimators.ridge_base import KernelRidgeEstimator, in_units
from blockbasis.estimators.ridge_path import Choices, Fit, Record
from blockbasis.estimators.search import (
    METRICS,
    Candidate,
    Found,
    Task,
    column_scale,
    name_of,
    search,
    search_results,
)
from blockbasis.exceptions import PerformanceWarning
from blockbasis.kernels import Gaussian, Laplacian, Matern, RadialKernel
from blockbasis.operators.storage import storable
from blockbasis.progress import reporting

_FAMILIES: tuple[RadialKernel, ...] = (Laplacian(1.0), Gaussian(1.0), Matern(1.0, nu=1.5))
#: Up to so many points the kernel matrix itself is solved with, where nothing else is asked for: rough kernels, which
#: small ridges go with, lose much by compression.
_EXACT_POINTS = 10_000
#: Ridges that it chooses among, as multiples of the one of the search, and steps that there must be time for.
_LADDER = tuple(4.0**power for power in range(-5, 3))
_STEPS = 4
#: Points of a cluster, and its rank, in the regression of all points, where nothing else is asked for.
_POINTS_PER_CLUSTER = 600
_RANK, _LEAST_RANK = 80, 16
_MOST_AT_FULL_RANK = 30_000
#: Ridges that the regression of all points chooses among, as multiples of the one of the search.
_RIDGES = (0.25, 1.0, 4.0)
#: Above this total rank one ridge is enough: the next would want an eigendecomposition.
_CHOOSING = 3_000
#: Standard deviations of columns within this factor of each other may be left as they are.
_COMPARABLE = 10
#: Part of a budget of time that the search may take, and rows on which the pace of the last fit is measured.
_SEARCH_PART = 0.35
_PILOT_ROWS = 2_000
_FEWEST_ROWS = 1_000
#: The last fit may take so much longer than the pace of the pilot says.
_RESERVE = 1.4


class RidgeSearch(KernelRidgeEstimator):
    """What both searches share. A class that inherits from this lists the parameters in its own ``__init__``."""

    alphas: Any
    standardize: Any
    time_budget: float | None

    #: Searched for, never given.
    bandwidth = None

    def _choices(self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator) -> Choices:
        """The kernel that a search finds, and ridges around the best one."""
        begun, budget = time.perf_counter(), self._budget()
        candidates, grid, scales = self._search_candidates(), self._grid(), self._scales(X, weights)
        task = Task(X, in_units(Y, weights), weights, scales, grid, _SEARCH_PART * budget)
        found = search(task, candidates, rng)
        left = budget - (time.perf_counter() - begun)
        exact = self._is_exact(len(X), left)
        ridges = grid.alphas or tuple(factor * found.alpha for factor in (_LADDER if exact else _RIDGES))
        if not exact and self._total_rank(len(X)) > _CHOOSING:
            ridges = (found.alpha,)
        alphas = [np.full(Y.shape[1], ridge) for ridge in ridges]
        choices = Choices(found.kernel, [None], alphas, found, exact=exact)
        if exact or budget == math.inf:
            return choices
        return replace(choices, rows=self._rows_in_time(choices, X, Y, left, rng))

    def _is_exact(self, n: int, seconds: float) -> bool:
        """Whether the regression of all points is one of the kernel matrix itself: where nothing else is asked for."""
        asked = any(each is not None for each in (self.tol, self.memory, self.rank, self.n_clusters))
        if asked or n > _EXACT_POINTS:
            return False
        return seconds == math.inf or seconds_of_walk(n, _STEPS) < seconds

    def _fits(
        self,
        choices: Choices,
        X: FloatArray,
        Y: FloatArray,
        weights: FloatArray | None,
        streams: Sequence[np.random.Generator],
    ) -> Iterator[Fit]:
        if not choices.exact:
            return super()._fits(choices, X, Y, weights, streams)
        assert choices.found is not None
        ridges = [float(alpha[0]) for alpha in choices.alphas]
        walk = ridge_walk(choices.kernel, X, Y, weights, ridges, ridges.index(choices.found.alpha))
        n_targets = Y.shape[1]
        return (
            Fit(
                choices.kernel,
                None,
                None,
                np.full(n_targets, each.alpha),
                each.coefficients,
                each.left_out,
                (),
                None,
                np.zeros(n_targets),
            )
            for each in walk
        )

    def _search_candidates(self) -> list[Candidate]:
        kinds: tuple[str, ...] = METRICS
        if self.metric != "auto" or self.gamma is not None:
            name = "none" if self.metric in (None, "auto") else self.metric
            kinds = (check_choice(name, METRICS, name="metric", caller=self._caller),)
        if isinstance(self.kernel, str) and self.kernel == "auto":
            families = _FAMILIES if self.gamma is None else (Gaussian(1.0),)
            return [Candidate(family, kind) for family in families for kind in kinds]
        family = make_kernel(self.kernel, None, caller=self._caller)
        if not (isinstance(family, RadialKernel) and has_bandwidth(family)):
            raise ValueError(
                f"The 'kernel' parameter of {self._caller} must be a radial kernel of one bandwidth, whose place the "
                f"search takes. Got {family!r} instead."
            )
        return [Candidate(family, kind) for kind in kinds]

    def _scales(self, X: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, ...]:
        """What the columns may be multiplied by; with a ``gamma`` they are as they are."""
        standard = column_scale(X, weights)
        raw = (standard > 0).astype(np.float64)  # a column that never varies tells nothing
        if isinstance(self.standardize, str):
            check_choice(self.standardize, ("auto",), name="standardize", caller=self._caller)
            if self.gamma is not None:
                return (raw,)
            varying = standard[standard > 0]
            # Samples are too small to tell scales apart that differ wildly: a unit of measure means nothing there.
            return (standard, raw) if varying.max() <= _COMPARABLE * varying.min() else (standard,)
        return (standard,) if check_flag(self.standardize, name="standardize", caller=self._caller) else (raw,)

    def _grid(self) -> Grid:
        """Ridges, ascending, and the bandwidth of a ``gamma``; nothing where the search is free."""
        bandwidth = None
        if self.gamma is not None:
            if self.kernel not in ("auto", "rbf", "gaussian"):
                raise ValueError(
                    f"The 'gamma' parameter of {self._caller} goes with kernel='rbf'. Got it with {self.kernel!r}."
                )
            bandwidth = Gaussian.from_gamma(check_positive(self.gamma, name="gamma", caller=self._caller)).bandwidth
        if self.alphas is None:
            return Grid((), bandwidth)
        given = np.atleast_1d(np.asarray(self.alphas, dtype=object)).tolist()
        if not given:
            raise ValueError(f"The 'alphas' parameter of {self._caller} must have at least one ridge. Got none.")
        return Grid(
            tuple(sorted(check_positive(each, name="alphas", caller=self._caller) for each in given)), bandwidth
        )

    def _budget(self) -> float:
        if self.time_budget is None:
            return math.inf
        return check_positive(self.time_budget, name="time_budget", caller=self._caller)

    def _default_goal(self, n: int) -> dict[str, Any]:
        """Compression that loses less than the data leave open, in a time that people wait for."""
        return {"rank": default_rank(n)}

    def _default_clusters(self, n: int) -> int:
        return default_number_of_clusters(n)

    def _total_rank(self, n: int) -> int:
        return self._default_clusters(n) * default_rank(n)

    def _rows_in_time(
        self, choices: Choices, X: FloatArray, Y: FloatArray, left: float, rng: np.random.Generator
    ) -> IntArray | None:
        """Rows that the last fit has time for, by the pace of a fit of a few; None is all."""
        n, few = len(X), _PILOT_ROWS
        if n <= 2 * few:
            return None
        order, begun = rng.permutation(n), time.perf_counter()
        settings = {"n_clusters": self._default_clusters(few), "rank": default_rank(few), "keep_points": False}
        pilot = KernelRidge([float(alpha[0]) for alpha in choices.alphas], kernel=choices.kernel, n_jobs=self.n_jobs)
        pilot.set_params(**settings).fit(X[order[:few]], Y[order[:few]])
        seconds = time.perf_counter() - begun
        fitting = int(few * (left - seconds) / (_RESERVE * seconds))
        if fitting >= n:
            return None
        fitting = max(fitting, _FEWEST_ROWS)
        warnings.warn(
            f"time_budget={self.time_budget:g} is too short for all {n} points: the model was fitted to {fitting} of "
            "them, drawn at random.",
            PerformanceWarning,
            stacklevel=4,
        )
        return np.sort(order[:fitting])

    def _keep_search(self, found: Found | None) -> None:
        """Attributes of the search."""
        assert found is not None and found.trial.regression is not None
        self.cv_results_ = search_results(found)
        self.scale_ = np.divide(1, found.scale, out=np.ones_like(found.scale), where=found.scale > 0)
        self.best_score_ = 1 - found.trial.error
        self.best_params_ = {
            "kernel": name_of(found.trial.candidate.family),
            "metric": found.trial.candidate.metric,
            "bandwidth": bandwidth_of(found.kernel),
            "alpha": float(np.ravel(self.alpha_)[0]),
        }


def default_rank(n: int) -> int:
    """Rank of a cluster in the regression of all points: the total rank, whose system is solved, is bounded."""
    return max(_LEAST_RANK, min(_RANK, _RANK * _MOST_AT_FULL_RANK // n))


def default_number_of_clusters(n: int) -> int:
    """Clusters of the regression of all points."""
    return max(1, round(n / _POINTS_PER_CLUSTER))


@storable
class KernelRidgeCV(RidgeSearch, RidgeRegressor):
    """Kernel ridge regression with kernel, metric, bandwidth and ridge chosen by leave-one-out.

    Nothing needs to be given: columns are scaled, targets centred, and what is chosen is chosen on growing samples, of
    which each keeps the better half of the candidates. The winner learns from all points, as `KernelRidge` does.

    Parameters
    ----------
    alphas : list of float, default=None
        Ridges to choose among; None is powers of 4.
    kernel : {"auto", "gaussian", "rbf", "laplacian", "matern", ...} or Kernel, default="auto"
        "auto": the Gaussian, the Laplacian or the Matern 3/2 kernel. Any radial kernel of one bandwidth may be given;
        its bandwidth is chosen.
    metric : {"auto", "diagonal", "full"} or None, default="auto"
        As in `KernelRidge`.
    gamma : float, default=None
        scikit-learn's parameter of the "rbf" kernel: with it only the ridge is chosen, and the columns stay as they
        are.
    fit_intercept : bool, default=True
        Whether to learn the targets around their mean.
    standardize : {"auto"} or bool, default="auto"
        Whether to divide the columns by their standard deviations first. "auto" does where these differ by more than a
        factor of 10, and leaves it to leave-one-out where they do not.
    time_budget : float, default=None
        Seconds. A search that has used a third of them stops with the best found so far; where the rest is too short
        to learn from all points, some are drawn at random, with a `PerformanceWarning`.
    tol, memory, n_clusters, rank, keep_points, random_state, n_jobs
        As in `KernelRidge`, for the last fit. With none of the first four: up to 10,000 points exactly, more in
        clusters of about 600 points, of rank 80 up to 30,000 points and less beyond.
    verbose : int, default=0
        Above 0 shows progress and the time left, in one bar.

    Attributes
    ----------
    best_params_ : dict
        ``kernel``, ``metric``, ``bandwidth`` (of mapped points) and ``alpha``.
    best_score_ : float
        Leave-one-out R^2 of the winner on the largest sample.
    cv_results_ : dict
        Every candidate in every stage: ``iter`` (the stage), ``n_resources`` (rows), ``param_kernel``,
        ``param_metric``, ``param_bandwidth``, ``param_alpha``, ``mean_test_score`` (leave-one-out R^2),
        ``rank_test_score``, ``fit_time``.
    scale_ : ndarray of shape (n_features,)
        What the columns were divided by before the search; gradients are in the units of the columns all the same.
    metric_, feature_importances_, intercept_, alpha_, bandwidth_, expansion_, local_share_, residuals_, dual_coef_, \
X_fit_
        As in `KernelRidge`.
    factorization_ : BlockBasis
        Where the last fit is compressed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    KernelRidge : With a kernel that is given.
    KernelRidgeClassifierCV : Classification.

    Notes
    -----
    Targets are in units of their standard deviation in the search, so that each of several counts as much.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin: Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models. Science 383 (2024), 1461-1467.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 5)) * [1, 100, 1, 1, 1]
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] / 100 + 0.1 * rng.normal(size=600)
    >>> model = bb.KernelRidgeCV(random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.95
    True
    >>> sorted(model.feature_importances_.argsort()[-2:].tolist())
    [0, 1]
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        kernel: Any = "auto",
        metric: str | None = "auto",
        gamma: float | None = None,
        fit_intercept: bool = True,
        standardize: Any = "auto",
        time_budget: float | None = None,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        keep_points: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.time_budget = time_budget
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.keep_points = keep_points
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose, and learn from points and their targets; parameters as in `KernelRidge.fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        with reporting(self.verbose > 0):
            return super().fit(X, y, sample_weight)

    @property
    def _one_for_each_target(self) -> bool:
        return False

    def _keep_results(self, choices: Choices, records: list[Record]) -> None:
        self._keep_search(choices.found)


@storable
class KernelRidgeClassifierCV(RidgeSearch, RidgeClassifier):
    """Classification by kernel ridge regression with kernel, metric, bandwidth and ridge chosen by leave-one-out.

    Parameters
    ----------
    alphas, kernel, metric, gamma, standardize, time_budget
        As in `KernelRidgeCV`.
    class_weight : dict, "balanced" or None, default=None
        As in scikit-learn's ``RidgeClassifier``.
    tol, memory, n_clusters, rank, keep_points, random_state, n_jobs, verbose
        As in `KernelRidgeCV`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    best_params_, cv_results_, scale_, metric_, feature_importances_
        As in `KernelRidgeCV`.
    best_score_ : float
        Leave-one-out R^2 of the targets 1 and -1 of the classes, for the winner on the largest sample.
    intercept_, alpha_, bandwidth_, expansions_, groups_, local_share_, calibration_, dual_coef_, X_fit_
        As in `KernelRidgeClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 4))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = bb.KernelRidgeClassifierCV(random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.9
    True
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        kernel: Any = "auto",
        metric: str | None = "auto",
        gamma: float | None = None,
        class_weight: Any = None,
        standardize: Any = "auto",
        time_budget: float | None = None,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        keep_points: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.kernel = kernel
        self.metric = metric
        self.gamma = gamma
        self.class_weight = class_weight
        self.standardize = standardize
        self.time_budget = time_budget
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.keep_points = keep_points
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose, and learn from points and their classes; parameters as in `KernelRidgeClassifier.fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : float or array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        with reporting(self.verbose > 0):
            return super().fit(X, y, sample_weight)

    def _keep_results(self, choices: Choices, results: dict[str, Any] | None) -> None:
        self._keep_search(choices.found)
