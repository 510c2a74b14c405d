"""Ridge regressions of uncompressed kernel matrices, by Cholesky factorization."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis._utils import machine, tiled_cholesky
from blockbasis._utils.linalg import exponents_of
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.progress import counting
from blockbasis._utils.tiling import tiles

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.kernels import Kernel

#: Above this number of points, the matrix is in float32 if the ridge permits it, at half of the memory and time.
_DOUBLE_POINTS = 16_000
#: Rows above which a matrix is factorized by tiles, on several threads. On one thread tiles take a sixth more time.
_TILED_ROWS = 4_000
#: Ridges that a walk looks at, about: the first one, the best and one on each side of it.
_STEPS_OF_WALK = 3
#: Rows on which the pace of a factorization is measured.
_PILOT_ROWS = 500
#: Memory of a regression in units of the dense matrix, which is factorized and inverted in place, with its tiles.
_MATRICES = 1.25


def leave_one_out(
    K: FloatArray,
    Y: FloatArray,
    weights: FloatArray | None,
    alpha: float,
    n_jobs: int = 1,
    *,
    tiled_rows: int = _TILED_ROWS,
) -> tuple[FloatArray, FloatArray]:
    """Coefficients and leave-one-out residuals of a ridge regression.

    With a = (K + alpha / weights)^-1 y, the residual of point i is a_i divided by the i-th diagonal entry of the
    inverse.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Overwritten if its columns are contiguous. Its precision is that of the computation.
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
        Positive weights of the points.
    alpha : float
    n_jobs : int, default=1
        Number of threads. The result does not depend on it.
    tiled_rows : int
        Number of rows above which the matrix is factorized by tiles.

    Returns
    -------
    coefficients, left_out : ndarray of shape (n, n_targets)
        In the precision of K.

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite up to rounding errors.
    """
    shifted = np.asfortranarray(K)
    shifted[np.diag_indices_from(shifted)] += alpha if weights is None else alpha / weights
    tiled = len(shifted) > tiled_rows
    try:
        if tiled:
            factor = tiled_cholesky.factorize_in_place(shifted, n_jobs)
        else:
            factor = linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError as error:
        raise linalg.LinAlgError(f"the kernel matrix is not definite with a ridge of {alpha:.3g}") from error
    coefficients = np.asarray(linalg.cho_solve((factor, True), Y.astype(shifted.dtype), check_finite=False))
    if tiled:
        diagonal = tiled_cholesky.inverse_diagonal(factor, n_jobs)
    else:
        root, failed = linalg.get_lapack_funcs("trtri", (factor,))(factor, lower=True, overwrite_c=True)
        if failed:
            raise linalg.LinAlgError(f"the kernel matrix is singular with a ridge of {alpha:.3g}")
        diagonal = np.einsum("ij,ij->j", root, root)
    return coefficients, coefficients / diagonal[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class ExactRidge:
    """Ridge regression of a kernel matrix: coefficients and leave-one-out residuals, of shape (n, n_targets)."""

    alpha: float
    coefficients: FloatArray
    left_out: FloatArray


def ridge_walk(
    kernel: Kernel,
    X: FloatArray,
    Y: FloatArray,
    weights: FloatArray | None,
    alphas: Sequence[float],
    start: int,
    n_jobs: int = 1,
    *,
    double_points: int = _DOUBLE_POINTS,
) -> list[ExactRidge]:
    """Regressions for smaller and larger ridges as long as the mean squared leave-one-out residual decreases.

    Parameters
    ----------
    kernel : Kernel
        Kernel without white noise.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
    alphas : sequence of float
        Ridges in ascending order.
    start : int
        Index of the first ridge. Smaller ridges are tried next, and larger ones if the smaller are no better.
    n_jobs : int, default=1
        Number of threads.
    double_points : int
        Number of points above which the matrix is in float32 if the ridge permits it.

    Returns
    -------
    list of ExactRidge
        Regressions that were solved. Ridges with which the matrix is not positive definite are skipped.

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite with any ridge.
    MemoryError
        If the matrix does not fit into free memory.
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
                K = _matrix(kernel, double, alphas[place], weights, double_points)
                both = (each.astype(np.float64) for each in leave_one_out(K, Y, weights, alphas[place], n_jobs))
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


def _matrix(kernel: Kernel, X: FloatArray, alpha: float, weights: FloatArray | None, double_points: int) -> FloatArray:
    """Kernel matrix in Fortran order, in float32 if it is large and the ridge exceeds the rounding errors."""
    n, least = len(X), alpha if weights is None else alpha / float(weights.max())
    if n <= double_points or least < n * float(np.finfo(np.float32).eps):
        return kernel(X).T
    K: FloatArray = np.empty((n, n), dtype=np.float32, order="F")
    for tile in tiles(n, n):
        K[:, tile] = kernel(X, X[tile])
    return K


def mean_square(residuals: FloatArray, exponent: int, weights: FloatArray | None) -> float:
    """Mean square of residuals divided by a power of two, since their squares can overflow or underflow."""
    return float(np.average((np.ldexp(residuals, -exponent) ** 2).mean(axis=1), weights=weights))


def walk(error: Callable[[int], float], start: int, limits: tuple[int, int]) -> int:
    """Local minimum of an error within the limits: from ``start`` down, and up if that is no better."""
    best, (first, last) = start, limits
    while not math.isfinite(error(best)) and best < last:
        best += 1
    for step in (-1, 1):
        while first <= best + step <= last and error(best + step) < error(best):
            best += step
    return best


def seconds_of_walk(n: int, steps: int) -> float:
    """Estimated time of ``steps`` regressions of ``n`` points."""
    return steps * _pace() * n**3


def rows_of_walk(seconds: float, steps: int) -> int:
    """Number of points for which ``steps`` regressions take a given time."""
    return int((seconds / (steps * _pace())) ** (1 / 3))


def _pace() -> float:
    """Measured seconds of a regression divided by the cube of the number of points."""
    begun = time.perf_counter()
    with single_threaded():
        leave_one_out(np.eye(_PILOT_ROWS, order="F"), np.ones((_PILOT_ROWS, 1)), None, 1.0)
    return (time.perf_counter() - begun) / _PILOT_ROWS**3
