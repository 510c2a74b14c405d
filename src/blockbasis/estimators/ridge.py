"""Kernel ridge regression on compressed kernel matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from blockbasis._typing import FloatArray, IntArray
from blockbasis._validation import check_choice, check_flag, check_positive
from blockbasis.estimators.base import (
    KernelEstimator,
    bandwidth_of,
    candidate_bandwidths,
    has_bandwidth,
    make_kernel,
)
from blockbasis.estimators.continuation import (
    POINTS_PER_RANK,
    Surroundings,
    continued,
    mean_left_out,
    surroundings,
)
from blockbasis.estimators.expansion import Expansion
from blockbasis.estimators.local import (
    LOCAL_POINTS_PER_RANK,
    LocalWeights,
    best_shares,
    mixed,
    regressed_locally,
)
from blockbasis.estimators.search import METRICS, Candidate, Found, Task, column_scale, importances, search
from blockbasis.kernels import Gaussian, RadialKernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.storage import storable
from blockbasis.progress import reporting
from blockbasis.solvers.direct import RidgeSystem

#: Variance left out by a compression that is not worth a local regression, as a share of the ridge.
_NEGLIGIBLE = 1e-2


@dataclass(frozen=True, eq=False)
class Fit:
    """One ridge regression, and how well it predicts each point from all the others.

    Parameters
    ----------
    A : BlockBasis
    bandwidth : float or None
    alpha : ndarray of shape (n_targets,)
    coefficients : ndarray of shape (n, n_targets)
        Of the compressed matrix.
    left_out : ndarray of shape (n, n_targets) or None
        y_i less the prediction of the same mixture without point i; None where nobody asks.
    around : tuple of Surroundings
        Of A; empty where it is not compressed.
    local : tuple of ndarray of shape (m_i, n_targets), or None
        Local regressions that are mixed into the compressed one: weights of the columns of each cluster.
    shares : ndarray of shape (n_targets,)
        How much of them.
    """

    A: BlockBasis
    bandwidth: float | None
    alpha: FloatArray
    coefficients: FloatArray
    left_out: FloatArray | None
    around: tuple[Surroundings, ...]
    local: LocalWeights | None
    shares: FloatArray


@dataclass(frozen=True, eq=False)
class Choices:
    """What the regressions of all points are to choose among.

    Parameters
    ----------
    kernel : str, Kernel or callable
    bandwidths : list of float or None
    alphas : list of ndarray of shape (n_targets,)
    found : Found or None
        The search that the kernel comes from.
    rows : ndarray of int or None
        Of the points, those that there is time for; None is all.
    """

    kernel: Any
    bandwidths: list[float | None]
    alphas: list[FloatArray]
    found: Found | None = None
    rows: IntArray | None = None


@dataclass(frozen=True)
class Record:
    """One pair of candidates and its leave-one-out score: the larger, the better."""

    bandwidth: float | None
    alpha: FloatArray
    score: float


def cv_results(records: list[Record]) -> dict[str, Any]:
    """Records as scikit-learn's searches show them."""
    scores = np.array([record.score for record in records])
    return {
        "param_bandwidth": np.array([np.nan if r.bandwidth is None else r.bandwidth for r in records]),
        "param_alpha": np.array([r.alpha[0] if (r.alpha == r.alpha[0]).all() else np.nan for r in records]),
        "mean_test_score": scores,
        "rank_test_score": np.array([1 + np.count_nonzero(scores > score) for score in scores]),
    }


def check_alphas(alpha: Any, n_targets: int, *, caller: str) -> list[FloatArray]:
    """Candidates, each with one ridge per target: a list has candidates, an array one ridge per target."""
    if isinstance(alpha, (list, tuple)):
        if len(alpha) == 0:
            raise ValueError(
                f"The 'alpha' parameter of {caller} must be a list of at least one. Got {alpha!r} instead."
            )
        return [np.full(n_targets, check_positive(each, name="alpha", caller=caller)) for each in alpha]
    if isinstance(alpha, np.ndarray) and alpha.ndim:
        if alpha.shape != (n_targets,):
            raise ValueError(
                f"The 'alpha' parameter of {caller} must be an array of shape ({n_targets},), one ridge for each "
                f"target, or a list of candidates. Got an array of shape {alpha.shape} instead."
            )
        return [np.array([check_positive(each, name="alpha", caller=caller) for each in alpha.tolist()])]
    value = alpha.item() if isinstance(alpha, np.ndarray) else alpha
    return [np.full(n_targets, check_positive(value, name="alpha", caller=caller))]


