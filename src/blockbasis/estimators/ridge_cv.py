"""Kernel ridge regression and classification with everything chosen from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.progress import reporting
from blockbasis.estimators._calibration import calibrated
from blockbasis.estimators._ridge_search import RidgeSearch
from blockbasis.estimators.classifier import RidgeClassifier
from blockbasis.estimators.ridge import RidgeRegressor
from blockbasis.operators.storage import storable

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._ridge_path import Choices, Fit, Record


@storable
class KernelRidgeCV(RidgeSearch, RidgeRegressor):
    """Kernel ridge regression with kernel, metric, bandwidth and ridge chosen from the data.

    No parameter is required. Columns are scaled and targets are centred. Candidates are compared on samples of
    increasing size, and each stage keeps the best. The best candidate is fitted to all points, as by `KernelRidge`.

    Parameters
    ----------
    alphas : list of float, default=None
        Candidate ridges. None for powers of 4.
    kernel : {"auto", "gaussian", "rbf", "laplacian", "matern", ...} or Kernel, default="auto"
        "auto": the Gaussian, the Laplacian or the Matern 3/2 kernel. Any radial kernel of one bandwidth may be given;
        its bandwidth is chosen. Other kernels have no bandwidth to choose, and are refused: sums and products of
        kernels, and functions k(X, Y) -> array. `KernelRidge` takes them, with a list of ridges to choose among.
    metric : {"auto", "diagonal", "full"} or None, default="auto"
        As in `KernelRidge`.
    gamma : float, default=None
        scikit-learn's parameter of the "rbf" kernel. If it is given, only the ridge is chosen, and the columns are not
        scaled.
    fit_intercept : bool, default=True
        Whether to subtract the mean of the targets before the fit.
    standardize : {"auto"} or bool, default="auto"
        Whether to divide the columns by their standard deviations first. "auto" does so if these differ by more than a
        factor of 10. If not, the columns are left unscaled if this is better by more than a standard error. "auto" also
        maps columns with heavy tails if this is better; see the notes.
    time_budget : float, default=None
        Time in seconds. The search stops with the best candidate found so far after a third of it. If the rest is too
        short for a fit to all points, the fit uses a random part of them, with a `PerformanceWarning`.
    tol, memory, n_clusters, rank, keep_points, random_state, n_jobs
        As in `KernelRidge`, for the last fit. If the first four are None, up to 21,000 points are fitted exactly, and
        more points in clusters of about 600 points. Their rank is 80 up to 30,000 points, and less beyond.
    verbose : int, default=0
        If above 0, show progress and the time left.

    Attributes
    ----------
    best_params_ : dict
        ``kernel``, ``metric``, ``bandwidth`` (for mapped points) and ``alpha``. If the mean of two kernels was chosen,
        ``kernel`` has both names, such as "matern + gaussian", and ``bandwidth`` is None.
    best_index_ : int
        Index of the best candidate in ``cv_results_``.
    best_score_ : float
        R^2 of the best candidate on the largest sample, as in ``cv_results_``.
    cv_results_ : dict
        One entry for each candidate in each stage: ``iter`` (the stage), ``n_resources`` (rows), ``param_kernel``,
        ``param_metric``, ``param_bandwidth``, ``param_alpha``, ``mean_test_score`` (R^2, see the notes),
        ``rank_test_score``, ``fit_time``.
    scale_ : ndarray of shape (n_features,)
        Divisors of the columns in the search. Gradients are in the original units of the columns.
    column_map_ : ColumnMap or None
        Map of the columns with heavy tails, with ``columns``, ``centers`` and ``spreads``. The kernel, ``metric_``,
        ``expansion_`` and ``factorization_`` refer to mapped columns; ``X_fit_`` and gradients refer to the original
        columns.
    metric_, feature_importances_, intercept_, alpha_, bandwidth_, expansion_, local_share_, residuals_, dual_coef_, \
X_fit_
        As in `KernelRidge`.
    factorization_ : BlockBasis
        Factorization of the last fit, if it is compressed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    KernelRidge : Regression with a given kernel.
    KernelRidgeClassifierCV : Classification.

    Notes
    -----
    Targets are in units of their standard deviation in the search, so that each of several counts as much.
    Bandwidths and ridges are chosen by leave-one-out. Kernels and metrics are compared at points outside of the
    samples, where there are at least 1,000, and else by leave-one-out: a metric has seen the targets of its sample.
    A column has heavy tails where its largest deviation from the median is over 30 times the median deviation, of the
    values that deviate. It may become center + spread * asinh((x - center) / spread), with the median and the median
    deviation, which is logarithmic far out: like a regression tree, the kernel then hardly minds how far.
    With ``kernel="auto"``, ``metric="auto"`` and a last fit that is exact, the mean of two kernels of the last stage is
    taken where its error is at most one standard error above that of the best alone. Where there are enough points, the
    best kernel and the best two means are compared once more with 1.6 times the rows: at rows of which no metric has
    seen the targets, by leave-one-out where they are in the sample.

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

    A column with heavy tails is mapped:

    >>> X[:, 0] = np.exp(2 * X[:, 0])
    >>> model = bb.KernelRidgeCV(random_state=0).fit(X[:500], y[:500])
    >>> model.column_map_.columns
    array([0])
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
    """Classification by kernel ridge regression with kernel, metric, bandwidth and ridge chosen from the data.

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
    best_params_, best_index_, scale_, column_map_, metric_, feature_importances_
        As in `KernelRidgeCV`.
    cv_results_ : dict
        As in `KernelRidgeCV`; ``mean_test_score`` is minus the log-loss of calibrated decision values.
    best_score_ : float
        That of the winner on the largest sample.
    intercept_, alpha_, bandwidth_, expansions_, groups_, local_share_, calibration_, dual_coef_, X_fit_, factorization_
        As in `KernelRidgeClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Bandwidths and ridges of a candidate are chosen by squared leave-one-out residuals, as in `KernelRidgeCV`.
    Candidates, and the ridges of the last fit, are compared by the log-loss. If classes are far apart, the squared
    residuals mostly measure the distances of values from 1 and -1, which do not affect the decisions.

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

    def _quality(self, fit: Fit, labels: IntArray, Y: FloatArray, weights: FloatArray | None) -> tuple[float, float]:
        """The leave-one-out log-loss, by which the candidates were compared."""
        values = Y - fit.left_out
        losses = calibrated(values, labels, weights).losses(values, labels)
        return -float(np.average(losses, weights=weights)), 0.0

    def _keep_results(self, choices: Choices, results: dict[str, Any] | None) -> None:
        self._keep_search(choices.found)
