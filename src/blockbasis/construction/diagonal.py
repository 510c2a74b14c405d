"""The diagonal part D, and the core C_ii of a cluster.

Blocks of low rank cannot represent the diagonal of a kernel of small bandwidth. The best D depends on the core, and the
best core on D, so that both are fitted in turn: the core to the block minus D, and D to the diagonal minus that of the
core.
"""

from __future__ import annotations

import numpy as np

from blockbasis._utils.linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis._utils.typing import FloatArray, IntArray

#: Over-relaxation of the updates of D. One update removes at most half of the difference: a factor below 2 is stable.
_OVER_RELAXATION = 1.6
#: The updates end when D changes by less than this share of the largest diagonal entry.
_CONVERGED = 1e-6
#: Rows of a basis are scaled down where their diagonal entry of U C Uᵀ exceeds that of K by this factor.
_EXCESS = 1.5


def fit_core(
    block: FloatArray,
    interpolation: FloatArray,
    determining: IntArray,
    values: FloatArray,
    own_entries: FloatArray,
    diagonal: FloatArray,
    largest: FloatArray,
    updates: int,
) -> tuple[FloatArray, FloatArray]:
    """Core C_ii and diagonal part of a cluster, fitted to each other on sampled rows.

    Parameters
    ----------
    block : ndarray of shape (m, m)
        Kernel entries between the determining rows.
    interpolation : ndarray of shape (r, m)
        Pseudo-inverse of ``values[determining]``.
    determining : ndarray of shape (m,)
        Positions of the determining rows among the sampled ones.
    values : ndarray of shape (n_rows, r)
        The basis on the sampled rows.
    own_entries : ndarray of shape (n_rows,)
        k(x, x) of the sampled rows.
    diagonal : ndarray of shape (n_rows,)
        The diagonal part to start from.
    largest : ndarray of shape (n_rows,)
        Upper bound of the diagonal part.
    updates : int

    Returns
    -------
    core : ndarray of shape (r, r)
        Positive semi-definite.
    diagonal : ndarray of shape (n_rows,)
        k(x, x) minus the diagonal of the approximation by the core, clipped to between 0 and ``largest``.
    """
    whole = interpolation @ symmetric(block) @ interpolation.T
    for _ in range(updates):
        core = semidefinite_part(symmetric(whole - (interpolation * diagonal[determining]) @ interpolation.T))
        missing = np.clip(own_entries - diagonal_of(values, core), 0, largest)
        if np.abs(missing - diagonal).max(initial=0.0) <= _CONVERGED * np.abs(own_entries).max(initial=0.0):
            break
        diagonal = np.clip(diagonal + _OVER_RELAXATION * (missing - diagonal), 0, largest)
    return core, missing


def unshared_diagonal(own_entries: FloatArray, block: FloatArray, coincident: tuple[IntArray, IntArray]) -> FloatArray:
    """k(x, x) minus the largest entry of x with another sampled point, at least zero.

    The 2 by 2 block of two near points is the sum of this diagonal and a matrix of rank one. A larger diagonal part
    would make the rest of the block indefinite, whether the two points are in one cluster or in two.
    """
    others = np.abs(block)
    others[coincident] = 0
    return np.asarray(np.clip(own_entries - others.max(axis=1, initial=0.0), 0, own_entries))


def limit_rows(values: FloatArray, core: FloatArray, own_entries: FloatArray) -> FloatArray:
    """Scale down, in place, basis rows whose diagonal entry of U C Uᵀ is too large; return the diagonal entries.

    The rows of points that are unlike the sampled rows can be too large by orders of magnitude.
    """
    held = diagonal_of(values, core)
    allowed = _EXCESS * own_entries
    over = held > allowed
    if over.any():
        values[over] *= np.sqrt(allowed[over] / held[over])[:, np.newaxis]
        held[over] = allowed[over]
    return held
