"""Gaussian processes that learn from rows in pieces: mean and deviation from sums of fixed size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array

from blockbasis.estimators._base import KernelEstimator, all_or_nothing
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._posterior import Posterior
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.estimators._stream import targets_in_memory
from blockbasis.estimators._streamed_ridge import sample_rows
from blockbasis.streaming.functions import BasisFunctions
from blockbasis.streaming.sources import ArrayRows, as_rows, is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.estimators._trend import Trend
    from blockbasis.kernels import Kernel


@dataclass(frozen=True, eq=False)
class ChosenPrior:
    """The prior of a Gaussian process: its hyperparameters, and the targets it was chosen for.

    Parameters
    ----------
    kernel : Kernel
    signal : float
        Signal variance, for targets in units whose square is ``unit``.
    noise : float or ndarray of shape (n,)
        Noise variance, as a share of the signal variance.
    unit : float
    residuals : ndarray of shape (n, n_targets)
        Targets less their mean, in these units.
    """

    kernel: Kernel
    signal: float
    noise: Any
    unit: float
    residuals: FloatArray


@dataclass(frozen=True, eq=False)
class ProcessStream:
    """All that a Gaussian process keeps of the points it has learnt from, for a signal variance of 1.

    Parameters
    ----------
    functions : BasisFunctions
    prior : Posterior
        Before any point: a mean of zero, and nothing explained.
    sums : RidgeSums
        Each point is weighted with the inverse of its noise, and of the variance that the functions do not hold.
    noise : float
    """

    functions: BasisFunctions
    prior: Posterior
    sums: RidgeSums
    noise: float

    def plus(self, X: FloatArray, Y: FloatArray, n_jobs: int) -> ProcessStream:
        """Return the state after more points."""
        more = RidgeSums.of(self.functions, X, Y, None, n_jobs, self.noise)
        return replace(self, sums=self.sums.plus(more))

    def posterior(self) -> Posterior:
        """Return the process given all points."""
        inner, n_targets = self.functions.inner, len(self.sums.targets)
        weights = self.sums.solve(inner, np.ones(n_targets), np.zeros(n_targets))
        own = tuple(e.coefficients @ w for e, w in zip(self.functions.extensions, weights, strict=True))
        return replace(self.prior, mean=replace(self.prior.mean, weights=own), explained=self.sums.explained(inner))


class StreamedProcess(KernelEstimator):
    """Gaussian processes that learn from rows in pieces."""

    #: The state of a stream.
    _unsaved = ("stream_", "_unsolved")

    stream_: ProcessStream
    n_features_in_: int
    _posterior: Any
    _trend: Trend
    _scale: FloatArray
    _flat: bool

    def _chosen_prior(self, X: FloatArray, Y: FloatArray, rng: np.random.Generator) -> ChosenPrior:
        raise NotImplementedError

    def _forget_stream(self) -> None:
        for name in (*self._unsaved, "far_share_"):
            self.__dict__.pop(name, None)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn from more points, in fixed memory.

        The first call chooses what is "auto", and determines clusters and basis functions, from at most 100,000 of its
        points. Every call adds its points to sums of fixed size. After a `fit`, the process begins anew.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self

        Notes
        -----
        The prior is s u(x)ᵀ C u(x') for two points, with the basis functions u of a factorization, and s k(x, x) for
        one, as with ``tol``, ``memory`` or ``rank``. The mean of the targets is that of the first call. The likelihood
        and the dual coefficients of `fit` are not computed. ``far_share_`` is as in `KernelRidge.partial_fit`.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(2000, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2000)
        >>> model = bb.GaussianProcessRegressor(random_state=0)
        >>> for chunk in np.split(np.arange(2000), 4):
        ...     model = model.partial_fit(X[chunk], y[chunk])
        >>> mean, std = model.predict([[0.5]], return_std=True, include_noise=False)
        >>> bool(abs(mean[0] - np.sin(1.0)) < 0.03 and std[0] < 0.03)
        True
        """
        return self._partial_fit(X, y)

    def _partial_fit(self, X: Any, y: Any) -> Any:
        first, caller = not hasattr(self, "stream_"), f"{self._caller}.fit"
        if is_streamed(X):
            rows = as_rows(X, n_features=None if first else self.n_features_in_, caller=self._caller)
            self.n_features_in_ = rows.shape[1]
        else:
            X, y = self._validated(X, y, multi_output=True, y_numeric=True, reset=first)
            rows = ArrayRows(X)
        y = targets_in_memory(y, len(rows), caller=caller)
        Y = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")).reshape(len(rows), -1)
        if first:
            of_sample, *streams = self._streams(3)
            drawn = sample_rows(len(rows), of_sample)
            self._begin(rows.take(drawn, caller=caller).astype(np.float64, copy=False), Y[drawn], streams)
            self._flat = np.ndim(y) == 1
        stream, before, n_jobs = self.stream_, self.stream_.sums, self._threads()
        if Y.shape[1] != len(before.targets):
            raise ValueError(
                f"The 'y' parameter of {caller} must have {len(before.targets)} targets, as in the first call. Got "
                f"{Y.shape[1]} instead."
            )
        for piece in rows.pieces(caller=caller):
            own = piece.values.astype(np.float64, copy=False)
            left = (Y[piece.start : piece.start + len(own)] - self._trend(own)) / self._scale
            stream = stream.plus(own, left, n_jobs)
        self.stream_, self._unsolved = stream, True
        self.far_share_ = (stream.sums.n_far - before.n_far) / (stream.sums.n_rows - before.n_rows)
        return self

    def _begin(self, X: FloatArray, Y: FloatArray, streams: list[np.random.Generator]) -> None:
        """Choose the prior and compute the functions from a sample of rows."""
        searching, factoring = streams
        prior = self._chosen_prior(X, Y, searching)
        if np.ndim(prior.noise):
            raise ValueError(
                f"The 'alpha' parameter of {self._caller} must be one number, or 'auto', for points that are learnt in "
                "pieces. Got an array instead."
            )
        A = self._factorize_sample(X, prior.kernel, factoring)
        functions, n_targets = BasisFunctions.of(A), Y.shape[1]
        points = tuple(extension.points for extension in functions.extensions)
        zeros = tuple(np.zeros((len(each), n_targets)) for each in points)
        blend = Blend.of(A.partition, prior.kernel.coordinates(X))
        mean = Expansion(prior.kernel, functions.centers, points, zeros, blend)
        posterior = Posterior.of(A, mean, np.zeros(functions.inner.shape))
        sums = RidgeSums.zero(functions.ranks, n_targets)
        self.stream_ = ProcessStream(functions, posterior, sums, float(prior.noise))
        for name in ("log_marginal_likelihood_value_", "alpha_"):
            self.__dict__.pop(name, None)

    def _solve(self) -> None:
        if getattr(self, "_unsolved", False):
            self._posterior = self.stream_.posterior()
            self._unsolved = False

    def _check_X(self, X: Any, *, reset: bool) -> FloatArray:
        if not reset:
            self._solve()
        return super()._check_X(X, reset=reset)

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Parameters and all that predictions need, for `blockbasis.save`."""
        self._solve()
        return super().describe()
