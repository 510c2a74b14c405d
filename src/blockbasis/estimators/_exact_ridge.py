"""Ridge regressions of the kernel matrix itself, where it has few enough rows for a Cholesky factorization."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._utils import machine
from blockbasis._utils.linalg import exponents_of
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.progress import counting
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray
from blockbasis.kernels import Kernel

#: More points than this have a matrix of float32 where the ridge allows it: half of the memory, and of the time.
_DOUBLE_POINTS = 16_000
#: Ridges that a walk looks at, about: the first one, the best and one on each side of it.
_STEPS_OF_WALK = 3
#: Rows on which the pace of a factorization is measured.
_PILOT_ROWS = 500
#: Dense matrices that a regression has at once: K, which is factorized and inverted in place, and what evaluates it.
_MATRICES = 1.2


def leave_one_out(
    K: FloatArray, Y: FloatArray, weights: FloatArray | None, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of a ridge regression, and the residual of each point predicted from all the others.

    With a = (K + alpha / weights)^-1 y the residual of point i is a_i over the i-th diagonal entry of the inverse.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Overwritten where its columns are contiguous. In float32 all is done in float32, in half of the time.
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
        Positive: how many times each point counts.
    alpha : float

    Returns
    -------
    coefficients, left_out : ndarray of shape (n, n_targets)
        In the precision of K.

    Raises
    ------
    LinAlgError
        Where the matrix is not definite to rounding.
    """
    shifted = np.asfortranarray(K)
    shifted[np.diag_indices_from(shifted)] += alpha if weights is None else alpha / weights
    potrf, trtri = linalg.get_lapack_funcs(("potrf", "trtri"), (shifted,))
    factor, failed = potrf(shifted, lower=True, clean=True, overwrite_a=True)
    if failed:
        raise linalg.LinAlgError(f"the kernel matrix is not definite with a ridge of {alpha:.3g}")
    coefficients = np.asarray(linalg.cho_solve((factor, True), Y.astype(shifted.dtype), check_finite=False))
    root, failed = trtri(factor, lower=True, overwrite_c=True)
    if failed:
        raise linalg.LinAlgError(f"the kernel matrix is singular with a ridge of {alpha:.3g}")
    inverse_diagonal = np.einsum("ij,ij->j", root, root)
    return coefficients, coefficients / inverse_diagonal[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class ExactRidge:
    """A ridge regression of a kernel matrix: coefficients and leave-one-out residuals, of shape (n, n_targets)."""

    alpha: float
    coefficients: FloatArray
    left_out: FloatArray


def ridge_walk(
    kernel: Kernel, X: FloatArray, Y: FloatArray, weights: FloatArray | None, alphas: Sequence[float], start: int
) -> list[ExactRidge]:
    """Regressions for one ridge after the other, as long as the mean squared leave-one-out residual falls.

    Parameters
    ----------
    kernel : Kernel
        Without white noise.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
    alphas : sequence of float
        Ascending.
    start : int
        The place among them from which the walk goes to smaller ridges, and to larger ones where these are no better.

    Returns
    -------
    list of ExactRidge
        All that were solved; ridges with which the matrix is not definite to rounding are passed over.

    Raises
    ------
    LinAlgError
        Where the matrix is not definite with any ridge.
    MemoryError
        Where the matrix does not fit into free memory.
    """
    remedy = "a compressed fit, by memory, rank or tol"
    machine.require_memory(int(_MATRICES * 8 * len(X) ** 2), remedy, what="regression")
    double, solved, errors = X.astype(np.float64, copy=False), list[ExactRidge](), dict[int, float]()
    expected, exponent = min(_STEPS_OF_WALK, len(alphas)), int(exponents_of(Y).max())
    count = counting("regression of all points", expected)

    def error(place: int) -> float:
        if place not in errors:
            errors[place] = math.inf
            with suppress(linalg.LinAlgError):
                K = _matrix(kernel, double, alphas[place], weights)
                both = (each.astype(np.float64) for each in leave_one_out(K, Y, weights, alphas[place]))
                found = ExactRidge(alphas[place], *both)
                errors[place] = mean_square(found.left_out, exponent, weights)
                solved.append(found)
            if len(errors) <= expected:
                count()
        return errors[place]

    with single_threaded():
        walk(error, start, (0, len(alphas) - 1))
    if not solved:
        raise linalg.LinAlgError(f"The kernel matrix is not definite with a ridge of {alphas[-1]:.3g}.")
    return solved


def _matrix(kernel: Kernel, X: FloatArray, alpha: float, weights: FloatArray | None) -> FloatArray:
    """The kernel matrix by contiguous columns, in float32 where it is large and the ridge is above the rounding."""
    n, least = len(X), alpha if weights is None else alpha / float(weights.max())
    if n <= _DOUBLE_POINTS or least < n * float(np.finfo(np.float32).eps):
        return kernel(X).T
    K: FloatArray = np.empty((n, n), dtype=np.float32, order="F")
    for tile in tiles(n, n):
        K[:, tile] = kernel(X, X[tile])
    return K


def mean_square(residuals: FloatArray, exponent: int, weights: FloatArray | None) -> float:
    """Mean square of residuals over a power of two: their own squares may overflow or vanish."""
    return float(np.average((np.ldexp(residuals, -exponent) ** 2).mean(axis=1), weights=weights))


def walk(error: Callable[[int], float], start: int, limits: tuple[int, int]) -> int:
    """The place between the limits from which no step lowers the error: down from ``start``, or else up."""
    best, (first, last) = start, limits
    while not math.isfinite(error(best)) and best < last:
        best += 1
    for step in (-1, 1):
        while first <= best + step <= last and error(best + step) < error(best):
            best += step
    return best


def seconds_of_walk(n: int, steps: int) -> float:
    """Time that so many regressions of ``n`` points take, by the pace of one of a few."""
    return steps * _pace() * n**3


def rows_of_walk(seconds: float, steps: int) -> int:
    """How many points so many regressions may have in a given time."""
    return int((seconds / (steps * _pace())) ** (1 / 3))


def _pace() -> float:
    """Seconds of a regression for each cube of the points."""
    begun = time.perf_counter()
    with single_threaded():
        leave_one_out(np.eye(_PILOT_ROWS, order="F"), np.ones((_PILOT_ROWS, 1)), None, 1.0)
    return (time.perf_counter() - begun) / _PILOT_ROWS**3
