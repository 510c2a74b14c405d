"""Preconditioned block conjugate gradients for several right-hand sides.

This is Dubrulle's variant of O'Leary's block method. It stores the block of residuals as Q G with Q orthonormal in the
inner product of the preconditioner. Columns that converge early or are linearly dependent do not break the iteration:
their directions are removed from the block. With one right-hand side it is the usual conjugate gradient method.

References
----------
D. P. O'Leary, "The block conjugate gradient algorithm and related methods", Linear Algebra and its Applications 29
(1980).
A. A. Dubrulle, "Retooling the method of block conjugate gradients", Electronic Transactions on Numerical Analysis 12
(2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blockbasis._utils.linalg import symmetric
from blockbasis._utils.typing import FloatArray

BlockFunction: TypeAlias = Callable[[FloatArray], FloatArray]

#: Squared norm, relative to the largest, below which a direction of the block is rounding: the square of 1e-7.
_DEPENDENT = 1e-14
#: Largest number of restarts. A restart replaces the recursively updated residual by the true one, from which it
#: departs by rounding.
_MAX_RESTARTS = 10
#: Residual after a restart, relative to the residual before, above which rounding prevents further progress.
_STAGNATION = 0.5


@dataclass(frozen=True, eq=False)
class BlockCGResult:
    """Result of `block_cg`.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Solutions.
    residual : float
        Largest relative residual of a column, computed from ``X``.
    history : list of float
        Largest relative residual after each iteration, updated recursively.
    indefinite : bool
        Whether the iteration stopped at a direction of zero or negative curvature.
    """

    X: FloatArray
    residual: float
    history: list[float]
    indefinite: bool


def block_cg(
    apply: BlockFunction,
    B: FloatArray,
    *,
    precondition: BlockFunction,
    tol: float,
    max_iterations: int,
    callback: Callable[[float], None],
) -> BlockCGResult:
    """Solve A X = B for a symmetric positive definite A.

    Parameters
    ----------
    apply : callable
        Function V -> A V.
    B : ndarray of shape (n, m)
        Right-hand sides; no column may be zero.
    precondition : callable
        Function R -> M R with a symmetric positive definite approximation M of the inverse of A.
    tol : float
        Relative residual of every column at which to stop.
    max_iterations : int
        Largest number of iterations. The products that recompute residuals do not count.
    callback : callable
        Function that is called with the largest relative residual after each iteration.

    Returns
    -------
    BlockCGResult
    """
    sizes = np.linalg.norm(B, axis=0)
    goal = B / sizes
    X, residuals = np.zeros_like(goal), goal
    residual, history, indefinite = 1.0, list[float](), False
    for _ in range(_MAX_RESTARTS):
        before, steps = residual, len(history)
        correction, indefinite = _run(apply, residuals, precondition, tol, max_iterations, callback, history)
        candidate = X + correction
        new_residuals = goal - apply(candidate)
        new_residual = _largest_norm(new_residuals)
        if new_residual < residual:
            X, residuals, residual = candidate, new_residuals, new_residual
        done = residual <= tol or len(history) >= max_iterations
        if done or len(history) == steps or residual > _STAGNATION * before:
            break
    return BlockCGResult(X * sizes, residual, history, indefinite and residual > tol)


def _run(
    apply: BlockFunction,
    R: FloatArray,
    precondition: BlockFunction,
    tol: float,
    max_iterations: int,
    callback: Callable[[float], None],
    history: list[float],
) -> tuple[FloatArray, bool]:
    """Iterate from the residuals R; return the correction and whether a direction had no positive curvature."""
    correction = np.zeros_like(R)
    Q, P, G = _orthonormal(R, precondition(R))
    S = P
    while Q.shape[1] and len(history) < max_iterations:
        images = apply(S)
        curvatures, axes = np.linalg.eigh(symmetric(S.T @ images))
        if not curvatures[0] > np.finfo(np.float64).eps * curvatures[-1]:
            return correction, True
        steps = (axes / curvatures) @ axes.T
        correction += S @ (steps @ G)
        residuals = Q - images @ steps
        residual = _largest_norm(residuals @ G)
        history.append(residual)
        callback(residual)
        if residual <= tol:
            break
        Q, P, ratio = _orthonormal(residuals, precondition(residuals))
        S = P + S @ ratio.T
        G = ratio @ G
    return correction, False


def _orthonormal(W: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Q, P and T with W = Q T, P = M Q and Qᵀ P = I, for Z = M W, without negligible directions."""
    factor = np.eye(W.shape[1])
    for _ in range(2):  # the second pass restores the orthogonality that rounding lost in the first
        values, axes = np.linalg.eigh(symmetric(W.T @ Z))
        kept = values > _DEPENDENT * max(values[-1], 0.0) if len(values) else np.zeros(0, dtype=bool)
        roots, axes = np.sqrt(values[kept]), axes[:, kept]
        W, Z = W @ (axes / roots), Z @ (axes / roots)
        factor = (roots[:, np.newaxis] * axes.T) @ factor
    return W, Z, factor


def _largest_norm(R: FloatArray) -> float:
    """Return the largest Euclidean norm of a column."""
    return float(np.linalg.norm(R, axis=0).max())
