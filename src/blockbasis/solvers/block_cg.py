"""Conjugate gradients for many right-hand sides at once, with a preconditioner.

Dubrulle's form of O'Leary's block method: the block of residuals is kept as Q G with Q orthonormal in the inner product
of the preconditioner, so that columns which converge early, depend on each other or repeat do no harm. Directions of
no size are dropped, and the block becomes narrower. With one right-hand side it is the usual method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blockbasis._utils.linalg import symmetric
from blockbasis._utils.typing import FloatArray

Map: TypeAlias = Callable[[FloatArray], FloatArray]

#: Squared size, against the largest, below which a direction of the block is rounding.
_DEPENDENT = 1e-14
#: Rounding lets the residual that is carried along drift from the true one; then the method starts again from there.
_MAX_RESTARTS = 10
#: A restart that leaves more than this share of the residual has met rounding.
_STAGNATION = 0.5


@dataclass(frozen=True, eq=False)
class Iterates:
    """What the iteration has come to.

    Parameters
    ----------
    X : ndarray of shape (n, m)
    residual : float
        Largest relative residual of a column, recomputed.
    history : list of float
        The same after each iteration, as carried along.
    indefinite : bool
        Whether a direction of no or negative curvature was met.
    """

    X: FloatArray
    residual: float
    history: list[float]
    indefinite: bool


def block_cg(
    apply: Map, B: FloatArray, *, precondition: Map, tol: float, max_iterations: int, watch: Callable[[float], None]
) -> Iterates:
    """Solve for every column of B, none of them zero, to relative residuals of ``tol``.

    Parameters
    ----------
    apply : callable
        Product with the symmetric positive definite matrix.
    B : ndarray of shape (n, m)
    precondition : callable
        Product with a symmetric positive definite approximation of its inverse.
    tol : float
    max_iterations : int
        Products with a block, those that recompute residuals not counted.
    watch : callable
        Called with the largest relative residual after each iteration.
    """
    sizes = np.linalg.norm(B, axis=0)
    goal = B / sizes
    X, residuals = np.zeros_like(goal), goal
    residual, history, indefinite = 1.0, list[float](), False
    for _ in range(_MAX_RESTARTS):
        before, steps = residual, len(history)
        correction, indefinite = _run(apply, residuals, precondition, tol, max_iterations, watch, history)
        candidate = X + correction
        left = goal - apply(candidate)
        found = _largest(left)
        if found < residual:
            X, residuals, residual = candidate, left, found
        done = residual <= tol or len(history) >= max_iterations
        if done or len(history) == steps or residual > _STAGNATION * before:
            break
    return Iterates(X * sizes, residual, history, indefinite and residual > tol)


def _run(
    apply: Map,
    R: FloatArray,
    precondition: Map,
    tol: float,
    max_iterations: int,
    watch: Callable[[float], None],
    history: list[float],
) -> tuple[FloatArray, bool]:
    """Correction for the residuals R, and whether it ended at a direction without positive curvature."""
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
        left = Q - images @ steps
        residual = _largest(left @ G)
        history.append(residual)
        watch(residual)
        if residual <= tol:
            break
        Q, P, ratio = _orthonormal(left, precondition(left))
        S = P + S @ ratio.T
        G = ratio @ G
    return correction, False


def _orthonormal(W: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Q, P and T with W = Q T, P = M Q and Qᵀ P = I, for Z = M W; directions of no size are left out."""
    factor = np.eye(W.shape[1])
    for _ in range(2):  # the second pass repairs what rounding in the first has left
        values, axes = np.linalg.eigh(symmetric(W.T @ Z))
        kept = values > _DEPENDENT * max(values[-1], 0.0) if len(values) else np.zeros(0, dtype=bool)
        roots, axes = np.sqrt(values[kept]), axes[:, kept]
        W, Z = W @ (axes / roots), Z @ (axes / roots)
        factor = (roots[:, np.newaxis] * axes.T) @ factor
    return W, Z, factor


def _largest(R: FloatArray) -> float:
    return float(np.linalg.norm(R, axis=0).max())
