"""State of a regression that learns from rows in pieces: basis functions of a sample, and sums of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from blockbasis.estimators._blending import Blend
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.streaming.functions import BasisFunctions
from blockbasis.streaming.sources import as_rows, is_streamed

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis

#: Rows of the sample that choose the ridge and show the residuals: at most so many, and at most this share.
_HELD_OUT = 2_000
_HELD_OUT_SHARE = 0.2

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Batch:
    """Points with their targets, and their weights or None."""

    X: FloatArray
    Y: FloatArray
    weights: FloatArray | None


@dataclass(frozen=True, eq=False)
class Regression:
    """A function of new points: ``center`` plus an expansion, for each target."""

    center: FloatArray
    expansion: Expansion

    def __call__(self, X: FloatArray, n_jobs: int) -> FloatArray:
        return self.expansion(X, n_jobs) + self.center


@dataclass(frozen=True, eq=False)
class Solved:
    """The regression of all rows, and the test of its ridge.

    Parameters
    ----------
    alpha : ndarray of shape (n_targets,)
        Ridge.
    regression : Regression
    held_out : ndarray of shape (m, n_targets)
        Predictions at the held-out rows, by the regression of all other rows with the same ridge.
    """

    alpha: FloatArray
    regression: Regression
    held_out: FloatArray


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
    held_out : Batch
        Some rows of the sample. They are part of ``sums``.
    held_out_sums : RidgeSums
        Over these rows: a regression is tested at rows that are subtracted from its sums.
    """

    functions: BasisFunctions
    blend: Blend
    sums: RidgeSums
    held_out: Batch
    held_out_sums: RidgeSums

    @classmethod
    def begin(cls, A: BlockBasis, sample: Batch, rng: np.random.Generator, n_jobs: int) -> Stream:
        """Return the state before any row is added, from the factorization of a sample of rows."""
        functions = BasisFunctions.of(A)
        usable = np.arange(len(sample.X)) if sample.weights is None else np.flatnonzero(sample.weights)
        count = max(1, min(_HELD_OUT, int(_HELD_OUT_SHARE * len(usable))))
        rows = np.sort(rng.choice(usable, count, replace=False))
        own = np.ones(count) if sample.weights is None else sample.weights[rows]
        held_out = Batch(sample.X[rows], sample.Y[rows], own)
        blend = Blend.of(A.partition, functions.kernel.coordinates(sample.X))
        zero = RidgeSums.zero(functions.ranks, sample.Y.shape[1])
        return cls(functions, blend, zero, held_out, zero.plus(sums_of(functions, held_out, n_jobs)))

    def plus(self, more: RidgeSums) -> Stream:
        """Return the state after more rows, given their sums."""
        return replace(self, sums=self.sums.plus(more))

    def extended(self, A: BlockBasis) -> Stream:
        """Return the state with the clusters of another factorization beside its own."""
        functions = self.functions.plus(BasisFunctions.of(A))
        both = (each.padded(functions) for each in (self.sums, self.held_out_sums))
        return replace(self, functions=functions, sums=next(both), held_out_sums=next(both))

    def solved(self, alphas: Sequence[FloatArray], *, centred: bool, n_jobs: int) -> Solved:
        """Return the regression of all rows, with the ridge of least squared error at the held-out rows."""
        others = self.sums.plus(self.held_out_sums, -1)
        if others.n_rows == 0:  # all rows are held out: no others are left
            others = self.sums
        tested: list[tuple[float, FloatArray, FloatArray]] = []
        for alpha in alphas:
            values = self.regression(others, alpha, centred=centred)(self.held_out.X, n_jobs)
            errors = ((values - self.held_out.Y) ** 2).mean(axis=1)
            tested.append((float(np.average(errors, weights=self.held_out.weights)), alpha, values))
        _, alpha, values = min(tested, key=lambda each: each[0])
        return Solved(alpha, self.regression(self.sums, alpha, centred=centred), values)

    def regression(self, sums: RidgeSums, alpha: FloatArray, *, centred: bool) -> Regression:
        """Return the regression of the points of some sums."""
        functions = self.functions
        center = sums.mean() if centred else np.zeros(len(sums.targets))
        weights = sums.solve(functions.inner, alpha, center)
        points = tuple(extension.points for extension in functions.extensions)
        own = tuple(e.coefficients @ w for e, w in zip(functions.extensions, weights, strict=True))
        return Regression(center, Expansion(functions.kernel, functions.centers, points, own, self.blend))


def sums_of(functions: BasisFunctions, batch: Batch, n_jobs: int) -> RidgeSums:
    """Return the sums over a batch of points."""
    return RidgeSums.of(functions, batch.X, batch.Y, batch.weights, n_jobs)


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
