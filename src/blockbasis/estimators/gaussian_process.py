"""Gaussian process regression with a compressed covariance."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from blockbasis._typing import FloatArray
from blockbasis._validation import check_flag, check_integer, check_positive, check_ridge
from blockbasis.estimators.base import KernelEstimator, bandwidth_of, has_bandwidth, make_kernel, median_distance
from blockbasis.estimators.continuation import continued, surroundings
from blockbasis.estimators.expansion import Expansion
from blockbasis.estimators.likelihood import Evidence, climb, most_likely, with_own_variances
from blockbasis.estimators.posterior import Posterior
from blockbasis.exceptions import PerformanceWarning
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.storage import storable
from blockbasis.progress import reporting

#: bandwidth="auto" looks at these multiples of the median distance first, and then settles the logarithm so finely.
_MULTIPLES = np.array([1 / 16, 1 / 4, 1.0, 4.0, 16.0])
_SETTLED = 0.02


@storable
class GaussianProcessRegressor(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Gaussian process regression for many points, its parameters chosen by the marginal likelihood.

    scikit-learn's estimator of the same name for the covariance ``signal_variance * k(x, x')`` plus noise, with the
    kernel matrix compressed. Its memory is that of the factorization, and a prediction costs the same however many
    points it was fitted on.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        k, of unit variance where it has a name; see `KernelRidge`. Its white noise is noise beside ``alpha``.
    bandwidth : float, "auto", "median" or None, default="auto"
        "auto": the bandwidth of largest marginal likelihood between 1/16 and 16 times the median distance of the
        points, found by some dozen factorizations; a kernel object with one length for each column, and a sum or
        product, keep theirs. Others as in `KernelRidge`.
    signal_variance : float or "auto", default="auto"
        Prior variance of the function. "auto" maximizes the marginal likelihood.
    alpha : float, array-like of shape (n_samples,) or "auto", default="auto"
        Variance of the noise, of all targets or of each point. "auto" maximizes the marginal likelihood, for a noise
        that is the same everywhere. scikit-learn's own default is 1e-10.
    normalize_y : bool, default=False
        Whether targets are scaled to mean 0 and variance 1; ``signal_variance`` and ``alpha`` are then those of the
        scaled targets, as in scikit-learn.
    tol, memory, n_clusters, rank
        As in `blockbasis.factorize`. With none of ``tol``, ``memory`` and ``rank``: up to 1,000 points are kept
        exactly, more in 100 floats for each point. To choose a bandwidth, give a budget and not a tolerance: the
        same ``tol`` leaves smooth kernels fewer directions, which speaks against them.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads; None is one for each core.
    verbose : int, default=0
        Above 0 shows progress.

    Attributes
    ----------
    kernel_ : Kernel
        With the bandwidth chosen.
    bandwidth_ : float, ndarray of shape (n_features,) or None
    signal_variance_ : float
    noise_variance_ : float or ndarray of shape (n_samples,)
        All noise of the targets: ``alpha``, and that of the kernel times ``signal_variance_``.
    log_marginal_likelihood_value_ : float
        Of the targets (scaled, if asked for) under the parameters chosen; summed over several targets.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Dual coefficients, as in scikit-learn.
    n_features_in_ : int

    See Also
    --------
    KernelRidge : The mean alone.

    Notes
    -----
    The prior is that of the fully independent training conditional: s u(x)ᵀ C u(x') for two points, s k(x, x) for one.
    What the compression does not hold of a point's variance is thus kept, as independent of all else; far from the
    data, where u(x) vanishes, the standard deviation returns to that of the prior. Covariances between new points
    start from their exact kernel. Where the kernel of the factorization would give a new point more variance than it
    has, the point's coordinates are shortened to it.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(150, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
    >>> model = bb.GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> bool(abs(np.sqrt(model.noise_variance_) - 0.1) < 0.02)
    True
    >>> mean, std = model.predict([[0.5], [50.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.05)
    True
    >>> bool(np.isclose(std[1] ** 2, model.signal_variance_))
    True
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        bandwidth: Any = "auto",
        signal_variance: Any = "auto",
        alpha: Any = "auto",
        normalize_y: bool = False,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.signal_variance = signal_variance
        self.alpha = alpha
        self.normalize_y = normalize_y
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> GaussianProcessRegressor:
        """Choose what is "auto" and condition on the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=[np.float64, np.float32], order="C")
        signal = None if self._is_auto(self.signal_variance) else self._positive("signal_variance")
        noise = None if self._is_auto(self.alpha) else self._noise(X.shape[0])
        Y = self._scaled(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
        evidence = self._evidence(X, Y, signal, noise)
        dual = evidence.system.solve(Y)

        kernel = evidence.system.A.kernel
        assert kernel is not None
        self.kernel_ = kernel
        self.bandwidth_ = bandwidth_of(self.kernel_)
        self.signal_variance_ = evidence.signal_variance
        self.noise_variance_ = evidence.noise_variance + evidence.signal_variance * kernel.noise
        self.log_marginal_likelihood_value_ = evidence.value
        self.alpha_ = (dual / evidence.signal_variance).reshape(y.shape)
        self._posterior = Posterior.given(evidence.system, self._mean(evidence.system.A, X, dual))
        self._flat = y.ndim == 1
        return self

    def _mean(self, A: BlockBasis, X: FloatArray, dual: FloatArray) -> Expansion:
        """The mean at the points, continued to new points."""
        (rng,) = self._streams(1)
        with reporting(self.verbose > 0):
            around = surroundings(A, X, rng, self._threads())
            return continued(A, X, dual, around, self._threads())

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of the function at new points, with its standard deviation or covariance where asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std, return_cov : bool, default=False
            At most one. Both are of the function, without noise.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        std : ndarray of the same shape
            With ``return_std``.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            With ``return_cov``.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std and return_cov can be asked for.")
        X = self._check_X(X, reset=False)
        mean = self._unscaled(self._posterior.mean(X, self._threads()))
        if return_std:
            deviations = np.sqrt(self._posterior.variance(X, self._threads()))
            return mean, self._spread(deviations, 1)
        return (mean, self._spread(self._posterior.covariance(X), 2)) if return_cov else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Functions drawn from the posterior, at new points.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
        random_state : int, RandomState or None, default=0

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_targets, n_samples)
        """
        count = check_integer(n_samples, name="n_samples", caller=f"{self._caller}.sample_y", low=1)
        rng = check_random_state(random_state)
        mean, cov = self.predict(X, return_cov=True)
        if self._flat:
            return _draws(mean, cov, count, rng)
        return np.stack([_draws(mean[:, j], cov[..., j], count, rng) for j in range(mean.shape[1])], axis=1)

    # --- fitting -----------------------------------------------------------------------------------------------------

    def _evidence(
        self, X: FloatArray, Y: FloatArray, signal: float | None, noise: float | FloatArray | None
    ) -> Evidence:
        streams = self._streams(2)
        seed = int(streams[1].integers(2**31))  # the same for each bandwidth: their difference is not by chance

        def of_bandwidth(bandwidth: float | None) -> Evidence:
            A = self._factorize(X, self._kernel(bandwidth), np.random.default_rng(seed))
            return most_likely(with_own_variances(A, X), Y, signal, noise)

        try:
            if not self._is_auto(self.bandwidth):
                return of_bandwidth(self._bandwidth(X, streams[0]))
            made = make_kernel(self.kernel, None, caller=self._caller)
            if not has_bandwidth(made):
                return of_bandwidth(None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PerformanceWarning)  # of bandwidths that nobody asked for
                places = np.log(median_distance(made.coordinates(X), streams[0]) * _MULTIPLES)
                return climb(lambda x: of_bandwidth(math.exp(x)), places, _SETTLED)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The covariance of the targets is not positive definite. Give a larger 'alpha' to {self._caller}, "
                f'or "auto". ({error})'
            ) from error

    @staticmethod
    def _is_auto(value: Any) -> bool:
        return isinstance(value, str) and value == "auto"

    def _positive(self, name: str) -> float:
        return check_positive(getattr(self, name), name=name, caller=self._caller)

    def _noise(self, n: int) -> float | FloatArray:
        return check_ridge(self.alpha, n, name="alpha", caller=self._caller)

    # --- targets -----------------------------------------------------------------------------------------------------

    def _scaled(self, Y: FloatArray) -> FloatArray:
        self._y_mean, self._y_scale = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if check_flag(self.normalize_y, name="normalize_y", caller=self._caller):
            self._y_mean, deviations = Y.mean(axis=0), Y.std(axis=0)
            constant = deviations <= 10 * np.finfo(np.float64).eps * np.abs(self._y_mean)
            self._y_scale = np.where(constant, 1.0, deviations)
        return (Y - self._y_mean) / self._y_scale

    def _unscaled(self, mean: FloatArray) -> FloatArray:
        mean = mean * self._y_scale + self._y_mean
        return mean[:, 0] if self._flat else mean

    def _spread(self, values: FloatArray, power: int) -> FloatArray:
        """Deviations (power 1) or covariances (power 2) of every target."""
        scales = math.sqrt(self.signal_variance_) ** power * self._y_scale**power
        return values * scales[0] if self._flat else values[..., np.newaxis] * scales


def _draws(mean: FloatArray, cov: FloatArray, count: int, rng: np.random.RandomState) -> FloatArray:
    return np.asarray(rng.multivariate_normal(mean, cov, count, check_valid="ignore").T)
