"""Relative Frobenius error of an approximation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.linalg import unit_columns
from blockbasis._utils.tiling import tiles
from blockbasis._utils.validation import check_integer, check_points, check_rng, check_shape
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.error_estimate import ErrorEstimate as ErrorEstimate

if TYPE_CHECKING:
    from blockbasis._utils.typing import IntArray, Seed


def relative_error(
    A: Any, X: Any, kernel: Any, *, Y: Any = None, n_rows: int | None = None, rng: Seed = None
) -> ErrorEstimate:
    """Compute the relative Frobenius error |K - A| / |K| of an approximation A of K(X, X) or of K(Y, X).

    Parameters
    ----------
    A : operator
        Operator with a ``shape`` and products ``A @ V``; if ``Y`` is given, also with products ``A.T @ V``.
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    Y : array-like of shape (m, d), default=None
        Points of the rows; None selects ``X``.
    n_rows : int, default=None
        Number of rows, sampled uniformly without replacement, from which the error is estimated. None selects all rows,
        for the exact error. The memory is bounded in both cases.
    rng : int, Generator or None
        Samples the rows.

    Returns
    -------
    ErrorEstimate
        Error with its standard error, which is zero for all rows.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=5, rank=30, rng=0)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 1e-2
    True
    """
    caller = "relative_error"
    X = check_points(X, name="X", caller=caller, dtype=np.float64)
    kernel = as_kernel(kernel, caller=caller)
    symmetric = Y is None
    if not symmetric:
        Y = check_points(Y, name="Y", caller=caller, n_features=X.shape[1], dtype=np.float64)
    n = X.shape[0] if symmetric else Y.shape[0]
    check_shape(A, (n, X.shape[0]), name="A", caller=caller)
    if n_rows is None:
        rows = np.arange(n)
    else:
        n_rows = check_integer(n_rows, name="n_rows", caller=caller, low=2, high=n)
        rows = np.sort(check_rng(rng, name="rng", caller=caller).choice(n, n_rows, replace=False))
    matrix = KernelMatrix(kernel, X) if symmetric else KernelMatrix(kernel, Y, X)
    errors, norms = row_energies(A if symmetric else A.T, matrix, rows)
    return _ratio_estimate(errors, norms, n)


def row_energies(transpose: Any, matrix: KernelMatrix, rows: IntArray) -> tuple[Any, Any]:
    """Return the squared norms of the given rows of K - A and of K; ``transpose`` is Aᵀ."""
    errors, norms = np.empty(len(rows)), np.empty(len(rows))
    for tile in tiles(len(rows), matrix.shape[1]):
        picked = rows[tile]
        exact = matrix.block(picked, slice(0, matrix.shape[1]))
        norms[tile] = np.einsum("ij,ij->i", exact, exact)
        exact -= (transpose @ unit_columns(matrix.shape[0], picked)).T
        errors[tile] = np.einsum("ij,ij->i", exact, exact)
    return errors, norms


def _ratio_estimate(errors: Any, norms: Any, population: int) -> ErrorEstimate:
    """Return sqrt(sum(errors) / sum(norms)) with its standard error for sampling without replacement.

    The standard error is that of the ratio estimator, by the delta method, with finite population correction.
    """
    if norms.sum() == 0:
        return ErrorEstimate(0.0 if errors.sum() == 0 else math.inf, 0.0, len(errors) == population)
    ratio = errors.sum() / norms.sum()
    value = math.sqrt(ratio)
    if len(errors) == population:
        return ErrorEstimate(value, 0.0, True)
    spread = np.std(errors - ratio * norms, ddof=1) / norms.mean()
    correction = math.sqrt((1 - len(errors) / population) / len(errors))
    return ErrorEstimate(value, float(spread * correction / (2 * value)) if value else 0.0, False)
