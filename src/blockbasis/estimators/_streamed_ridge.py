"""Ridge regression of rows that arrive in pieces: files larger than memory, streams, and parts on several machines.

A sample of the rows determines kernel, clusters, basis functions and inner matrix. All other rows only add to sums of
fixed size: see `blockbasis.streaming.sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from blockbasis._api import factorize
from blockbasis._utils.progress import advancing, reporting
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis._utils.validation import check_integer
from blockbasis.estimators._base import KernelEstimator, bandwidth_of, make_kernel
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._ridge_path import Choices
from blockbasis.kernels import Kernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.streaming.factorization import SAMPLE_ROWS
from blockbasis.streaming.functions import BasisFunctions
from blockbasis.streaming.sources import Rows, as_rows, is_streamed
from blockbasis.streaming.sums import RidgeSums

#: Rows of the sample that choose the ridge and show the residuals: at most so many, and at most this share.
_HELD_OUT = 2_000
_HELD_OUT_SHARE = 0.2
#: Where the size of the factorization is not given: points of the sample for each cluster, largest number of clusters,
#: and functions of a cluster. Their total bounds the size of C and the time of a solution.
_POINTS_PER_CLUSTER = 600
_MAX_CLUSTERS = 100
_RANK = 60

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Stream:
    """All that a regression keeps of the rows it has learnt from.

    Parameters
    ----------
    functions : BasisFunctions
    blend : Blend
        Width of the borders between clusters in predictions.
    sums : RidgeSums
        Over all rows.
    held_out : ndarray of shape (m, d)
        Some of the rows. They are part of the sums, and are subtracted from them where a regression is tested.
    targets : ndarray of shape (m, n_targets)
        Of these rows.
    weights : ndarray of shape (m,)
        Of these rows.
    """

    functions: BasisFunctions
    blend: Blend
    sums: RidgeSums
    held_out: FloatArray
    targets: FloatArray
    weights: FloatArray

    @classmethod
    def begin(
        cls, A: BlockBasis, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator
    ) -> Stream:
        """Return the state before any row is added, from the factorization of a sample of rows."""
        functions = BasisFunctions.of(A)
        count = min(_HELD_OUT, int(_HELD_OUT_SHARE * len(X)))
        rows = np.sort(rng.choice(len(X), count, replace=False))
        own = np.ones(count) if weights is None else weights[rows]
        blend = Blend.of(A.partition, functions.kernel.coordinates(X))
        return cls(functions, blend, RidgeSums.zero(functions, Y.shape[1]), X[rows], Y[rows], own)

    def plus(self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, n_jobs: int) -> Stream:
        """Return the state after more rows."""
        return replace(self, sums=self.sums.plus(RidgeSums.of(self.functions, X, Y, weights, n_jobs)))

    def solved(self, alphas: Sequence[FloatArray], *, centred: bool, n_jobs: int) -> Solved:
        """Return the regression of all rows, with the ridge of least squared error at the held-out rows."""
        without = self._without_held_out(n_jobs)
        tested: list[tuple[float, FloatArray, FloatArray]] = []
        for alpha in alphas:
            predicted = self._regression(without, alpha, centred)
            values = predicted.expansion(self.held_out, n_jobs) + predicted.center
            error = float(np.average(((values - self.targets) ** 2).mean(axis=1), weights=self.weights))
            tested.append((error, alpha, values))
        best = min(tested, key=lambda each: each[0])
        final = self._regression(self.sums, best[1], centred)
        return Solved(best[1], final.center, final.expansion, best[2], [each[0] for each in tested])

    def _without_held_out(self, n_jobs: int) -> RidgeSums:
        """Return the sums without the held-out rows, or all of them where no others are left."""
        own = RidgeSums.of(self.functions, self.held_out, self.targets, self.weights, n_jobs)
        return self.sums.plus(own, -1) if self.sums.n_rows > own.n_rows else self.sums

    def _regression(self, sums: RidgeSums, alpha: FloatArray, centred: bool) -> _Regression:
        functions = self.functions
        center = sums.mean() if centred else np.zeros(len(sums.targets))
        weights = sums.solve(functions.inner, alpha, center)
        points = tuple(extension.points for extension in functions.extensions)
        own = tuple(e.coefficients @ w for e, w in zip(functions.extensions, weights, strict=True))
        return _Regression(center, Expansion(functions.kernel, functions.centers, points, own, self.blend))


@dataclass(frozen=True, eq=False)
class _Regression:
    center: FloatArray
    expansion: Expansion


@dataclass(frozen=True, eq=False)
class Solved:
    """A regression of all rows.

    Parameters
    ----------
    alpha : ndarray of shape (n_targets,)
        Ridge.
    center : ndarray of shape (n_targets,)
        Mean of the targets, which the expansion is without.
    expansion : Expansion
    held_out : ndarray of shape (m, n_targets)
        Predictions at the held-out rows, by the regression of all other rows with the same ridge.
    errors : list of float
        Mean squared error at the held-out rows for each ridge.
    """

    alpha: FloatArray
    center: FloatArray
    expansion: Expansion
    held_out: FloatArray
    errors: list[float]


def by_pieces(method: Method) -> Method:
    """A method of points whose result for rows on disk is put together from the results for their pieces."""

    @wraps(method)
    def of_rows(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if not is_streamed(X):
            return method(self, X, *arguments, **named)
        caller = f"{type(self).__name__}.{method.__name__}"
        found = [method(self, piece.values, *arguments, **named) for piece in as_rows(X).pieces(caller=caller)]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
        return np.concatenate(found)

    return cast(Method, of_rows)


class StreamedRidge(KernelEstimator):
    """Ridge regressions that learn from rows in pieces: state, sums and solution."""

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

    @property
    def _centred(self) -> bool:
        """Whether the targets are centred."""
        raise NotImplementedError

    def _begins_stream(self) -> bool:
        """Return whether the next rows are the first ones; raise where a fit in memory cannot go on."""
        if hasattr(self, "stream_"):
            return False
        if hasattr(self, "expansion_") or hasattr(self, "expansions_"):
            raise ValueError(
                f"{self._caller}.partial_fit goes on where partial_fit, or fit of rows on disk, has begun. Got a model that "
                "was fitted in memory instead: begin with partial_fit, or fit blockbasis.streaming.ArrayRows(X)."
            )
        return True

    def _check_rows(self, X: Any, *, first: bool) -> Rows:
        """Return rows on disk; raise where they have other columns than the rows before."""
        rows = as_rows(X)
        if first:
            self.n_features_in_ = rows.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {self._caller} is expecting {self.n_features_in_} features as input."
            )
        return rows

    def _check_n_targets(self, count: int) -> None:
        expected = len(self.stream_.sums.targets)
        if count != expected:
            raise ValueError(
                f"The 'y' parameter of {self._caller}.partial_fit must have {expected} targets, as in the first call. "
                f"Got {count} instead."
            )

    def _read(self, rows: Rows, Y: FloatArray, weights: FloatArray | None, *, first: bool) -> None:
        """Add rows to the sums; the first rows determine the functions."""
        of_sample, of_choices, of_matrix, of_held_out = self._streams(4)
        if first:
            drawn = _sample_of(len(rows), of_sample)
            sample = rows.take(drawn, caller=f"{self._caller}.fit").astype(np.float64, copy=False)
            own = None if weights is None else weights[drawn]
            self._begin(sample, Y[drawn], own, (of_choices, of_matrix, of_held_out))
        stream, n_jobs = self.stream_, self._threads()
        with reporting(self.verbose > 0):
            advance = advancing(len(rows))
            for piece in rows.pieces(caller=f"{self._caller}.fit"):
                at = slice(piece.start, piece.start + len(piece.values))
                stream = stream.plus(
                    self._mapped(piece.values), Y[at], None if weights is None else weights[at], n_jobs
                )
                advance("rows", len(piece.values))
        self.stream_ = stream
        self.far_share_ = stream.sums.n_far / stream.sums.n_rows
        self._unsolved = True

    def _begin(
        self,
        X: FloatArray,
        Y: FloatArray,
        weights: FloatArray | None,
        streams: tuple[np.random.Generator, np.random.Generator, np.random.Generator],
    ) -> None:
        """Choose the kernel and compute the functions from a sample of rows."""
        of_choices, of_matrix, of_held_out = streams
        center = np.average(Y, axis=0, weights=weights) if self._centred else np.zeros(Y.shape[1])
        choices = self._choices(X, Y - center, weights, of_choices)
        if len(choices.bandwidths) > 1:
            raise ValueError(
                f"The 'bandwidth' parameter of {self._caller} must be one bandwidth for rows that are read in pieces. "
                f"Got {len(choices.bandwidths)} candidates instead: choose among them on a sample in memory."
            )
        kernel = make_kernel(choices.kernel, choices.bandwidths[0], caller=self._caller)
        self.alpha_ = float(choices.alphas[0][0])
        self.bandwidth_ = bandwidth_of(kernel)
        self._keep_choices(choices, X)
        Z = self._mapped(X)
        self.stream_ = Stream.begin(self._sample_factorization(Z, kernel, of_matrix), Z, Y, weights, of_held_out)
        self._ridges = [alpha + kernel.noise for alpha in choices.alphas]

    def _sample_factorization(self, X: FloatArray, kernel: Kernel, rng: np.random.Generator) -> BlockBasis:
        """Factorize a sample, in 60 functions for each of at most 100 clusters where nothing else is asked for."""
        if any(each is not None for each in (self.tol, self.memory, self.rank)):
            return self._factorize(X, kernel, rng)
        k = self.n_clusters or int(np.clip(len(X) // _POINTS_PER_CLUSTER, 1, _MAX_CLUSTERS))
        k = min(check_integer(k, name="n_clusters", caller=self._caller, low=1), len(X))
        rank = min(_RANK, max(1, len(X) // (2 * k)))
        shared: dict[str, Any] = {"diagonal": False, "rng": rng, "n_jobs": self.n_jobs, "progress": self.verbose > 0}
        A = factorize(X, kernel.without_noise(), rank=rank, n_clusters=k, **shared)
        return replace(A, kernel=kernel)

    def _solve(self) -> None:
        """Solve for the rows added since the last solution, if there are any."""
        if getattr(self, "_unsolved", False):
            solved = self.stream_.solved(self._ridges, centred=self._centred, n_jobs=self._threads())
            self._keep_solved(solved)
            self._unsolved = False

    def _check_X(self, X: Any, *, reset: bool) -> FloatArray:
        if not reset:
            self._solve()
        return super()._check_X(X, reset=reset)

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Parameters and all that `fit` has set, for `blockbasis.save`."""
        self._solve()
        return super().describe()


def _sample_of(n: int, rng: np.random.Generator) -> IntArray:
    """Return the rows that determine the functions, ascending: all of them, or a sample."""
    return np.arange(n) if n <= SAMPLE_ROWS else np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))


def targets_in_memory(y: Any, n: int, *, caller: str) -> npt.NDArray[Any]:
    """Return the targets of rows on disk: an array, or what is read from rows of targets."""
    if is_streamed(y):
        values = np.concatenate([piece.values for piece in as_rows(y).pieces(name="y", caller=caller)])
        values = values[:, 0] if values.shape[1] == 1 else values
    else:
        values = np.asarray(y)
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"The 'y' parameter of {caller} must have a target for each of the {n} rows. Got shape {values.shape} "
            "instead."
        )
    return values
