"""Classification by kernel ridge regression, one class against the rest, each with its own bandwidth where asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from blockbasis._utils.validation import check_flag
from blockbasis.estimators._base import all_or_nothing, bandwidth_of
from blockbasis.estimators._calibration import Calibration, calibrated, class_targets, winners
from blockbasis.estimators._ridge_base import KernelRidgeEstimator
from blockbasis.estimators._ridge_path import Choices, Fit, Record, cv_results
from blockbasis.estimators._stream import Batch, by_pieces
from blockbasis.estimators._streamed_models import StreamedClassifier
from blockbasis.operators.storage import storable
from blockbasis.streaming.sources import is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.block_basis import BlockBasis


class RidgeClassifier(StreamedClassifier, ClassifierMixin, KernelRidgeEstimator):
    """What `KernelRidgeClassifier` and its search share: fit and decisions, once there is something to choose among."""

    class_weight: Any
    calibration_: Calibration

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from points and their classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
            As in `KernelRidge.fit`.
        y : array-like of shape (n_samples,)
        sample_weight : float or array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        if is_streamed(X):
            self._forget_stream()
            self._partial_fit(X, y, None, sample_weight)._solve()
            return self
        X, y = self._validated(X, y)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        weights = self._check_weights(sample_weight, X)
        self._forget_stream()
        keep = check_flag(self.keep_points, name="keep_points", caller=self._caller)
        used = slice(None) if weights is None else weights > 0
        self.classes_, labels = np.unique(y[used], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The 'y' parameter of {self._caller}.fit must have at least two classes. Got one class, "
                f"{self.classes_[0]!r}, instead."
            )
        weights = self._class_weights(y[used], None if weights is None else weights[used])
        self._forget("cv_results_", "X_fit_", "dual_coef_", "factorization_")
        rows, coefficients, A = self._learn(X[used], labels, weights)
        if keep:
            self.X_fit_ = X
            if A is not None:
                self.factorization_ = A
            self._learnt_from = Batch(X[used], class_targets(labels, len(self.classes_)), weights)
            self.dual_coef_ = np.zeros((len(X), coefficients.shape[1]))
            self.dual_coef_[np.arange(len(X))[used][rows]] = coefficients
            self.dual_coef_ = self.dual_coef_[:, 0] if coefficients.shape[1] == 1 else self.dual_coef_
        return self

    def _class_weights(self, y: npt.NDArray[Any], weights: FloatArray | None) -> FloatArray | None:
        """Weights of the points times those of their classes; a class of weight zero would be left without a point."""
        if self.class_weight is None:
            return weights
        of_classes = np.asarray(compute_sample_weight(self.class_weight, y))
        if not (of_classes > 0).all():
            raise ValueError(
                f"The 'class_weight' parameter of {self._caller} must be positive for every class. "
                f"Got {self.class_weight!r} instead."
            )
        return of_classes if weights is None else weights * of_classes

    def _learn(
        self, X: FloatArray, labels: IntArray, weights: FloatArray | None
    ) -> tuple[Any, FloatArray, BlockBasis | None]:
        """Rows that were learnt from, their coefficients, and the factorization that all classes share, if any."""
        Y = class_targets(labels, len(self.classes_))
        self.intercept_ = np.average(Y, axis=0, weights=weights)
        of_choices, *streams = self._streams(3)
        choices = self._choices(X, Y - self.intercept_, weights, of_choices)
        self._warn_of_rows(choices, len(X))
        rows: Any = slice(None) if choices.rows is None else choices.rows
        X, Y, labels, weights = X[rows], Y[rows], labels[rows], None if weights is None else weights[rows]
        Z = choices.mapped(X)
        fits = self._fits(choices, Z, Y - self.intercept_, weights, streams)
        choose = self._for_each_class if self._per_class else self._for_all
        best, results = choose(fits, labels, Y, weights)
        self._take(best, Z, self._per_class)
        left_out = np.stack([fit.left_out[:, c] for c, fit in enumerate(best)], axis=1)
        self.calibration_ = calibrated(Y - left_out, labels, weights, cautious=True)
        self._keep_metric(choices.found, Z)
        self._keep_results(choices, results)
        shared = best[0].A if all(fit.A is best[0].A for fit in best) else None
        return rows, np.stack([fit.coefficients[:, c] for c, fit in enumerate(best)], axis=1), shared

    @property
    def _per_class(self) -> bool:
        """Whether each class has a bandwidth of its own."""
        return False

    def _keep_results(self, choices: Choices, results: dict[str, Any] | None) -> None:
        if results:
            self.cv_results_ = results

    def _quality(self, fit: Fit, labels: IntArray, Y: FloatArray, weights: FloatArray | None) -> tuple[float, float]:
        """What regressions are compared by: leave-one-out accuracy, and the squared error among equals."""
        return _accuracy(fit, labels, Y, weights)

    def _for_all(
        self, fits: Iterator[Fit], labels: IntArray, Y: FloatArray, weights: FloatArray | None
    ) -> tuple[list[Fit], dict[str, Any] | None]:
        """The best regressions, for all columns."""
        best, leading, records = None, (-np.inf, -np.inf), list[Record]()
        for fit in fits:
            key = self._quality(fit, labels, Y, weights)
            records.append(Record(fit.bandwidth, fit.alpha, key[0]))
            if best is None or key > leading:
                best, leading = fit, key
        assert best is not None
        return [best for _ in range(Y.shape[1])], cv_results(records) if len(records) > 1 else None

    def _for_each_class(
        self, fits: Iterator[Fit], labels: IntArray, Y: FloatArray, weights: FloatArray | None
    ) -> tuple[list[Fit], dict[str, Any] | None]:
        """A regression for each column, chosen by the leave-one-out F1 of all classes."""
        every = list(fits)
        if len(every) == 1:
            return [every[0] for _ in range(Y.shape[1])], None
        keys = [_accuracy(fit, labels, Y, weights) for fit in every]
        values = [Y - fit.left_out for fit in every]
        judge = Judge(labels, np.ones(len(labels)) if weights is None else weights)
        chosen = each_by_f1(values, judge, start=max(range(len(every)), key=keys.__getitem__))
        of_classes = np.array([judge.f1(winners(each)) for each in values])
        alike = [Record(fit.bandwidth, fit.alpha, float(f1.mean())) for fit, f1 in zip(every, of_classes, strict=True)]
        return [every[i] for i in chosen], {**cv_results(alike), "class_scores": of_classes}

    def _take(self, best: list[Fit], X: FloatArray, per_class: bool) -> None:
        """What prediction needs of the best regression of each class; classes of one matrix are evaluated together."""
        matrices = dict.fromkeys(id(fit.A) for fit in best)
        self.groups_ = [np.flatnonzero([id(fit.A) == key for fit in best]) for key in matrices]
        self.expansions_ = [self._learnt([(best[c], c) for c in group.tolist()], X) for group in self.groups_]
        self.local_share_ = np.array([fit.shares[c] for c, fit in enumerate(best)])
        self.bandwidth_: Any = bandwidth_of(best[0].kernel)
        self.alpha_: Any = float(best[0].alpha[0])
        if per_class:
            each = best * len(self.classes_) if len(best) == 1 else best
            self.bandwidth_ = np.array([np.nan if fit.bandwidth is None else fit.bandwidth for fit in each])
            self.alpha_ = np.array([fit.alpha[0] for fit in each])

    @by_pieces
    def decision_function(self, X: Any) -> FloatArray:
        """Decision values of the classes at new points, in bounded memory for any number of points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, positive for the second; else (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = self._check_X(X, reset=False)
        values = np.tile(self.intercept_, (len(X), 1))
        for group, expansion in zip(self.groups_, self.expansions_, strict=True):
            values[:, group] += self._predict(X, expansion)
        return values[:, 0] if values.shape[1] == 1 else values

    @by_pieces
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Classes of new points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self.decision_function(X)
        return self.classes_[winners(values.reshape(len(values), -1))]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes of new points, calibrated on leave-one-out decision values.

        The class that `predict` returns has the largest probability. With weights of points or classes, they are the
        probabilities in the weighted data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, with sum 1 in each row.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(1000, 1))
        >>> y = rng.uniform(size=1000) < X[:, 0]
        >>> model = bb.KernelRidgeClassifier(1.0, bandwidth=1.0).fit(X, y)
        >>> model.predict_proba([[0.2], [0.5], [0.8]])[:, 1].round(1)
        array([0.2, 0.5, 0.8])
        """
        return np.exp(self.predict_log_proba(X))

    @by_pieces
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the probabilities, which are finite also where `predict_proba` underflows to zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        values = self.decision_function(X)
        return self.calibration_.log_probabilities(values.reshape(len(values), -1))

    @by_pieces
    def gradient(self, X: Any) -> FloatArray:
        """Gradients of the decision function at new points, in the units of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features) for two classes; else (n_samples, n_features, n_classes)
            Gradients in float64.
        """
        check_is_fitted(self)
        X = self._check_X(X, reset=False)
        slopes = np.empty((*X.shape, len(self.intercept_)))
        for group, expansion in zip(self.groups_, self.expansions_, strict=True):
            slopes[..., group] = self._slopes(X, expansion)
        return slopes[..., 0] if slopes.shape[-1] == 1 else slopes


@storable
class KernelRidgeClassifier(RidgeClassifier):
    """Classification by kernel ridge regression on a compressed kernel matrix.

    One regression for each class has the target 1 for its points and -1 for all others, minus the mean. The predicted
    class has the largest value. Far from all training points, this is the class with the largest weight.

    Parameters
    ----------
    alpha : float or list of float, default=1.0
        Positive ridge, or a list of candidates, which are compared by leave-one-out.
    kernel : str, Kernel or callable, default="gaussian"
        As in `KernelRidge`.
    bandwidth : float, {"median", "auto", "per-class"}, list of float or None, default=None
        As in `KernelRidge`; candidates are compared by leave-one-out accuracy. With "per-class", each class has its own
        bandwidth from the candidates of "auto" or from ``bandwidths``, so that the mean leave-one-out F1 score of all
        classes is largest. Small classes often need a smaller bandwidth. The factorizations of all candidates are in
        memory during the search.
    bandwidths : list of float, default=None
        Candidates for ``bandwidth="per-class"``. None for those of "auto".
    gamma : float, default=None
    metric : {"diagonal", "full", "auto"} or None, default=None
        As in `KernelRidge`.
    class_weight : dict, "balanced" or None, default=None
        As in scikit-learn's ``RidgeClassifier``.
    tol, memory, n_clusters, rank, keep_points, random_state, n_jobs, verbose
        As in `KernelRidge`. All classes share one factorization for each bandwidth.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    bandwidth_ : float, ndarray or None
        With ``bandwidth="per-class"``, one for each class; for two classes both are equal. Otherwise as in
        `KernelRidge`.
    alpha_ : float or ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
    X_fit_ : ndarray of shape (n_samples, n_features)
    factorization_ : BlockBasis
        As in `KernelRidge`, where all classes share it.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Weighted means of the targets.
    metric_ : ndarray of shape (m, n_features)
    feature_importances_ : ndarray of shape (n_features,)
        As in `KernelRidge`, where a metric was learnt.
    expansions_ : list of Expansion
        Prediction functions, one for each group of classes in ``groups_``.
    local_share_ : ndarray of shape (1,) or (n_classes,)
        Share of the local regressions, as in `KernelRidge`.
    calibration_ : Calibration
        Map from decision values to probabilities.
    cv_results_ : dict
        As in `KernelRidge`, with the leave-one-out accuracy. With ``bandwidth="per-class"``, the mean leave-one-out F1
        score if all classes have the same candidate, and ``class_scores`` of shape (n_candidates, n_classes).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(600, 2))
    >>> y = np.where(np.hypot(*X.T) < 0.2, "small", np.where(X[:, 0] > 0, "right", "left"))
    >>> model = bb.KernelRidgeClassifier(alpha=0.1, bandwidth="per-class", bandwidths=[0.2, 0.5, 1.0])
    >>> model.fit(X, y).score(X, y) > 0.97
    True
    >>> model.classes_.tolist()
    ['left', 'right', 'small']
    >>> model.bandwidth_.shape
    (3,)
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        bandwidths: Any = None,
        gamma: float | None = None,
        metric: str | None = None,
        class_weight: Any = None,
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
        self.bandwidths = bandwidths
        self.gamma = gamma
        self.metric = metric
        self.class_weight = class_weight
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.keep_points = keep_points
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def _per_class(self) -> bool:
        return isinstance(self.bandwidth, str) and self.bandwidth == "per-class"

    def _candidates(self) -> Any:
        if self._per_class:
            return "auto" if self.bandwidths is None else self.bandwidths
        if self.bandwidths is not None:
            raise ValueError(
                f"The 'bandwidths' parameter of {self._caller} goes with bandwidth='per-class' only. "
                f"Got it with bandwidth={self.bandwidth!r}."
            )
        return self.bandwidth


