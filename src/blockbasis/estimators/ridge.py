"""Kernel ridge regression on compressed kernel matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils.linalg import exponents_of
from blockbasis._utils.validation import check_flag, check_fraction
from blockbasis.estimators._base import all_or_nothing, bandwidth_of
from blockbasis.estimators._exact_ridge import mean_square
from blockbasis.estimators._intervals import Residuals, some_residuals
from blockbasis.estimators._ridge_base import KernelRidgeEstimator
from blockbasis.estimators._ridge_path import Choices, Fit, Record, cv_results
from blockbasis.estimators._stream import Batch, by_pieces
from blockbasis.estimators._streamed_models import StreamedRegressor
from blockbasis.operators.storage import storable
from blockbasis.streaming.sources import is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.estimators._expansion import Expansion


class RidgeRegressor(StreamedRegressor, MultiOutputMixin, RegressorMixin, KernelRidgeEstimator):
    """What `KernelRidge` and its search share: fit and prediction, once there is something to choose among."""

    fit_intercept: bool
    dual_coef_: FloatArray
    expansion_: Expansion
    residuals_: Residuals

    @property
    def _one_for_each_target(self) -> bool:
        """Whether ``alpha`` is an array with one ridge for each target."""
        return isinstance(self.alpha, np.ndarray) and self.alpha.ndim > 0

    def _keep_results(self, choices: Choices, records: list[Record]) -> None:
        if len(records) > 1:
            self.cv_results_ = cv_results(records)

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the regression to points and their targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
            With points in float32, the computation is in float32. A `numpy.memmap`, an array of zarr or h5py, a data
            set of pyarrow or `blockbasis.streaming.Rows` are read in pieces; see the notes of `partial_fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the points. A point of weight zero is ignored.

        Returns
        -------
        self
        """
        if is_streamed(X):
            self._forget_stream()
            self._partial_fit(X, y, sample_weight)._solve()
            return self
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        weights = self._check_weights(sample_weight, X)
        self._forget_stream()
        keep = check_flag(self.keep_points, name="keep_points", caller=self._caller)
        centred = check_flag(self.fit_intercept, name="fit_intercept", caller=self._caller)
        Y = y.reshape(len(y), -1).astype(np.float64)
        used: Any = slice(None) if weights is None else weights > 0
        weights = None if weights is None else weights[used]
        intercept = np.average(Y[used], axis=0, weights=weights) if centred else np.zeros(Y.shape[1])
        of_choices, *streams, of_residuals = self._streams(4)
        choices = self._choices(X[used], Y[used] - intercept, weights, of_choices)
        self._warn_of_rows(choices, len(X[used]))
        if choices.rows is not None:
            used = np.arange(len(X))[used][choices.rows]
            weights = None if weights is None else weights[choices.rows]
        Z = choices.mapped(X[used])
        best, records = _least_squares(self._fits(choices, Z, Y[used] - intercept, weights, streams), weights)
        self.expansion_ = self._learnt([(best, target) for target in range(Y.shape[1])], Z)
        self.local_share_ = best.shares
        left_out = best.left_out * (1.0 if choices.found is None else choices.found.optimism)
        self.residuals_ = some_residuals(best.kernel.coordinates(Z), left_out, weights, of_residuals)
        self.intercept_ = intercept
        self.bandwidth_ = bandwidth_of(best.kernel)
        self.alpha_ = best.alpha.copy() if self._one_for_each_target else float(best.alpha[0])
        self._n_dimensions = y.ndim
        self._forget("cv_results_", "X_fit_", "dual_coef_", "factorization_")
        self._keep_metric(choices.found, Z)
        self._keep_results(choices, records)
        if keep:
            self.X_fit_ = X
            self._learnt_from = Batch(X[used], Y[used], weights)
            if best.A is not None:
                self.factorization_ = best.A
            self.dual_coef_ = np.zeros_like(Y)
            self.dual_coef_[used] = best.coefficients
            self.dual_coef_ = self.dual_coef_.reshape(y.shape)
        return self

    @by_pieces
    def predict(self, X: Any) -> FloatArray:
        """Predict the targets of new points, in bounded memory for any number of points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        values = self._predict(self._check_X(X, reset=False), self.expansion_) + self.intercept_
        return values if self._n_dimensions == 2 else values[:, 0]

    @by_pieces
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Prediction intervals, which contain the targets of new points with a given probability.

        The widths come from leave-one-out residuals, scaled by the mean residual of the training points nearest to the
        new point. If new points have the distribution of the training points, the intervals contain a share
        ``coverage`` of their targets on average.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Ends of the interval of each target.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(1000, 1))
        >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1000)
        >>> model = bb.KernelRidge(0.1, bandwidth=1.0).fit(X[:500], y[:500])
        >>> lower, upper = model.predict_interval(X[500:], coverage=0.8)
        >>> share = np.mean((lower <= y[500:]) & (y[500:] <= upper))
        >>> bool(0.75 < share < 0.85)
        True
        """
        check_is_fitted(self)
        share = check_fraction(coverage, name="coverage", caller=f"{self._caller}.predict_interval")
        X = self._check_X(X, reset=False)
        values = self._predict(X, self.expansion_) + self.intercept_
        coordinates = self.expansion_.kernel.coordinates(self._mapped(X))
        wide = self.residuals_.deviations(coordinates) * self.residuals_.factors(share)
        lower, upper = values - wide, values + wide
        return (lower, upper) if self._n_dimensions == 2 else (lower[:, 0], upper[:, 0])

    @by_pieces
    def gradient(self, X: Any) -> FloatArray:
        """Gradients of the prediction at new points, in the units of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_targets)
            Gradients in float64.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
        >>> model = bb.KernelRidge(1e-3, bandwidth=1.0).fit(X, X[:, 0] ** 2)
        >>> model.gradient([[0.5, 0.0]]).round(1) + 0.0
        array([[1., 0.]])
        """
        check_is_fitted(self)
        slopes = self._slopes(self._check_X(X, reset=False), self.expansion_)
        return slopes if self._n_dimensions == 2 else slopes[..., 0]