class RidgePath:
    """Ridge regressions of the same matrix and targets, for one ridge after another.

    Without weights all of them share one eigendecomposition; the first needs a Cholesky factorization only.

    Parameters
    ----------
    A : BlockBasis
        Without diagonal part.
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
        Positive. A weight divides the ridge of its point: (A + diag(alpha / weights)) coefficients = Y.
    """

    def __init__(self, A: BlockBasis, Y: FloatArray, weights: FloatArray | None) -> None:
        self.A, self.Y, self.weights = A, Y, weights
        self._last: tuple[float, RidgeSystem] | None = None

    def _system(self, alpha: float) -> RidgeSystem:
        if self._last is None or self._last[0] != alpha:
            ridge = alpha if self.weights is None else alpha / self.weights
            system = RidgeSystem(self.A, ridge) if self._last is None else self._last[1].with_ridge(ridge)
            self._last = alpha, system
        return self._last[1]

    def solve(self, alpha: FloatArray, *, leave_one_out: bool) -> tuple[FloatArray, FloatArray | None]:
        """Coefficients for one ridge per target; and the residuals of each point predicted from all the others.

        With a = (A + ridge)^-1 y the residual of point i is a_i over the i-th diagonal entry of the inverse: exactly
        that of n regressions with the same bases and inner matrix.
        """
        coefficients = np.empty_like(self.Y)
        left_out = np.empty_like(self.Y) if leave_one_out else None
        for value in np.unique(alpha):
            targets, system = np.flatnonzero(alpha == value), self._system(float(value))
            coefficients[:, targets] = system.solve(self.Y[:, targets])
            if left_out is not None:
                left_out[:, targets] = coefficients[:, targets] / system.inverse_diagonal()[:, np.newaxis]
        return coefficients, left_out