def _accuracy(fit: Fit, labels: IntArray, Y: FloatArray, weights: FloatArray | None) -> tuple[float, float]:
    """Leave-one-out accuracy, and the negative squared error."""
    accuracy = np.average(winners(Y - fit.left_out) == labels, weights=weights)
    return float(accuracy), -float(np.average((fit.left_out**2).mean(axis=1), weights=weights))


# --- a bandwidth for each class --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge:
    """Indices of the true classes, and weights of the points, with which decisions are scored."""

    labels: IntArray
    weights: FloatArray

    def f1(self, guesses: IntArray) -> FloatArray:
        """F1 of each class."""
        count = int(self.labels.max()) + 1
        right = guesses == self.labels
        hits, guessed, true = (
            np.bincount(of, minlength=count, weights=by)
            for of, by in (
                (self.labels[right], self.weights[right]),
                (guesses, self.weights),
                (self.labels, self.weights),
            )
        )
        return np.asarray(2 * hits / np.maximum(guessed + true, np.finfo(np.float64).tiny))

    def by_size(self) -> IntArray:
        """Classes, the smallest first."""
        return np.argsort(np.bincount(self.labels, weights=self.weights), kind="stable")


def each_by_f1(values: Sequence[FloatArray], judge: Judge, start: int) -> list[int]:
    """Choose a candidate for each column, so that the mean F1 score of the decisions is large.

    The decisions depend on the values of all classes. The search starts with the same candidate for all columns. Each
    column in turn, the smallest class first, takes the best candidate given those of the other columns, until no change
    increases the score.
    """
    n_columns = values[0].shape[1]
    chosen = [start] * n_columns
    together = values[start].copy()
    best = float(judge.f1(winners(together)).mean())
    order = judge.by_size() if n_columns > 1 else np.zeros(1, dtype=np.intp)
    improving = True
    while improving:
        improving = False
        for c in order.tolist():
            for i, candidate in enumerate(values):
                held = together[:, c].copy()
                together[:, c] = candidate[:, c]
                score = float(judge.f1(winners(together)).mean())
                if score > best:
                    best, chosen[c], improving = score, i, True
                else:
                    together[:, c] = held
    return chosen
