"""Gaussian process regression for many points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils import machine
from blockbasis._utils.progress import reporting
from blockbasis._utils.validation import (
    check_choice,
    check_flag,
    check_integer,
    check_lengths,
    check_points,
    check_positive,
    check_ridge,
)
from blockbasis.estimators._base import (
    EXACT_POINTS,
    KernelEstimator,
    all_or_nothing,
    bandwidth_of,
    has_bandwidth,
    make_kernel,
    median_distance,
)
from blockbasis.estimators._continuation import continued, surroundings
from blockbasis.estimators._likelihood import SAMPLE_POINTS, Covariance, Sample, most_likely
from blockbasis.estimators._local_posterior import CLUSTER_POINTS, Conditioned, conditioned
from blockbasis.estimators._posterior import Posterior, compressed_likelihood, with_own_variances
from blockbasis.estimators._stream import by_pieces
from blockbasis.estimators._streamed_process import ChosenPrior, StreamedProcess
from blockbasis.estimators._trend import TRENDS, Trend, column_scales, largest
from blockbasis.operators.storage import storable
from blockbasis.planning.costs import dense_floats
from blockbasis.solvers.ridge_system import RidgeSystem
from blockbasis.streaming.sources import is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.kernels import Kernel

#: Noise at the start of a search, as a share of the variance of the targets.
_START_NOISE = 0.1
#: Squared unit of constant targets.
_NOTHING = 1e-300

#: Dense matrices of the sample that a likelihood and its gradient have at once, and bytes that a thread takes for
#: neighbourhoods and the buffers of OpenBLAS.
_LIKELIHOOD_MATRICES = 9
_THREAD_BYTES = 35 * 10**6


@storable
class GaussianProcessRegressor(StreamedProcess, MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Gaussian process regression for many points, its hyperparameters chosen by the marginal likelihood.

    The covariance is ``signal_variance * k(x, x')`` plus noise. Up to 1,500 points, the process is exact, as in
    scikit-learn. With more points, the points near a new point enter exactly, and all others through inducing points;
    the cost of a prediction does not depend on the number of training points.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Kernel k, of unit variance if it is given by name; see `KernelRidge`. Its white noise is added to ``alpha``.
    bandwidth : float, array-like of shape (n_features,), "auto", "median" or None, default="auto"
        "auto" maximizes the marginal likelihood over the bandwidth, together with all other parameters that are
        "auto". A kernel given by name has one bandwidth for each column. A kernel object keeps its form; its bandwidths
        are optimized, and the scales and noises of sums and products as well. None keeps a kernel object unchanged. For
        other values, see `KernelRidge`.
    signal_variance : float or "auto", default="auto"
        Prior variance of the function. "auto" maximizes the marginal likelihood.
    alpha : float, array-like of shape (n_samples,) or "auto", default="auto"
        Variance of the noise, for all targets or for each point. "auto" maximizes the marginal likelihood over one
        variance for all points. The default of scikit-learn is 1e-10.
    mean : {"constant", "linear"} or None, default="constant"
        Mean function, which is fitted by least squares and then kept fixed. None is zero, as in scikit-learn.
    normalize_y : bool, default=False
        Whether to scale the targets to mean 0 and variance 1. ``signal_variance`` and ``alpha`` refer to the scaled
        targets then, as in scikit-learn.
    n_restarts_optimizer : int, default=0
        Number of additional searches for the largest likelihood, from random starts.
    tol, memory, rank
        Accuracy or size of a compressed kernel matrix, as in `blockbasis.factorize`. With one of them, the prior is
        that of the compressed matrix, unless this needs more than half of the floats of the dense matrix.
    n_clusters : int, default=None
        Of the factorization, or neighbourhoods without one; None is one for 500 points.
    random_state : int, RandomState or None, default=None
        Seed.
    n_jobs : int, default=None
        Number of threads. None uses one for each core.
    verbose : int, default=0
        If above 0, show progress.

    Attributes
    ----------
    kernel_ : Kernel
        Kernel with the chosen hyperparameters.
    bandwidth_ : float, ndarray of shape (n_features,) or None
        Bandwidth of the kernel.
    signal_variance_ : float
        Chosen prior variance.
    noise_variance_ : float or ndarray of shape (n_samples,)
        Variance of the noise: ``alpha`` plus the white noise of the kernel times ``signal_variance_``.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood with the chosen hyperparameters, summed over the targets. With ``normalize_y``, it is
        that of the scaled targets. With more than 1,500 points, it is that of the approximate prior.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Dual coefficients under the same prior, as in scikit-learn.
    n_features_in_ : int

    See Also
    --------
    KernelRidge : Regression without variances.

    Notes
    -----
    Hyperparameters maximize the exact likelihood, by L-BFGS with analytic gradients. Up to 1,500 points, all points are
    used. With more points, a random sample of 1,500 is used together with ten patches of 150 neighbouring points. The
    patches contain the information about the noise and about lengths below the distances of the sample.

    With more than 1,500 points, 300 random points are inducing points, through which every prediction depends on all
    data, as in the fully independent training conditional. The points in and around a cluster enter with their exact
    covariance; this is a partially independent conditional with overlapping blocks [1]_. Near the border between
    clusters, means and variances are weighted means of both clusters, and are continuous.

    With ``tol``, ``memory`` or ``rank``, the prior covariance of two points is s u(x)ᵀ C u(x'), and the prior variance
    of a point is s k(x, x), where s is the signal variance.

    References
    ----------
    .. [1] E. Snelson, Z. Ghahramani: Local and global sparse Gaussian process approximations. AISTATS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(150, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
    >>> model = bb.GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> bool(abs(np.sqrt(model.noise_variance_) - 0.1) < 0.02)
    True
    >>> bool(model.bandwidth_[1] > 10 * model.bandwidth_[0])  # the second column does not matter
    True
    >>> mean, std = model.predict([[0.5, 0.0]], return_std=True, include_noise=False)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.05 and std[0] < 0.05)
    True
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        bandwidth: Any = "auto",
        signal_variance: Any = "auto",
        alpha: Any = "auto",
        mean: str | None = "constant",
        normalize_y: bool = False,
        n_restarts_optimizer: int = 0,
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
        self.mean = mean
        self.normalize_y = normalize_y
        self.n_restarts_optimizer = n_restarts_optimizer
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Any:
        """Choose what is "auto" and condition on the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
            Rows on disk are read in pieces: see `KernelRidge.fit`, and the notes of `partial_fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self
        """
        self._forget_stream()
        if is_streamed(X):
            self._partial_fit(X, y)._solve()
            return self
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        # Variances are differences of near numbers: entries of float32 leave them without a digit.
        X = check_points(X, name="X", caller=self._caller, dtype=np.dtype(np.float64))
        searching, conditioning = self._streams(2)
        prior = self._chosen_prior(X, np.asarray(y, dtype=np.float64).reshape(len(y), -1), searching)
        with reporting(self.verbose > 0):
            found = self._conditioned(
                prior.kernel, X, prior.residuals / np.sqrt(prior.signal), prior.noise, conditioning
            )
        self.log_marginal_likelihood_value_ = found.value - 0.5 * y.size * np.log(prior.signal * prior.unit)
        self.alpha_ = (found.dual / np.sqrt(prior.signal * prior.unit)).reshape(y.shape)
        self._posterior = found.posterior
        self._flat = y.ndim == 1
        return self

    def _chosen_prior(self, X: FloatArray, Y: FloatArray, rng: np.random.Generator) -> ChosenPrior:
        """Fit the mean, choose what is "auto", and set the attributes of the prior."""
        needed = _LIKELIHOOD_MATRICES * 8 * min(len(X), SAMPLE_POINTS) ** 2 + self._threads() * _THREAD_BYTES
        machine.require_memory(needed, "fewer points, or a compressed KernelRidge", what="process")
        Y, unit = self._residuals(X, Y)
        given = 0.0 if self._is_auto(self.alpha) else self._noise(len(X)) / unit
        start = self._start(X, unit, rng)
        restarts = check_integer(self.n_restarts_optimizer, name="n_restarts_optimizer", caller=self._caller, low=0)
        chosen = most_likely(start, Sample(X, Y, np.broadcast_to(given, len(X))), restarts, rng) if Y.any() else start
        signal = chosen.signal_variance
        noise = (given + chosen.noise) / signal + chosen.kernel.noise
        self.kernel_ = chosen.kernel
        self.bandwidth_ = bandwidth_of(chosen.kernel)
        self.signal_variance_ = signal * unit
        self.noise_variance_ = noise * self.signal_variance_
        self._scale = np.sqrt(signal * unit) * self._y_scale
        return ChosenPrior(chosen.kernel, signal, noise, unit, Y)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Predict the mean at new points, and its standard deviation or covariance on request.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std, return_cov : bool, default=False
            Whether to return standard deviations or the covariance matrix; at most one of them.
        include_noise : bool, default=True
            Whether deviations and covariances are those of new targets, with their noise, or of the function. If
            ``alpha`` is an array, the noise of new targets is its mean.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        std : ndarray of the same shape
            Only with ``return_std``.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with ``return_cov``.
        """
        check_is_fitted(self)
        if return_cov and is_streamed(X):
            raise ValueError(
                f"The 'return_cov' parameter of {self._caller}.predict must be False for rows that are read in pieces. "
                "Got True instead."
            )
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std and return_cov can be asked for.")
        noisy = check_flag(include_noise, name="include_noise", caller=f"{self._caller}.predict")
        return self._predicted(X, return_std, return_cov, noisy)

    @by_pieces
    def _predicted(self, X: Any, return_std: bool, return_cov: bool, noisy: bool) -> Any:
        X = self._check_X(X, reset=False).astype(np.float64, copy=False)
        mean = self._trend(X) + self._posterior.mean(X, self._threads()) * self._scale
        mean = mean[:, 0] if self._flat else mean
        noise = float(np.mean(self.noise_variance_)) / self.signal_variance_ if noisy else 0.0
        if return_std:
            return mean, self._spread(np.sqrt(self._posterior.variance(X, self._threads()) + noise), 1)
        if return_cov:
            return mean, self._spread(self._posterior.covariance(X) + noise * np.eye(len(X)), 2)
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draw functions from the posterior and evaluate them at new points, without noise.

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
        mean, cov = self.predict(X, return_cov=True, include_noise=False)
        if self._flat:
            return _draws(mean, cov, count, rng)
        return np.stack([_draws(mean[:, j], cov[..., j], count, rng) for j in range(mean.shape[1])], axis=1)

    # --- hyperparameters ---------------------------------------------------------------------------------------------

    def _start(self, X: FloatArray, unit: float, rng: np.random.Generator) -> Covariance:
        """Start of the search, for targets divided by the square root of ``unit``."""
        free_signal, free_noise = self._is_auto(self.signal_variance), self._is_auto(self.alpha)
        signal = 1.0
        if not free_signal:
            signal = check_positive(self.signal_variance, name="signal_variance", caller=self._caller) / unit
        free_kernel = self._is_auto(self.bandwidth)
        kernel = self._start_kernel(X, rng) if free_kernel else self._given_kernel(X, rng)
        return Covariance(kernel, signal, _START_NOISE if free_noise else 0.0, free_kernel, free_signal)

    def _start_kernel(self, X: FloatArray, rng: np.random.Generator) -> Kernel:
        """Kernel at the start of the search."""
        made = make_kernel(self.kernel, None, caller=self._caller)
        if isinstance(self.kernel, str):
            return make_kernel(self.kernel, np.sqrt(X.shape[1]) * column_scales(X)[1], caller=self._caller)
        if has_bandwidth(made):
            return make_kernel(self.kernel, median_distance(made.coordinates(X), rng), caller=self._caller)
        return made

    def _given_kernel(self, X: FloatArray, rng: np.random.Generator) -> Kernel:
        if np.ndim(self.bandwidth) == 1:
            return make_kernel(
                self.kernel, check_lengths(self.bandwidth, name="bandwidth", caller=self._caller), caller=self._caller
            )
        return self._kernel(self._bandwidth(X, rng))

    @staticmethod
    def _is_auto(value: Any) -> bool:
        return isinstance(value, str) and value == "auto"

    def _noise(self, n: int) -> float | FloatArray:
        return check_ridge(self.alpha, n, name="alpha", caller=self._caller)

    # --- the process given data --------------------------------------------------------------------------------------

    def _conditioned(
        self, kernel: Kernel, X: FloatArray, Y: FloatArray, noise: float | FloatArray, rng: np.random.Generator
    ) -> Conditioned:
        """Condition on targets that are divided by the standard deviation of the signal."""
        goals = (self.tol, self.memory, self.rank)
        if all(goal is None for goal in goals) and len(X) > SAMPLE_POINTS:
            clusters = self._default_clusters(len(X))
            if self.n_clusters is not None:
                clusters = check_integer(self.n_clusters, name="n_clusters", caller=self._caller, low=1)
            every = np.broadcast_to(noise, len(X))
            return conditioned(kernel, X, Y, every, min(clusters, len(X)), rng, self._threads())
        factoring, continuing = rng.spawn(2)
        try:
            A = with_own_variances(self._factorize(X, kernel, factoring), X)
            system = RidgeSystem(A, noise - kernel.noise)
            dual = system.solve(Y)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The covariance of the targets is not positive definite. Give a larger 'alpha' to {self._caller}, "
                f'or "auto". ({error})'
            ) from error
        around = surroundings(A, X, continuing, self._threads())
        mean = continued(A, X, dual, around, self._threads())
        return Conditioned(Posterior.given(system, mean), compressed_likelihood(system, Y), dual)

    def _default_goal(self, n: int) -> dict[str, Any]:
        return {"memory": dense_floats(max(n, EXACT_POINTS))}

    def _default_clusters(self, n: int) -> int:
        return max(n // CLUSTER_POINTS, 1)

    # --- targets -----------------------------------------------------------------------------------------------------

    def _residuals(self, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, float]:
        """Targets minus their mean, divided by a unit so that their mean square is 1, and the square of the unit."""
        kind = None if self.mean is None else check_choice(self.mean, TRENDS, name="mean", caller=self._caller)
        normalize = check_flag(self.normalize_y, name="normalize_y", caller=self._caller)
        self._trend = Trend.fitted(kind or ("constant" if normalize else None), X, Y)
        left, size = Y - self._trend(X), np.abs(Y).max(axis=0)
        left[:, np.abs(left).max(axis=0) <= 10 * np.finfo(np.float64).eps * size] = 0  # rounding errors of the mean
        self._y_scale = np.ones(Y.shape[1])
        if normalize:
            deviations = largest(Y) * (Y / largest(Y)).std(axis=0)
            self._y_scale = np.where(left.any(axis=0), deviations, 1.0)
        left = left / self._y_scale
        if not left.any():
            both = self._is_auto(self.signal_variance) and self._is_auto(self.alpha)
            return left, _NOTHING if both else 1.0
        unit = largest(left)
        unit *= float(np.sqrt(np.mean((left / unit) ** 2)))
        with np.errstate(over="ignore", under="ignore"):
            square = np.square(unit)
        if not np.finfo(np.float64).tiny <= square < np.inf:
            raise ValueError(
                f"The 'y' parameter of {self._caller} must have a variance that float64 can hold. Got targets of a "
                f"standard deviation of {unit:.3g} instead. normalize_y=True takes them."
            )
        return left / unit, float(square)

    def _spread(self, values: FloatArray, power: int) -> FloatArray:
        """Standard deviations (power 1) or covariances (power 2) of each target."""
        scales = self._scale**power
        return np.asarray(values * scales[0] if self._flat else values[..., np.newaxis] * scales)


def _draws(mean: FloatArray, cov: FloatArray, count: int, rng: np.random.RandomState) -> FloatArray:
    return np.asarray(rng.multivariate_normal(mean, cov, count, check_valid="ignore").T)
