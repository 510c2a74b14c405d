"""Kernel ridge regression and classification of dask collections.

The workers compute the basis functions of a sample of the rows together. Each worker adds its rows to sums of fixed
size, and the sums are solved here: see `blockbasis.estimators._ridge_sums`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils.parallel import elsewhere
from blockbasis.distributed.client import accumulated, checked_client, gathered, sent, submitted
from blockbasis.distributed.parts import added
from blockbasis.distributed.rows import BlockRows, DaskRows, as_array, unchecked
from blockbasis.distributed.spread import Spread
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.estimators._stream import Batch
from blockbasis.estimators._streamed_ridge import sample_rows
from blockbasis.estimators.classifier import KernelRidgeClassifier
from blockbasis.estimators.ridge import KernelRidge

if TYPE_CHECKING:
    from blockbasis.streaming.functions import BasisFunctions


class DaskEstimator(BaseEstimator):
    """What regression and classification of dask collections share."""

    _local_class: ClassVar[type[Any]]

    client: Any
    local_: Any

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}

    def __sklearn_clone__(self) -> Any:
        others = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}
        return type(self)(**clone(others, safe=False), client=self.client)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from the rows of a dask collection, eagerly.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features), or dask data frame
        y : dask array or series of shape (n_samples,), or dask array of shape (n_samples, n_targets)
        sample_weight : dask array or series of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        caller = f"{type(self).__name__}.fit"
        client = checked_client(self.client, caller=caller)
        rows = DaskRows(X, client, caller=caller)
        targets = self._beside(y, rows, "y", caller)
        weights = None if sample_weight is None else self._beside(sample_weight, rows, "sample_weight", caller)
        parameters = self.get_params(deep=False)
        local = self._local_class(**{name: value for name, value in parameters.items() if name != "client"})
        local.n_features_in_ = rows.shape[1]
        if hasattr(X, "columns"):
            local.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self._prepare(local, y, targets, caller)
        of_sample, *streams = local._streams(4)
        drawn = sample_rows(len(rows), of_sample)
        points = rows.take(drawn, caller=caller).astype(np.float64, copy=False)
        own = None if weights is None else weights.picked(drawn, unchecked)
        Y, own = local._columns(
            _flat(targets.picked(drawn, unchecked)), None if own is None else own[:, 0], caller=caller
        )
        with elsewhere(Spread(client)):
            local._begin(Batch(points, Y, own), streams)
        on_worker = local.without_state()
        on_worker.n_jobs, on_worker.verbose = 1, 0
        remote = sent(client, "model", on_worker), sent(client, "functions", local.stream_.functions.lean())
        models, functions = ([each] * len(rows.blocks) for each in remote)
        beside = [None] * len(rows.blocks) if weights is None else weights.blocks
        columns = models, functions, rows.blocks, targets.blocks, beside, rows.places
        local.add_sums(accumulated(client, "gram", _block_sums, added, *columns, near=rows.blocks))
        local._solve()
        self.local_ = local
        return self

    def _prepare(self, local: Any, y: Any, targets: DaskRows, caller: str) -> None:
        """Set what the ordinary estimator knows of all targets."""
        raise NotImplementedError

    @staticmethod
    def _beside(y: Any, rows: DaskRows, name: str, caller: str) -> DaskRows:
        """Return targets or weights in the blocks of the points."""
        array = as_array(y, None, name=name, caller=caller)
        known = not np.isnan(array.shape[0])
        if known and array.shape[0] == len(rows):
            array = array.rechunk({0: tuple(rows.lengths.tolist())})
        found = DaskRows(array, rows.client, name=name, caller=caller)
        if not np.array_equal(found.lengths, rows.lengths):
            raise ValueError(
                f"The '{name}' parameter of {caller} must have the {len(rows)} rows of X, in blocks of the same "
                f"lengths. Got {len(found)} instead."
            )
        return found

    def to_local(self) -> Any:
        """Return the ordinary estimator, which predicts points in memory and goes on with `partial_fit`."""
        check_is_fitted(self)
        return copy.copy(self.local_)

    def predict(self, X: Any) -> Any:
        """Values or classes of new points, lazily for a dask collection.

        Parameters
        ----------
        X : dask array, dask data frame, or points in memory

        Returns
        -------
        dask array, dask series or data frame, or ndarray
            Of the kind of ``X``.
        """
        return self._lazily("predict", X)

    def _lazily(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        if not hasattr(X, "dask"):
            return getattr(self.local_, method)(X)
        model = self.local_.without_state()
        model.n_jobs, model.verbose = 1, 0
        names = model.__dict__.pop("feature_names_in_", None)
        example = getattr(model, method)(np.zeros((1, model.n_features_in_)))
        remote, caller = dask.delayed(model, traverse=False), f"{type(self).__name__}.{method}"
        array = as_array(X, names, name="X", caller=caller)
        if array.shape[1] != model.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting {model.n_features_in_} "
                "features as input."
            )
        call = dask.delayed(_block_values, pure=False)
        token = f"blockbasis-{method}-{uuid4().hex}"
        pieces = [
            da.from_delayed(
                call(remote, block, method, example[:0], f"block {i}", dask_key_name=(token, i)),
                (length, *example.shape[1:]),
                example.dtype,
            )
            for i, (block, length) in enumerate(zip(array.to_delayed().ravel(), array.chunks[0], strict=True))
        ]
        values = da.concatenate(pieces)
        return values.to_dask_dataframe(index=X.index) if hasattr(X, "columns") else values


class DaskKernelRidge(RegressorMixin, DaskEstimator):
    """Kernel ridge regression of dask collections: `blockbasis.KernelRidge` over the workers of a client.

    The same seed gives the model that `KernelRidge` learns from the same rows on disk, to rounding.

    Parameters
    ----------
    alpha, kernel, bandwidth, gamma, metric, fit_intercept, tol, memory, n_clusters, rank, random_state, verbose
        As in `blockbasis.KernelRidge`.
    client : distributed.Client, default=None
        None is the default client. It is never pickled.
    n_jobs : int, default=None
        Threads of this process; a worker runs one thread for each of its tasks.

    Attributes
    ----------
    local_ : KernelRidge
        The model, with the attributes of `KernelRidge`; `to_local` returns a copy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from blockbasis.distributed import DaskKernelRidge
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(4000, 2))
    >>> y = np.sin(X[:, 0]) * X[:, 1]
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     points, targets = da.from_array(X, chunks=(1000, 2)), da.from_array(y, chunks=1000)
    ...     model = DaskKernelRidge(1e-3, bandwidth=2.0, random_state=0).fit(points, targets)
    ...     predicted = model.predict(points)
    ...     error = abs(predicted - targets).max().compute()
    >>> predicted
    dask.array<concatenate, shape=(4000,), dtype=float64, chunksize=(1000,), chunktype=numpy.ndarray>
    >>> bool(error < 0.05)
    True
    """

    _local_class = KernelRidge

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        client: Any = None,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        gamma: float | None = None,
        metric: str | None = None,
        fit_intercept: bool = False,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.client = client
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.metric = metric
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _prepare(self, local: Any, y: Any, targets: DaskRows, caller: str) -> None:
        local._n_dimensions = y.ndim

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R², the mean over the targets; computed eagerly.

        Parameters
        ----------
        X : dask array, dask data frame, or points in memory
        y : dask array or series, or array
        sample_weight : None
            Not supported.
        """
        if not hasattr(X, "dask"):
            return float(self.local_.score(X, y, sample_weight))
        values, y = _both(self.predict(X), y, sample_weight)
        left, spread = ((values - y) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
        left, spread = dask.compute(left, spread)
        return float(np.mean(1 - left / spread))


class DaskKernelRidgeClassifier(ClassifierMixin, DaskEstimator):
    """Classification of dask collections: `blockbasis.KernelRidgeClassifier` over the workers of a client.

    Parameters
    ----------
    alpha, kernel, bandwidth, gamma, metric, class_weight, tol, memory, n_clusters, rank, random_state, verbose
        As in `blockbasis.KernelRidgeClassifier`, with one bandwidth for all classes. ``class_weight`` is a dict or
        None.
    client, n_jobs
        As in `DaskKernelRidge`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    local_ : KernelRidgeClassifier
        The model, with the attributes of `KernelRidgeClassifier`; `to_local` returns a copy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from blockbasis.distributed import DaskKernelRidgeClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(4000, 2))
    >>> y = np.hypot(*X.T) < 0.5
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     points, targets = da.from_array(X, chunks=(1000, 2)), da.from_array(y, chunks=1000)
    ...     model = DaskKernelRidgeClassifier(0.1, bandwidth=0.5, random_state=0).fit(points, targets)
    ...     score = model.score(points, targets)
    >>> score > 0.97
    True
    """

    _local_class = KernelRidgeClassifier

    classes_: npt.NDArray[Any]

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        client: Any = None,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        gamma: float | None = None,
        metric: str | None = None,
        class_weight: Any = None,
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.client = client
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.metric = metric
        self.class_weight = class_weight
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _prepare(self, local: Any, y: Any, targets: DaskRows, caller: str) -> None:
        found = gathered(targets.client, submitted(targets.client, "classes", np.unique, targets.blocks))
        local._set_classes(np.concatenate(found), caller)
        self.classes_ = local.classes_

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, lazily for a dask collection; see `predict` and `KernelRidgeClassifier`.

        Parameters
        ----------
        X : dask array, dask data frame, or points in memory
        """
        return self._lazily("predict_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Values of the classes, lazily for a dask collection; see `predict` and `KernelRidgeClassifier`.

        Parameters
        ----------
        X : dask array, dask data frame, or points in memory
        """
        return self._lazily("decision_function", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points whose class is right; computed eagerly.

        Parameters
        ----------
        X : dask array, dask data frame, or points in memory
        y : dask array or series, or array
        sample_weight : None
            Not supported.
        """
        if not hasattr(X, "dask"):
            return float(self.local_.score(X, y, sample_weight))
        values, y = _both(self.predict(X), y, sample_weight)
        return float((values == y).mean().compute())


def _block_sums(model: Any, functions: BasisFunctions, block: Any, y: Any, weights: Any, place: str) -> RidgeSums:
    """Return the sums over the points of a block."""
    caller = f"{type(model).__name__}.fit"
    own = None if weights is None else np.asarray(weights)[:, 0]
    if own is not None and not own.any():  # `_columns` refuses weights of zero alone, which other blocks do not have
        return RidgeSums.zero(functions.ranks, model._target_columns(_flat(y), caller=caller).shape[1])
    sums: RidgeSums = model._sums(functions, BlockRows(block, place), *model._columns(_flat(y), own, caller=caller))
    return sums


def _block_values(model: Any, block: Any, method: str, empty: Any, place: str) -> Any:
    """Return the values of a method at the points of a block."""
    return getattr(model, method)(BlockRows(block, place)) if len(block) else empty


def _flat(y: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.asarray(y)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _both(values: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return predictions and targets as arrays whose blocks fit."""
    if sample_weight is not None:
        raise ValueError("The 'sample_weight' parameter of score must be None for a dask collection.")
    values, y = (each.to_dask_array(lengths=True) if hasattr(each, "to_dask_array") else each for each in (values, y))
    y = y if isinstance(y, da.Array) else da.from_array(np.asarray(y), -1)
    y = y[:, 0] if values.ndim == 1 and y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != values.shape:
        raise ValueError(f"The 'y' parameter of score must be of shape {values.shape}. Got shape {y.shape} instead.")
    return values, y.rechunk({0: values.chunks[0]})
