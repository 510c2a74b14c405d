"""Ridge regressions of rows that arrive in pieces: files larger than memory, streams, and parts on several machines.

A sample of the rows determines kernel, clusters, basis functions and inner matrix. All other rows only add to sums of
fixed size: see `blockbasis.estimators._ridge_sums`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils.progress import advancing, reporting
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.estimators._base import KernelEstimator, bandwidth_of, make_kernel
from blockbasis.estimators._ridge_path import Choices, check_alphas
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.estimators._stream import Batch, Solved, Stream, sums_of, targets_in_memory
from blockbasis.streaming.sources import SAMPLE_ROWS, ArrayRows, Rows, as_rows, is_streamed

if TYPE_CHECKING:
    from blockbasis.kernels import Kernel
    from blockbasis.streaming.functions import BasisFunctions

#: Least number of far points that new clusters are made for.
_FEWEST = 10
#: Attributes that only a fit in memory sets.
_IN_MEMORY = ("cv_results_", "X_fit_", "dual_coef_", "factorization_", "_learnt_from")


class StreamedRidge(KernelEstimator):
    """Ridge regressions that learn from rows in pieces: state, sums and solution."""

    #: The state of a stream, and what a stream begins with after a fit in memory.
    _unsaved = ("stream_", "_unsolved", "_ridges", "_learnt_from")

    alpha: Any
    alpha_: Any
    best_params_: dict[str, Any]
    n_features_in_: int
    stream_: Stream

    def _choices(self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator) -> Choices:
        raise NotImplementedError

    def _keep_choices(self, choices: Choices, X: FloatArray) -> None:
        """Set the attributes of a search and of a metric."""
        raise NotImplementedError

    def _keep_solved(self, solved: Solved) -> None:
        """Set the attributes of a regression."""
        raise NotImplementedError

    def _mapped(self, X: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _check_weights(self, sample_weight: Any, X: FloatArray) -> FloatArray | None:
        raise NotImplementedError

    @property
    def _centred(self) -> bool:
        """Whether the targets are centred."""
        raise NotImplementedError

    def _target_columns(self, y: Any, *, caller: str) -> FloatArray:
        """Targets as the columns of an array."""
        raise NotImplementedError

    def _columns(self, y: Any, sample_weight: Any, *, caller: str) -> tuple[FloatArray, FloatArray | None]:
        """Targets as the columns of an array, and weights."""
        raise NotImplementedError

    def _fitted_kernels(self) -> list[Kernel]:
        """Kernels of the functions learnt, none before a fit."""
        raise NotImplementedError

    def _forget_stream(self) -> None:
        self._forget(*self._unsaved, "far_share_", "expansion_", "expansions_")  # the kernels of an earlier fit too

    def _forget(self, *names: str) -> None:
        """Remove what an earlier fit has left and this one may not set."""
        for name in names:
            self.__dict__.pop(name, None)

    def extend_clusters(self, X: Any) -> Any:
        """Add clusters for points that are far from all clusters, as after a drift of the data.

        The points themselves are not learnt: pass them to `partial_fit` afterwards, with their targets. Points that
        were learnt before stay in the clusters that they were counted in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
            Recent points. Of those that are farther from the nearest centre than the points that determined its
            cluster, at most 100,000 determine the new clusters. Fewer than ten such points change nothing.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(2000, 2))
        >>> model = bb.KernelRidge(1e-3, bandwidth=1.0, random_state=0).partial_fit(X, np.sin(X).sum(axis=1))
        >>> X_new = X + 5.0
        >>> model = model.extend_clusters(X_new).partial_fit(X_new, np.sin(X_new).sum(axis=1))
        >>> model.score(X_new, np.sin(X_new).sum(axis=1)) > 0.99
        True
        """
        self._check_begun("extend_clusters")
        functions, far, count = self.stream_.functions, list[FloatArray](), 0
        for piece in self._rows(X).pieces(caller=f"{self._caller}.extend_clusters"):
            Z = self._mapped(piece.values)
            far.append(Z[functions.far(Z)][: SAMPLE_ROWS - count])
            count += len(far[-1])
        if count >= _FEWEST:
            points = np.concatenate(far).astype(np.float64, copy=False)
            (of_matrix,) = self._streams(1)
            A = self._factorize_sample(points, functions.kernel, of_matrix)
            self.stream_ = self.stream_.extended(A)
            self._unsolved = True
        return self

    def choose_alpha(self, X: Any, y: Any, alphas: Any = None) -> Any:
        """Take the ridge of least squared error at a held-out stream of points, which the model has not learnt.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows on disk
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        alphas : list of float, default=None
            Candidates; None is those of the parameter ``alpha``.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(3000, 2))
        >>> y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=3000)
        >>> model = bb.KernelRidge(bandwidth=1.0, random_state=0).partial_fit(X[:2000], y[:2000])
        >>> model.choose_alpha(X[2000:], y[2000:], [1e-9, 1.0, 1e6]).alpha_
        1.0
        """
        self._check_begun("choose_alpha")
        caller, n_jobs = f"{self._caller}.choose_alpha", self._threads()
        given = self.alpha if alphas is None else alphas
        stream, rows = self.stream_, self._rows(X)
        ridges = [
            alpha + stream.functions.kernel.noise
            for alpha in check_alphas(given, len(stream.sums.targets), caller=caller)
        ]
        Y = self._target_columns(targets_in_memory(y, len(rows), caller=caller), caller=caller)
        regressions = [stream.regression(stream.sums, ridge, centred=self._centred) for ridge in ridges]
        errors = np.zeros(len(ridges))
        for piece in rows.pieces(caller=caller):
            Z, own = self._mapped(piece.values), Y[piece.start : piece.start + len(piece.values)]
            errors += [float(np.sum((each(Z, n_jobs) - own) ** 2)) for each in regressions]
        self._ridges = [ridges[int(errors.argmin())]]
        self._unsolved = True
        self._solve()
        return self

    def _check_begun(self, method: str) -> None:
        check_is_fitted(self)
        if not hasattr(self, "stream_"):
            raise ValueError(
                f"{self._caller}.{method} goes on where partial_fit, or fit of rows on disk, has begun. Got a model "
                "that was fitted in memory or loaded instead."
            )

    def begin_stream(self) -> None:
        """Make a fit in memory the beginning of a stream; `partial_fit` does so itself."""
        check_is_fitted(self)
        self._begins_stream()

    def without_state(self) -> Any:
        """Return a copy that predicts, without the state of a stream."""
        self._solve()
        lean = copy.copy(self)
        lean._forget(*lean._unsaved)
        return lean

    def _begins_stream(self) -> bool:
        """Return whether the next rows are the first ones; a fit in memory becomes the beginning of a stream."""
        if hasattr(self, "stream_"):
            return False
        kernels = self._fitted_kernels()
        if kernels:
            self._resume(kernels)
        return not kernels

    def _resume(self, kernels: list[Kernel]) -> None:
        """Begin with the points, the kernel and the ridge of a fit in memory."""
        first: Batch | None = getattr(self, "_learnt_from", None)
        if first is None:
            raise ValueError(
                f"{self._caller}.partial_fit goes on after a fit that kept its points. Got a model that was loaded, or "
                "fitted with keep_points=False, instead: begin with partial_fit."
            )
        if any(kernel is not kernels[0] for kernel in kernels):
            raise ValueError(
                f"{self._caller}.partial_fit takes one kernel for all classes. Got {len(kernels)} kernels instead."
            )
        of_sample, _, *streams = self._streams(4)
        drawn = sample_rows(len(first.X), of_sample)
        weights = None if first.weights is None else first.weights[drawn]
        sample = Batch(self._mapped(first.X[drawn]), first.Y[drawn], weights)
        ridges = np.broadcast_to(np.asarray(self.alpha_, dtype=np.float64), first.Y.shape[1])
        self._start(sample, kernels[0], [ridges], streams)
        self._forget(*_IN_MEMORY)
        self._read(ArrayRows(first.X), first.Y, first.weights)

    def _rows(self, X: Any, *, first: bool = False) -> Rows:
        """Return points as rows; raise where they have other columns than the rows before."""
        if not is_streamed(X):
            return ArrayRows(self._validated(X, reset=first))
        rows = as_rows(X, n_features=None if first else self.n_features_in_, caller=self._caller)
        if first:
            self.n_features_in_ = rows.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        return rows

    def _read(self, rows: Rows, Y: FloatArray, weights: FloatArray | None) -> None:
        """Add rows to the sums; the first rows determine the functions."""
        caller = f"{self._caller}.fit"
        if not hasattr(self, "stream_"):
            of_sample, *streams = self._streams(4)
            drawn = sample_rows(len(rows), of_sample)
            points = rows.take(drawn, caller=caller).astype(np.float64, copy=False)
            self._begin(Batch(points, Y[drawn], None if weights is None else weights[drawn]), streams)
        with reporting(self.verbose > 0):
            self.add_sums(self._sums(self.stream_.functions, rows, Y, weights))

    def _sums(self, functions: BasisFunctions, rows: Rows, Y: FloatArray, weights: FloatArray | None) -> RidgeSums:
        """Return the sums over rows."""
        advance = advancing(len(rows))
        sums = RidgeSums.zero(functions.ranks, Y.shape[1])
        for piece in rows.pieces(caller=f"{self._caller}.fit"):
            at = slice(piece.start, piece.start + len(piece.values))
            batch = Batch(self._mapped(piece.values), Y[at], None if weights is None else weights[at])
            sums = sums.plus(sums_of(functions, batch, self._threads()))
            advance("rows", len(piece.values))
        return sums

    def add_sums(self, sums: RidgeSums) -> None:
        """Add the sums over more rows to the state."""
        self.stream_ = self.stream_.plus(sums)
        self.far_share_ = sums.n_far / sums.n_rows
        self._unsolved = True

    def _begin(self, sample: Batch, streams: list[np.random.Generator]) -> None:
        """Choose the kernel and compute the functions from a sample of rows."""
        of_choices, of_matrix, of_held_out = streams
        X, Y, weights = sample.X, sample.Y, sample.weights
        center = np.average(Y, axis=0, weights=weights) if self._centred else np.zeros(Y.shape[1])
        choices = self._choices(X, Y - center, weights, of_choices)
        if len(choices.bandwidths) > 1:
            raise ValueError(
                f"The 'bandwidth' parameter of {self._caller} must be one bandwidth for rows that are read in pieces. "
                f"Got {len(choices.bandwidths)} candidates instead: choose among them on a sample in memory."
            )
        kernel = make_kernel(choices.kernel, choices.bandwidths[0], caller=self._caller)
        self.bandwidth_, self.alpha_ = bandwidth_of(kernel), float(choices.alphas[0][0])
        self._forget(*_IN_MEMORY)
        self._keep_choices(choices, X)
        self._start(replace(sample, X=self._mapped(X)), kernel, choices.alphas, [of_matrix, of_held_out])

    def _start(
        self, sample: Batch, kernel: Kernel, alphas: list[FloatArray], streams: list[np.random.Generator]
    ) -> None:
        """Compute the functions from a sample of rows, given in the columns that the kernel is a function of."""
        of_matrix, of_held_out = streams
        A = self._factorize_sample(sample.X, kernel, of_matrix)
        self.stream_ = Stream.begin(A, sample, of_held_out, self._threads())
        self._ridges = [alpha + kernel.noise for alpha in alphas]

    def _solve(self) -> None:
        """Solve for the rows added since the last solution, if there are any."""
        if getattr(self, "_unsolved", False):
            solved = self.stream_.solved(self._ridges, centred=self._centred, n_jobs=self._threads())
            self.local_share_ = np.zeros(len(solved.alpha))
            self._keep_solved(solved)
            if hasattr(self, "best_params_"):
                self.best_params_ = self.best_params_ | {"alpha": float(np.ravel(self.alpha_)[0])}
            self._unsolved = False

    def _check_X(self, X: Any, *, reset: bool) -> FloatArray:
        if not reset:
            self._solve()
        return super()._check_X(X, reset=reset)

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Parameters and all that predictions need, for `blockbasis.save`."""
        self._solve()
        return super().describe()


def sample_rows(n: int, rng: np.random.Generator) -> IntArray:
    """Return the rows that determine the functions, ascending: all of them, or a sample."""
    return np.arange(n) if n <= SAMPLE_ROWS else np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
