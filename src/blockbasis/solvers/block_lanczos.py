"""Both ends of the spectrum of a symmetric matrix, or of a pencil, from few products with blocks of vectors.

Every product with an exact kernel matrix evaluates all its entries, and with many vectors costs little more than with
one. So the method is block Lanczos with restarts: where power iteration keeps the last image of its vectors only, the
extremes are sought among all images of the last rounds. With a preconditioner it is known as Davidson's method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._utils.typing import FloatArray, IntArray

#: Vectors in a product, and vectors kept before a restart.
_BLOCK = 8
_KEPT_AT_MOST = 48
#: New directions that hold less than this of their length outside the space kept are rounding.
_DEPENDENT = 1e-10

Pencil = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest eigenvalue of M y = theta N y.

    Parameters
    ----------
    values : ndarray of shape (2,)
        Smallest and largest Rayleigh quotient seen: they lie inside the spectrum.
    bounds : ndarray of shape (2,)
        An eigenvalue lies within this distance of each.
    iterations : int
        Block products made.
    converged : bool
    """

    values: FloatArray
    bounds: FloatArray
    iterations: int
    converged: bool


def extreme_eigenvalues(
    pencil: Pencil,
    n: int,
    *,
    settled: Callable[[FloatArray, FloatArray], FloatArray],
    max_iter: int,
    rng: np.random.Generator,
    floor: float = 1.0,
    precondition: Callable[[FloatArray], FloatArray] | None = None,
) -> Extremes:
    """Smallest and largest eigenvalue of the pencil (M, N), M symmetric and N positive definite.

    Parameters
    ----------
    pencil : callable
        V -> (M V, N V).
    n : int
    settled : callable
        (values, bounds) -> for each of the two ends, whether it needs no more work.
    max_iter : int
        Block products at the most.
    rng : Generator
        Draws the starting block.
    floor : float, default=1.0
        A number that no eigenvalue of N is below: the bounds follow from it.
    precondition : callable, default=None
        Residuals R -> roughly the solutions of N Z = R.

    Raises
    ------
    numpy.linalg.LinAlgError
        When N is not positive definite.
    """
    new = np.linalg.qr(rng.standard_normal((n, min(_BLOCK, n))))[0]
    space, left, right = (np.empty((n, 0)) for _ in range(3))
    for iteration in range(1, max_iter + 1):
        of_left, of_right = pencil(new)
        space = np.hstack((space, new))
        left = np.hstack((left, of_left))
        right = np.hstack((right, of_right))
        values, vectors = linalg.eigh(_symmetric(space.T @ left), _symmetric(space.T @ right))
        ends = vectors[:, [0, -1]]
        bounds = np.linalg.norm(left @ ends - (right @ ends) * values[[0, -1]], axis=0) / np.sqrt(floor)
        ready = settled(values[[0, -1]], bounds)
        if ready.all() or len(values) == n:
            return Extremes(values[[0, -1]], bounds, iteration, True)
        sought = _outermost(len(values), _BLOCK, ~ready)
        residuals = left @ vectors[:, sought] - (right @ vectors[:, sought]) * values[sought]
        new = _new_directions(residuals if precondition is None else precondition(residuals), space)
        if new.shape[1] == 0:
            break
        if space.shape[1] + new.shape[1] > _KEPT_AT_MOST:
            # Orthonormal coordinates of the outermost vectors leave an orthonormal space.
            kept = np.linalg.qr(vectors[:, _outermost(len(values), _KEPT_AT_MOST // 2, np.array([True, True]))])[0]
            space, left, right = space @ kept, left @ kept, right @ kept
    return Extremes(values[[0, -1]], bounds, iteration, False)


def _symmetric(M: FloatArray) -> FloatArray:
    return (M + M.T) / 2


def _outermost(count: int, wanted: int, ends: FloatArray) -> IntArray:
    """Positions of the first, of the last, or of half as many of both of ``count`` values."""
    per_end = wanted // int(ends.sum())
    first, last = (per_end if end else 0 for end in ends)
    return np.array([i for i in range(count) if i < first or i >= count - last], dtype=np.intp)


def _new_directions(candidates: FloatArray, space: FloatArray) -> FloatArray:
    """An orthonormal basis of what the candidates add to the space."""
    lengths = np.linalg.norm(candidates, axis=0)
    candidates = candidates[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):  # once leaves rounding behind
        candidates = candidates - space @ (space.T @ candidates)
    Q, R, _ = linalg.qr(candidates, mode="economic", pivoting=True, check_finite=False)
    return np.asarray(Q[:, np.abs(np.diagonal(R)) > _DEPENDENT])