class KernelRidgeEstimator(KernelEstimator):
    """What regression and classification share: weights, candidates, and the regressions of all of them."""

    alpha: Any
    gamma: float | None
    metric: str | None
    keep_points: bool
    metric_: FloatArray
    feature_importances_: FloatArray

    def _check_weights(self, sample_weight: Any, X: FloatArray) -> FloatArray | None:
        if sample_weight is None:
            return None
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        if not (weights > 0).any():
            raise ValueError(
                f"The 'sample_weight' parameter of {self._caller}.fit must be positive for at least one point. "
                "Got zeros only instead."
            )
        return weights

    @property
    def _takes_default_clusters(self) -> bool:
        """In a budget: the number of least error is long to find, and is no better at new points."""
        return self.tol is None

    def _candidates(self) -> Any:
        """What bandwidths to look at."""
        return self.bandwidth

    def _bandwidths(self) -> Any:
        """What bandwidths to look at, ``gamma`` among them."""
        given = self._candidates()
        if self.gamma is None:
            return given
        if given is not None or self.kernel not in ("gaussian", "rbf"):
            raise ValueError(
                f"The 'gamma' parameter of {self._caller} goes with kernel='rbf' and without a bandwidth. "
                f"Got it with kernel={self.kernel!r}, bandwidth={given!r}."
            )
        return Gaussian.from_gamma(check_positive(self.gamma, name="gamma", caller=self._caller)).bandwidth

    def _choices(self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator) -> Choices:
        """Bandwidths and ridges to look at, of the kernel given or of that with a learnt metric."""
        alphas = check_alphas(self.alpha, Y.shape[1], caller=self._caller)
        kernel, given, found = self.kernel, self._bandwidths(), None
        if self.metric is not None:
            check_choice(self.metric, (*METRICS[1:], "auto"), name="metric", caller=self._caller)
            found = self._learn_metric(X, Y, weights, rng)
            kernel = found.kernel
        return Choices(kernel, candidate_bandwidths(given, kernel, X, rng, caller=self._caller), alphas, found)

    def _learn_metric(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator
    ) -> Found:
        """The best metric of the kinds asked for, with a bandwidth that goes with it."""
        family = make_kernel(self.kernel, None, caller=self._caller)
        if not (isinstance(family, RadialKernel) and has_bandwidth(family)):
            raise ValueError(
                f"The 'metric' parameter of {self._caller} goes with a radial kernel of one bandwidth. "
                f"Got it with {family!r}."
            )
        kinds = METRICS if self.metric in (None, "auto") else (self.metric,)
        task = Task(X, in_units(Y, weights), weights, (column_scale(X, weights),))
        with reporting(self.verbose > 0):
            return search(task, [Candidate(family, kind) for kind in kinds], rng)

    def _keep_metric(self, found: Found | None, X: FloatArray) -> None:
        """Attributes of a learnt metric."""
        self._forget("metric_", "feature_importances_")
        if found is not None:
            self.metric_ = np.diag(found.metric) if found.metric.ndim == 1 else found.metric
            self.feature_importances_ = importances(found.metric, X)

    def _fits(
        self,
        choices: Choices,
        X: FloatArray,
        Y: FloatArray,
        weights: FloatArray | None,
        streams: Sequence[np.random.Generator],
    ) -> Iterator[Fit]:
        """The regressions of every bandwidth and ridge to choose among, one matrix after the other."""
        (of_matrices, of_places), alphas, bandwidths = streams, choices.alphas, choices.bandwidths
        choosing = len(alphas) * len(bandwidths) > 1
        partition = None
        for bandwidth, rng in zip(bandwidths, of_matrices.spawn(len(bandwidths)), strict=True):
            kernel = make_kernel(choices.kernel, bandwidth, caller=self._caller)
            A = self._factorize(X, kernel, rng, partition)
            ridges = [alpha + kernel.noise for alpha in alphas]
            if A.n_clusters > 1 and (self.n_clusters is not None or self._takes_default_clusters):
                partition = A.partition  # clusters do not depend on the bandwidth, unless their number does
            mixing = self._mixing(A, X, ridges)
            around = self._surroundings(A, X, any(mixing), of_places)
            local = self._local(A, X, Y, list(compress(ridges, mixing)), weights, around)
            path = RidgePath(A, Y, weights)
            for alpha, ridge, mixed_in in zip(alphas, ridges, mixing, strict=True):
                coefficients, left_out = path.solve(ridge, leave_one_out=choosing or mixed_in)
                near, shares = None, np.zeros(Y.shape[1])
                if mixed_in and left_out is not None:
                    near, missed = next(local)
                    shares = best_shares(left_out, missed, weights)
                    left_out += shares * (missed - left_out)
                yield Fit(A, bandwidth, alpha, coefficients, left_out, around, near, shares)

    def _mixing(self, A: BlockBasis, X: FloatArray, alphas: list[FloatArray]) -> list[bool]:
        """For which ridges local regressions have anything to add.

        A tolerance asks for the regression of the kernel matrix itself, and its compression is that where it leaves
        out next to nothing beside the ridge.
        """
        if self.tol is not None or A.ranks.sum() == A.shape[0]:
            return [False] * len(alphas)
        left_out = mean_left_out(A, X)
        return [bool(left_out > _NEGLIGIBLE * alpha.min()) for alpha in alphas]

    def _surroundings(
        self, A: BlockBasis, X: FloatArray, mixing: bool, rng: np.random.Generator
    ) -> tuple[Surroundings, ...]:
        with reporting(self.verbose > 0):
            return surroundings(A, X, rng, self._threads(), LOCAL_POINTS_PER_RANK if mixing else POINTS_PER_RANK)

    def _local(
        self,
        A: BlockBasis,
        X: FloatArray,
        Y: FloatArray,
        alphas: list[FloatArray],
        weights: FloatArray | None,
        around: tuple[Surroundings, ...],
    ) -> Iterator[tuple[LocalWeights, FloatArray]]:
        """Local regressions for each ridge, and their leave-one-out residuals."""
        if not alphas:
            return iter(())
        with reporting(self.verbose > 0):
            return zip(*regressed_locally(A, X, Y, alphas, weights, around, self._threads()), strict=True)

    def _learnt(self, columns: Sequence[tuple[Fit, int]], X: FloatArray) -> Expansion:
        """Functions for new points: of each regression, all on the same matrix, the target named with it."""
        A, around = columns[0][0].A, columns[0][0].around
        coefficients = np.stack([fit.coefficients[:, c] for fit, c in columns], axis=1)
        with reporting(self.verbose > 0):
            continuation = continued(A, X, coefficients, around, self._threads())
        shares = np.array([fit.shares[c] for fit, c in columns])
        if not shares.any():
            return continuation
        weights = [
            np.stack([_column(fit.local, i, c, len(place.points)) for fit, c in columns], axis=1)
            for i, place in enumerate(around)
        ]
        return mixed(continuation, around, weights, shares)

    def _forget(self, *names: str) -> None:
        """Remove what an earlier fit has left and this one may not set."""
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _predict(self, X: FloatArray, expansion: Expansion) -> FloatArray:
        with reporting(self.verbose > 0):
            return expansion(X, self._threads())