@storable
class KernelRidge(RidgeRegressor):
    """Kernel ridge regression on a compressed kernel matrix.

    The parameters are those of scikit-learn's ``KernelRidge``. Time and memory of the fit are linear in the number of
    points, and the cost of a prediction does not depend on it.

    Parameters
    ----------
    alpha : float, ndarray of shape (n_targets,), or list of float, default=1.0
        Positive ridge. An array has one ridge for each target, as in scikit-learn. A list or tuple has candidates, of
        which the one with the smallest squared leave-one-out error over all targets is chosen.
    kernel : {"gaussian", "rbf", "laplacian", "matern", "cauchy", "inverse_multiquadric", "rational_quadratic"}, \
Kernel or callable, default="gaussian"
        A name, a kernel such as ``blockbasis.Matern(1.0, nu=2.5)``, one of scikit-learn's, or a function
        k(X, Y) -> array. The white noise of a kernel is added to ``alpha``.
    bandwidth : float, {"median", "auto"}, list of float or None, default=None
        Bandwidth of the kernel. "median" is the median distance of two points. A list has candidates, which are
        compared together with those of ``alpha``; "auto" has the candidates 1/16 to 2 times the median distance. None
        keeps the bandwidth of a kernel object, and is the square root of the number of columns for a kernel given by
        name, which is scikit-learn's default ``gamma``.
    gamma : float, default=None
        scikit-learn's parameter of the "rbf" kernel, exp(-gamma |x - y|^2), in place of ``bandwidth``.
    metric : {"diagonal", "full", "auto"} or None, default=None
        Learn distances |L (x - y)| from the data. A regression of at most 3,200 points and the mean outer product of
        its gradients, which determines L, are repeated as long as the leave-one-out error decreases. "diagonal" learns
        a weight for each column, and "full" a matrix. "auto" compares both and no metric by the leave-one-out error.
        The columns are scaled to standard deviation 1 first. With ``bandwidth=None``, the bandwidth is chosen as well.
        A given bandwidth refers to the mapped points L x, whose total variance is that of standardized columns.
    fit_intercept : bool, default=False
        Whether to subtract the mean of the targets before the fit, so that predictions far from all training points
        are the mean.
    tol, memory, n_clusters, rank : default=None
        Accuracy or size of the compression, as in `blockbasis.factorize`, without a diagonal part. If ``tol``,
        ``memory`` and ``rank`` are None, up to 1,000 points are stored exactly, and more points with 100 floats for
        each point. If ``n_clusters`` and ``tol`` are None, there are sqrt(n_samples) / 4 clusters.
    keep_points : bool, default=True
        Whether to store the attributes whose size is that of the data: ``X_fit_``, ``dual_coef_`` and
        ``factorization_``. Prediction does not use them. It uses some points of each cluster, about ten for each unit
        of its rank.
    random_state : int, RandomState or None, default=None
        Seed.
    n_jobs : int, default=None
        Number of threads. None uses one for each core.
    verbose : int, default=0
        If above 0, show progress.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Coefficients of the compressed regression, zero for points of weight zero.
    X_fit_ : ndarray of shape (n_samples, n_features)
        Training points.
    factorization_ : BlockBasis
        Factorization of the points with positive weight.
    expansion_ : Expansion
        Prediction function.
    local_share_ : ndarray of shape (n_targets,)
        Share of the local regressions in the prediction.
    residuals_ : Residuals
        Leave-one-out residuals at up to 4,000 points, from which intervals are computed. Where a metric was learned
        from the same targets, they are scaled up to the size of residuals at points that the metric has not seen.
    intercept_ : ndarray of shape (n_targets,)
        Mean of the targets, or zero.
    metric_ : ndarray of shape (m, n_features)
        Matrix L, if a metric was learned.
    feature_importances_ : ndarray of shape (n_features,)
        Diagonal of LᵀL for columns of standard deviation 1, divided by its sum, if a metric was learned.
    alpha_ : float or ndarray of shape (n_targets,)
        Chosen ridge.
    bandwidth_ : float, ndarray of shape (n_features,) or None
        Chosen bandwidth, or one for each column if the kernel object has these. None for kernels without a bandwidth,
        such as functions.
    far_share_ : float
        Share of the points far from all clusters, after a fit in pieces; see `partial_fit`.
    stream_ : Stream
        State of `partial_fit`: basis functions and sums.
    cv_results_ : dict
        ``param_bandwidth``, ``param_alpha``, ``mean_test_score`` (negative mean squared leave-one-out error) and
        ``rank_test_score`` of each pair of candidates, if there are several.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    KernelRidgeCV : Kernel, metric, bandwidth and ridge are chosen from the data.
    KernelRidgeClassifier : Classification, with a bandwidth for each class.

    Notes
    -----
    The prediction is a mixture of two regressions. The first uses the compressed matrix of all points. The second
    consists of one regression for each cluster, fitted to the points in the cluster and beyond its border, and resolves
    shorter distances. The shares minimize the squared leave-one-out error. The second regression is omitted if ``tol``
    is given, and if the variance that the compression loses is small against the ridge.

    With ``tol``, predictions differ from those of the exact regression by about ``tol`` times the Frobenius norm of
    the kernel matrix divided by ``alpha``. Smooth kernels with small ridges therefore need a small ``tol``.

    At new points, the functions of the nearest clusters are blended with continuous weights. Far from all training
    points, predictions behave as the kernel does: they tend to zero (or to the mean, with ``fit_intercept``) if the
    kernel decays. Leave-one-out errors are exact for the given bases, inner matrix, local columns and shares, which are
    not recomputed without the point.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin: Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models. Science 383 (2024), 1461-1467.
    D. Beaglehole, D. Holzmüller, A. Radhakrishnan, M. Belkin: xRFM: accurate, scalable, and interpretable feature
    learning models for tabular data. 2025.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(2000, 2))
    >>> y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=2000)
    >>> model = bb.KernelRidge(alpha=[0.01, 0.1, 1.0], bandwidth=[1.0, 2.0], n_clusters=10, rank=30, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.99
    True
    >>> model.bandwidth_, model.alpha_
    (2.0, 0.01)
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        gamma: float | None = None,
        metric: str | None = None,
        fit_intercept: bool = False,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        keep_points: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.metric = metric
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.keep_points = keep_points
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose


def _least_squares(fits: Iterator[Fit], weights: FloatArray | None) -> tuple[Fit, list[Record]]:
    """Regression with the smallest squared leave-one-out error, and a record of each candidate."""
    best, least, exponent, records = None, np.inf, 0, list[Record]()
    for fit in fits:
        if best is None:
            exponent = int(exponents_of(fit.left_out).max())
        error = mean_square(fit.left_out, exponent, weights)
        if best is None or error < least:
            best, least = fit, error
        with np.errstate(over="ignore", under="ignore"):
            records.append(Record(fit.bandwidth, fit.alpha, -float(np.ldexp(error, 2 * exponent))))
    assert best is not None
    return best, records
