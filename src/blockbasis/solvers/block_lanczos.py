"""Extreme eigenvalues of a symmetric matrix or of a symmetric-definite pencil, by restarted block Lanczos iteration.

A product with an exact kernel matrix evaluates all entries. A product with a block of vectors takes little longer than
a product with one vector. The Rayleigh-Ritz method is therefore applied to the space of all blocks since the last
restart, and not to the last block only, as in power iteration. With a preconditioner this is Davidson's method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import symmetric
from blockbasis._utils.typing import FloatArray, IntArray

#: Number of vectors of a block: a product with an exact kernel matrix takes little longer than with one vector.
_BLOCK = 8
#: Number of basis vectors at which the iteration restarts: it bounds the memory.
_MAX_SPACE = 48
#: Relative norm, outside the current space, below which a new direction is rounding.
_DEPENDENT = 1e-10

PencilProduct = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class ExtremeEigenvalues:
    """Estimates of the smallest and the largest eigenvalue of M y = theta N y.

    Parameters
    ----------
    values : ndarray of shape (2,)
        Smallest and largest Ritz value; both lie between the extreme eigenvalues.
    bounds : ndarray of shape (2,)
        Residual bounds: some eigenvalue lies within ``bounds[i]`` of ``values[i]``.
    iterations : int
        Number of block products.
    converged : bool
        Whether both ends met the convergence test.
    """

    values: FloatArray
    bounds: FloatArray
    iterations: int
    converged: bool


def extreme_eigenvalues(
    pencil: PencilProduct,
    n: int,
    *,
    converged: Callable[[FloatArray, FloatArray], FloatArray],
    max_iter: int,
    rng: np.random.Generator,
    floor: float = 1.0,
    precondition: Callable[[FloatArray], FloatArray] | None = None,
) -> ExtremeEigenvalues:
    """Compute the smallest and the largest eigenvalue of the pencil (M, N), M symmetric and N positive definite.

    Parameters
    ----------
    pencil : callable
        Function V -> (M V, N V).
    n : int
        Order of the matrices.
    converged : callable
        Convergence test (values, bounds) -> boolean array with one entry for each end.
    max_iter : int
        Largest number of block products.
    rng : Generator
        Draws the starting block.
    floor : float, default=1.0
        Lower bound of the eigenvalues of N, from which the residual bounds are computed.
    precondition : callable, default=None
        Function R -> Z with N Z ~ R for residuals R.

    Returns
    -------
    ExtremeEigenvalues

    Raises
    ------
    numpy.linalg.LinAlgError
        If N is not positive definite.
    """
    new = np.linalg.qr(rng.standard_normal((n, min(_BLOCK, n))))[0]
    space, M_space, N_space = (np.empty((n, 0)) for _ in range(3))
    for iteration in range(1, max_iter + 1):
        M_new, N_new = pencil(new)
        space = np.hstack((space, new))
        M_space = np.hstack((M_space, M_new))
        N_space = np.hstack((N_space, N_new))
        values, vectors = linalg.eigh(symmetric(space.T @ M_space), symmetric(space.T @ N_space))
        ends = vectors[:, [0, -1]]
        bounds = np.linalg.norm(M_space @ ends - (N_space @ ends) * values[[0, -1]], axis=0) / np.sqrt(floor)
        ready = converged(values[[0, -1]], bounds)
        if ready.all() or len(values) == n:
            return ExtremeEigenvalues(values[[0, -1]], bounds, iteration, True)
        sought = _outermost(len(values), _BLOCK, ~ready)
        residuals = M_space @ vectors[:, sought] - (N_space @ vectors[:, sought]) * values[sought]
        new = _new_directions(residuals if precondition is None else precondition(residuals), space)
        if new.shape[1] == 0:
            break
        if space.shape[1] + new.shape[1] > _MAX_SPACE:
            # QR of the coordinates of the outermost Ritz vectors gives an orthonormal basis of their span.
            kept = np.linalg.qr(vectors[:, _outermost(len(values), _MAX_SPACE // 2, np.array([True, True]))])[0]
            space, M_space, N_space = space @ kept, M_space @ kept, N_space @ kept
    return ExtremeEigenvalues(values[[0, -1]], bounds, iteration, False)


def _outermost(count: int, wanted: int, ends: FloatArray) -> IntArray:
    """Return the indices of ``wanted`` outermost of ``count`` values, shared evenly among the ends that are True."""
    per_end = wanted // int(ends.sum())
    first, last = (per_end if end else 0 for end in ends)
    return np.array([i for i in range(count) if i < first or i >= count - last], dtype=np.intp)


def _new_directions(candidates: FloatArray, space: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the components of the candidates orthogonal to the space."""
    lengths = np.linalg.norm(candidates, axis=0)
    candidates = candidates[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):  # one projection is not orthogonal to working precision
        candidates = candidates - space @ (space.T @ candidates)
    Q, R, _ = linalg.qr(candidates, mode="economic", pivoting=True, check_finite=False)
    return np.asarray(Q[:, np.abs(np.diagonal(R)) > _DEPENDENT])