class RidgeRegressor(MultiOutputMixin, RegressorMixin, KernelRidgeEstimator):
    """What `KernelRidge` and its search share: fit and prediction, once there is something to choose among."""

    fit_intercept: bool
    dual_coef_: FloatArray
    expansion_: Expansion

    @property
    def _one_for_each_target(self) -> bool:
        """Whether the ridge is an array, as it was given."""
        return isinstance(self.alpha, np.ndarray) and self.alpha.ndim > 0

    def _keep_results(self, choices: Choices, records: list[Record]) -> None:
        if len(records) > 1:
            self.cv_results_ = cv_results(records)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from points and their targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            float32 points are worked on in float32.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            How many times each point counts; zero leaves it out.

        Returns
        -------
        self
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        weights = self._check_weights(sample_weight, X)
        keep = check_flag(self.keep_points, name="keep_points", caller=self._caller)
        centred = check_flag(self.fit_intercept, name="fit_intercept", caller=self._caller)
        Y = y.reshape(len(y), -1).astype(np.float64)
        used: Any = slice(None) if weights is None else weights > 0
        weights = None if weights is None else weights[used]
        intercept = np.average(Y[used], axis=0, weights=weights) if centred else np.zeros(Y.shape[1])
        of_choices, *streams = self._streams(3)
        choices = self._choices(X[used], Y[used] - intercept, weights, of_choices)
        if choices.rows is not None:
            used = np.arange(len(X))[used][choices.rows]
            weights = None if weights is None else weights[choices.rows]
        best, records = _least_squares(self._fits(choices, X[used], Y[used] - intercept, weights, streams), weights)
        self.expansion_ = self._learnt([(best, target) for target in range(Y.shape[1])], X[used])
        self.local_share_ = best.shares
        self.intercept_ = intercept
        self.bandwidth_ = bandwidth_of(best.A.kernel)
        self.alpha_ = best.alpha.copy() if self._one_for_each_target else float(best.alpha[0])
        self._n_dimensions = y.ndim
        self._forget("cv_results_", "X_fit_", "dual_coef_", "factorization_")
        self._keep_metric(choices.found, X[used])
        self._keep_results(choices, records)
        if keep:
            self.X_fit_, self.factorization_ = X, best.A
            self.dual_coef_ = np.zeros_like(Y)
            self.dual_coef_[used] = best.coefficients
            self.dual_coef_ = self.dual_coef_.reshape(y.shape)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Values at new points, in bounded memory however many they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        values = self._predict(self._check_X(X, reset=False), self.expansion_) + self.intercept_
        return values if self._n_dimensions == 2 else values[:, 0]

    def gradient(self, X: Any) -> FloatArray:
        """Gradients of the prediction at new points, in the units of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_targets)
            In float64: of the function of the cluster that a point falls into.

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
        slopes = self.expansion_.gradient(self._check_X(X, reset=False), self._threads())
        return slopes if self._n_dimensions == 2 else slopes[..., 0]


@storable
class KernelRidge(RidgeRegressor):
    """Kernel ridge regression on a compressed kernel matrix.

    scikit-learn's ``KernelRidge`` with time and memory linear in the number of points, and prediction at a cost that
    does not depend on it.

    Parameters
    ----------
    alpha : float, ndarray of shape (n_targets,), or list of float, default=1.0
        Ridge, above 0. An array has one for each target, as in scikit-learn. A list or tuple has candidates: the one
        with the least squared leave-one-out error, over all targets, is taken.
    kernel : {"gaussian", "rbf", "laplacian", "matern", "cauchy", "inverse_multiquadric", "rational_quadratic"}, \
