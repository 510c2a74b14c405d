"""The diagonal part D, and the core of a cluster beside it.

Blocks of low rank cannot hold the diagonal of a kernel of small bandwidth, and what D should hold depends on what the
basis holds. Both are fitted in turn: the core from the block less D, and D from what the core does not hold.
"""

from __future__ import annotations

import numpy as np

from blockbasis._linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis._typing import FloatArray, IntArray

#: Over-relaxation of the updates of D. An update closes half of the gap or less, so that a factor below 2 is stable.
_OVER_RELAXATION = 1.6
#: The updates end where none changes D by more than this share of the largest diagonal entry.
_CONVERGED = 1e-6
#: Basis rows are scaled down where they hold more than this factor of the diagonal entry: no positive semi-definite
#: approximation of K holds more than the entry itself, but for its error.
_EXCESS = 1.1


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
        Kernel block of the determining rows with themselves.
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
        The diagonal part never exceeds it.
    updates : int

    Returns
    -------
    core : ndarray of shape (r, r)
        Positive semi-definite.
    diagonal : ndarray of shape (n_rows,)
        k(x, x) less what the core holds, never negative.
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
    """k(x, x) less the largest entry of x with another sampled point, never negative.

    Two points alone with each other leave this on the diagonal and one direction; more would make their block less the
    diagonal part indefinite, whether they are in one cluster or in two.
    """
    others = np.abs(block)
    others[coincident] = 0
    return np.asarray(np.clip(own_entries - others.max(axis=1, initial=0.0), 0, own_entries))


def limit_rows(values: FloatArray, core: FloatArray, own_entries: FloatArray) -> FloatArray:
    """Scale down, in place, basis rows that hold too much of the diagonal; return what each row holds of it.

    Rows of points unlike those that a basis was fitted to can be too large by orders of magnitude.
    """
    held = diagonal_of(values, core)
    allowed = _EXCESS * own_entries
    over = held > allowed
    if over.any():
        values[over] *= np.sqrt(allowed[over] / held[over])[:, np.newaxis]
        held[over] = allowed[over]
    return held
