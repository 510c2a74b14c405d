"""Regression and classification of rows that arrive in pieces: targets, classes, and attributes of the solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from blockbasis._utils.validation import check_flag
from blockbasis.estimators._base import all_or_nothing
from blockbasis.estimators._calibration import Calibration, calibrated, class_targets, winners
from blockbasis.estimators._intervals import Residuals
from blockbasis.estimators._stream import Solved, targets_in_memory
from blockbasis.estimators._streamed_ridge import StreamedRidge
from blockbasis.streaming.sources import ArrayRows, is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._expansion import Expansion
    from blockbasis.kernels import Kernel


class StreamedRegressor(StreamedRidge):
    """What a regression adds: targets, and attributes of the solution."""

    fit_intercept: bool
    expansion_: Expansion
    intercept_: FloatArray
    residuals_: Residuals
    _n_dimensions: int

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from more points, in fixed memory.

        The first call, or a `fit` before it, determines kernel, clusters and basis functions from at most 100,000 of
        its points. Every call adds its points to sums of fixed size. The result does not depend on how the points are
        divided among the calls after the first one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
            As in `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None

        Returns
        -------
        self

        Notes
        -----
        The regression is that of f(x) = u(x)ᵀ w with the basis functions u of the factorization, without local
        regressions. It is solved, and its attributes are set, when a prediction needs them. Of a list ``alpha``, the
        ridge with the least squared error at held-out points of the first call is taken; see also `choose_alpha`.
        Intervals are those of the same points. ``far_share_`` is the share of the points of the last call that are
        farther from the nearest centre than the points that determined its cluster. Where it grows, the data have
        drifted: see `extend_clusters`. A saved model predicts, but does not go on; a pickled one does.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> X = np.random.default_rng(0).uniform(-3, 3, size=(4000, 2))
        >>> y = np.sin(X[:, 0]) * X[:, 1]
        >>> model = bb.KernelRidge(1e-3, bandwidth=2.0, random_state=0)
        >>> for chunk in np.split(np.arange(4000), 4):
        ...     model = model.partial_fit(X[chunk], y[chunk])
        >>> model.score(X, y) > 0.99
        True
        """
        return self._partial_fit(X, y, sample_weight)

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        first = self._begins_stream()
        caller = f"{self._caller}.fit"
        if is_streamed(X):
            rows = self._rows(X, first=first)
        else:
            X, y = self._validated(X, y, multi_output=True, y_numeric=True, reset=first)
            rows = ArrayRows(X)
        y = targets_in_memory(y, len(rows), caller=caller)
        if first:
            self._n_dimensions = np.ndim(y)
        self._read(rows, *self._columns(y, sample_weight, caller=caller))
        return self

    def _columns(self, y: Any, sample_weight: Any, *, caller: str) -> tuple[FloatArray, FloatArray | None]:
        Y = self._target_columns(y, caller=caller)
        return Y, self._check_weights(sample_weight, Y)

    def _target_columns(self, y: Any, *, caller: str) -> FloatArray:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        Y = np.asarray(y).reshape(len(y), -1)
        if hasattr(self, "stream_") and Y.shape[1] != len(self.stream_.sums.targets):
            raise ValueError(
                f"The 'y' parameter of {caller} must have {len(self.stream_.sums.targets)} targets, as in the first "
                f"call. Got {Y.shape[1]} instead."
            )
        return Y

    def _fitted_kernels(self) -> list[Kernel]:
        return [self.expansion_.kernel] if hasattr(self, "expansion_") else []

    @property
    def _centred(self) -> bool:
        return check_flag(self.fit_intercept, name="fit_intercept", caller=self._caller)

    @property
    def _one_for_each_target(self) -> bool:
        raise NotImplementedError

    def _keep_solved(self, solved: Solved) -> None:
        held_out = self.stream_.held_out
        assert held_out.weights is not None
        self.expansion_, self.intercept_ = solved.regression.expansion, solved.regression.center
        alpha = solved.alpha - self.stream_.functions.kernel.noise
        self.alpha_ = alpha if self._one_for_each_target else float(alpha[0])
        points = self.stream_.functions.kernel.coordinates(held_out.X)
        self.residuals_ = Residuals(points, np.abs(held_out.Y - solved.held_out), held_out.weights)


class StreamedClassifier(StreamedRidge):
    """What a classification adds: classes, and attributes of the solution."""

    class_weight: Any
    classes_: npt.NDArray[Any]
    expansions_: list[Expansion]
    groups_: list[IntArray]
    intercept_: FloatArray
    calibration_: Calibration

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from more points, in fixed memory: see `KernelRidge.partial_fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes, in the first call; None is those of ``y``.
        sample_weight : float or array-like of shape (n_samples,), default=None

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> X = np.random.default_rng(0).uniform(-1, 1, size=(4000, 2))
        >>> y = np.where(np.hypot(*X.T) < 0.5, "inside", "outside")
        >>> model = bb.KernelRidgeClassifier(0.1, bandwidth=0.5, random_state=0)
        >>> for chunk in np.split(np.arange(4000), 4):
        ...     model = model.partial_fit(X[chunk], y[chunk], classes=["inside", "outside"])
        >>> model.score(X, y) > 0.97
        True
        """
        return self._partial_fit(X, y, classes, sample_weight)

    def _class_weights(self, y: npt.NDArray[Any], weights: FloatArray | None) -> FloatArray | None:
        raise NotImplementedError

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        first = self._begins_stream()
        caller = f"{self._caller}.fit"
        if is_streamed(X):
            rows = self._rows(X, first=first)
        else:
            X, y = self._validated(X, y, reset=first)
            rows = ArrayRows(X)
        y = targets_in_memory(y, len(rows), caller=caller)
        if first:
            self._set_classes(y if classes is None else classes, caller)
        self._read(rows, *self._columns(y, sample_weight, caller=caller))
        return self

    def _columns(self, y: Any, sample_weight: Any, *, caller: str) -> tuple[FloatArray, FloatArray | None]:
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"The 'class_weight' parameter of {self._caller} must be a dict for rows that are read in pieces: the "
                f"shares of the classes are not known. Got {self.class_weight!r} instead."
            )
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        return self._target_columns(y, caller=caller), self._class_weights(y, self._check_weights(sample_weight, y))

    def _set_classes(self, classes: Any, caller: str) -> None:
        check_classification_targets(classes)
        self.classes_ = np.unique(np.asarray(classes))
        if len(self.classes_) < 2:
            raise ValueError(
                f"The 'y' parameter of {caller} must have at least two classes. Got one class, {self.classes_[0]}, "
                "instead."
            )

    def _target_columns(self, y: Any, *, caller: str) -> FloatArray:
        labels = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[labels] != y
        if unknown.any():
            raise ValueError(
                f"The 'y' parameter of {caller} must have the classes of the first call. Got {y[unknown][0]} "
                "instead: name all classes in the first call, partial_fit(X, y, classes=[...])."
            )
        return class_targets(labels, len(self.classes_))

    def _fitted_kernels(self) -> list[Kernel]:
        return [each.kernel for each in getattr(self, "expansions_", [])]

    @property
    def _centred(self) -> bool:
        return True

    def _keep_solved(self, solved: Solved) -> None:
        held_out = self.stream_.held_out
        self.expansions_, self.groups_ = [solved.regression.expansion], [np.arange(len(solved.alpha))]
        self.intercept_ = solved.regression.center
        self.alpha_ = float(solved.alpha[0]) - self.stream_.functions.kernel.noise
        self.calibration_ = calibrated(solved.held_out, winners(held_out.Y), held_out.weights, cautious=True)
