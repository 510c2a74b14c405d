"""Base class of kernel ridge regression and classification."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_sample_weight

from blockbasis._utils.frames import users_stacklevel
from blockbasis._utils.linalg import exponents_of
from blockbasis._utils.progress import reporting
from blockbasis._utils.validation import check_choice, check_positive
from blockbasis.estimators._base import candidate_bandwidths, has_bandwidth, make_kernel
from blockbasis.estimators._columns import ColumnMap, standardized
from blockbasis.estimators._continuation import (
    POINTS_PER_RANK,
    Surroundings,
    continued,
    mean_left_out,
    surroundings,
)
from blockbasis.estimators._expansion import Expansion, whole_expansion
from blockbasis.estimators._local import (
    LOCAL_POINTS_PER_RANK,
    LocalWeights,
    best_shares,
    mixed,
    regressed_locally,
)
from blockbasis.estimators._ridge_path import Choices, Fit, RidgePath, check_alphas
from blockbasis.estimators._search import METRICS, Task, importances, search
from blockbasis.estimators._streamed_ridge import StreamedRidge
from blockbasis.estimators._trials import Candidate, Found
from blockbasis.exceptions import PerformanceWarning
from blockbasis.kernels import Gaussian, RadialKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis

#: If the mean variance that a compression loses is below this multiple of the ridge, no local regression is fitted.
_NEGLIGIBLE = 1e-2


class KernelRidgeEstimator(StreamedRidge):
    """Base class of regression and classification: weights, candidates, and the regression of each candidate."""

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
        """Whether there is no tolerance: the search for a number of clusters takes long, and predicts no better."""
        return self.tol is None

    def _candidates(self) -> Any:
        """Value of the parameter that holds the candidate bandwidths."""
        return self.bandwidth

    def _bandwidths(self) -> Any:
        """Candidate bandwidths, or the bandwidth that corresponds to ``gamma``."""
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
        """Candidate bandwidths and ridges, and the kernel, with a learned metric if one was requested."""
        alphas = check_alphas(self.alpha, Y.shape[1], caller=self._caller)
        kernel, given, found = self.kernel, self._bandwidths(), None
        if self.metric is not None:
            check_choice(self.metric, (*METRICS[1:], "auto"), name="metric", caller=self._caller)
            found = self._learn_metric(X, Y, weights, rng)
            kernel = found.kernel
        return Choices(kernel, candidate_bandwidths(given, kernel, X, rng, caller=self._caller), alphas, found)

    def _warn_of_rows(self, choices: Choices, n: int) -> None:
        """Keep the number of points to fit, and warn if a time budget excludes some of n points."""
        self._fitted_rows = n if choices.rows is None else len(choices.rows)
        if choices.rows is not None:
            warnings.warn(
                f"time_budget={self.get_params()['time_budget']:g} is too short for all {n} points: the model was "
                f"fitted to {len(choices.rows)} of them, drawn at random.",
                PerformanceWarning,
                stacklevel=users_stacklevel(),
            )

    def _forget_stream(self) -> None:
        super()._forget_stream()
        self._forget("_fitted_rows")

    def _learn_metric(
        self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator
    ) -> Found:
        """Learn the best metric of the requested kinds, and its bandwidth."""
        family = make_kernel(self.kernel, None, caller=self._caller)
        if not (isinstance(family, RadialKernel) and has_bandwidth(family)):
            raise ValueError(
                f"The 'metric' parameter of {self._caller} goes with a radial kernel of one bandwidth. "
                f"Got it with {family!r}."
            )
        kinds = METRICS if self.metric in (None, "auto") else (self.metric,)
        settings: dict[str, Any] = {"classes": is_classifier(self), "n_jobs": self._threads()}
        task = Task(X, in_units(Y, weights), weights, (standardized(X, weights),), **settings)
        with reporting(self.verbose > 0):
            return search(task, [Candidate(family, kind) for kind in kinds], rng)

    @property
    def _mapping(self) -> ColumnMap | None:
        """Map of the columns with heavy tails; None if there is none."""
        return getattr(self, "column_map_", None)

    def _mapped(self, X: FloatArray) -> FloatArray:
        """Map the columns of points, as the kernel requires."""
        return X if self._mapping is None else self._mapping(X)

    def _keep_choices(self, choices: Choices, X: FloatArray) -> None:
        """Attributes of a search and of a metric that rows in pieces begin with."""
        self._keep_results(choices, [])
        self._keep_metric(choices.found, choices.mapped(X))

    def _keep_results(self, choices: Choices, records: Any) -> None:
        """Set the attributes that describe the compared candidates."""
        raise NotImplementedError

    def _keep_metric(self, found: Found | None, X: FloatArray) -> None:
        """Set the attributes of a learned metric."""
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
        """Yield the regression of each bandwidth and ridge; each bandwidth needs one factorization."""
        (of_matrices, of_places), alphas, bandwidths = streams, choices.alphas, choices.bandwidths
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
                coefficients, left_out = path.solve(ridge)
                near, shares = None, np.zeros(Y.shape[1])
                if mixed_in:
                    near, missed = next(local)
                    shares = best_shares(left_out, missed, weights)
                    left_out += shares * (missed - left_out)
                yield Fit(kernel, A, bandwidth, alpha, coefficients, left_out, around, near, shares)

    def _mixing(self, A: BlockBasis, X: FloatArray, alphas: list[FloatArray]) -> list[bool]:
        """For each ridge, whether local regressions are fitted.

        They are not with ``tol``, which requests the regression of the kernel matrix itself, and not if the variance
        that the compression loses is small against the ridge.
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
        """Yield the local regressions of each ridge, and their leave-one-out residuals."""
        if not alphas:
            return iter(())
        with reporting(self.verbose > 0):
            return zip(*regressed_locally(A, X, Y, alphas, weights, around, self._threads()), strict=True)

    def _learnt(self, columns: Sequence[tuple[Fit, int]], X: FloatArray) -> Expansion:
        """Prediction function of pairs of a regression and a target; all regressions have the same matrix."""
        A, around, kernel = columns[0][0].A, columns[0][0].around, columns[0][0].kernel
        coefficients = np.stack([fit.coefficients[:, c] for fit, c in columns], axis=1)
        if A is None:
            return whole_expansion(kernel, X, coefficients)
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

    def _predict(self, X: FloatArray, expansion: Expansion) -> FloatArray:
        with reporting(self.verbose > 0):
            return expansion(self._mapped(X), self._threads())

    def _slopes(self, X: FloatArray, expansion: Expansion) -> FloatArray:
        """Gradients of the prediction function, in the units of the columns."""
        slopes = expansion.gradient(self._mapped(X), self._threads())
        return slopes if self._mapping is None else slopes * self._mapping.slopes(X)[:, :, np.newaxis]


def _column(local: LocalWeights | None, cluster: int, target: int, count: int) -> FloatArray:
    """Weights of one target in a cluster; zeros if there is no local regression."""
    return np.zeros(count) if local is None else local[cluster][:, target]


def in_units(Y: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Divide each target by its root mean square, so that all targets have equal influence."""
    Y = np.ldexp(Y, -exponents_of(Y))  # prevents overflow and underflow of the squares
    size = np.sqrt(np.average(Y**2, axis=0, weights=weights))
    return np.asarray(np.divide(Y, size, out=np.zeros_like(Y), where=size > 0))