Kernel or callable, default="gaussian"
        A name, a kernel such as ``blockbasis.Matern(1.0, nu=2.5)``, one of scikit-learn's, or a function
        k(X, Y) -> array. The white noise of a kernel is added to ``alpha``.
    bandwidth : float, {"median", "auto"}, list of float or None, default=None
        None: that of the kernel object, or the square root of the number of columns for a kernel given by name, which
        is scikit-learn's default ``gamma``. "median": the median distance of two points. A list: candidates, chosen
        like ``alpha`` and together with it; "auto": 1/16 to 2 times the median distance.
    gamma : float, default=None
        scikit-learn's parameter of the "rbf" kernel, exp(-gamma |x - y|^2), in place of ``bandwidth``.
    metric : {"diagonal", "full", "auto"} or None, default=None
        Distances |L (x - y)| learnt from the data: rounds of a regression of at most 2,000 points and the mean outer
        product of its gradients, as long as the leave-one-out error falls. "diagonal" learns a weight for each column;
        "auto" takes no metric, a diagonal or a full one, by leave-one-out. The columns are first scaled to standard
        deviation 1. With ``bandwidth=None`` the bandwidth is that of the least error; one that is given is for mapped
        points L x, whose total variance is that of standardised columns.
    fit_intercept : bool, default=False
        Whether to learn the targets around their mean, to which predictions return far from all training points.
    tol, memory, n_clusters, rank : default=None
        How the kernel matrix is compressed, as in `blockbasis.factorize`, without a diagonal part. With none of
        ``tol``, ``memory`` and ``rank``: up to 1,000 points exactly, more in 100 floats for each point. Without
        ``n_clusters`` and ``tol`` there are sqrt(n_samples) / 4 clusters.
    keep_points : bool, default=True
        Whether to keep what is as long as the points: ``X_fit_``, ``dual_coef_`` and ``factorization_``. Prediction
        needs none of it, but some points of each cluster: about ten for each unit of its rank.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads; None is one for each core.
    verbose : int, default=0
        Above 0 shows progress.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Coefficients of the compressed regression, zero for points of weight zero.
    X_fit_ : ndarray of shape (n_samples, n_features)
    factorization_ : BlockBasis
        Of the points with positive weight.
    expansion_ : Expansion
        The function learnt: all that prediction needs.
    local_share_ : ndarray of shape (n_targets,)
        Share of the local regressions in it.
    intercept_ : ndarray of shape (n_targets,)
    metric_ : ndarray of shape (m, n_features)
        L, where it was learnt.
    feature_importances_ : ndarray of shape (n_features,)
        Diagonal of LᵀL for columns in units of their standard deviation, with sum 1; where L was learnt.
    alpha_ : float or ndarray of shape (n_targets,)
    bandwidth_ : float, ndarray of shape (n_features,) or None
        One for each column where the kernel object has these; None where it has no bandwidth, as a function.
    cv_results_ : dict
        For every pair of candidates ``param_bandwidth``, ``param_alpha``, ``mean_test_score`` (negative mean squared
        leave-one-out error) and ``rank_test_score``; only where there was something to choose.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    KernelRidgeCV : Everything chosen by leave-one-out.
    KernelRidgeClassifier : Classification, with a bandwidth for each class.

    Notes
    -----
    What is learnt is a mixture of two regressions: that of the compressed matrix, which sees all points, and one for
    each cluster, of the data at its points and those beyond its border, which sees them more finely. Their shares are
    those of the least squared leave-one-out error. There is no second one with ``tol``, which asks for the regression
    of the kernel matrix itself, and where the compression leaves out next to nothing beside the ridge.
    The function learnt at the points is continued to new points from those around the nearest clusters, by weights that
    change continuously. Far from all training points it goes where the kernel goes, to zero for one that decays.
    Leave-one-out errors are exact for given bases, inner matrix, local columns and shares: they are not built anew
    without the point.

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


def _column(local: LocalWeights | None, cluster: int, target: int, count: int) -> FloatArray:
    """Weights of one target in a cluster; zeros where there is no local regression."""
    return np.zeros(count) if local is None else local[cluster][:, target]


def _least_squares(fits: Iterator[Fit], weights: FloatArray | None) -> tuple[Fit, list[Record]]:
    """The regression of least squared leave-one-out error, and a record of each."""
    best, records = None, list[Record]()
    for fit in fits:
        score = 0.0 if fit.left_out is None else -float(np.average((fit.left_out**2).mean(axis=1), weights=weights))
        if best is None or score > max(record.score for record in records):
            best = fit
        records.append(Record(fit.bandwidth, fit.alpha, score))
    assert best is not None
    return best, records


def in_units(Y: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Each target over its root mean square, so that none counts for more than others; zero for a constant one."""
    size = np.sqrt(np.average(Y**2, axis=0, weights=weights))
    return np.asarray(np.divide(Y, size, out=np.zeros_like(Y), where=size > 0))
