"""Rows of a basis that determine coordinates in the basis (Proposition 3.2 of the paper), and their pseudo-inverse."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.pivoting import important_columns

#: Candidates of pivoted QR for each row that it chooses; more candidates take more time and give no better rows.
_PIVOT_CANDIDATES_PER_RANK = 8
#: Rows do not determine all coordinates where the diagonal of their triangular factor has a smaller ratio than this.
_SINGULAR = 1e-10


def determining_rows(U: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Rows of U that determine coordinates stably: pivots of QR, and further rows up to ``count``.

    Half of the further rows are drawn uniformly and half by leverage. Uniform rows alone carry no information where
    most points of a cluster are isolated and their rows of U vanish. Rows by leverage alone do not represent the part
    of the kernel that is outside the basis.
    """
    height, rank = U.shape
    if count >= height:
        return np.arange(height)
    leverage = np.einsum("ij,ij->i", U, U, dtype=np.float64)
    candidates = _likely_pivots(leverage, rank, rng)
    pivots = candidates[important_columns(U[candidates].T, rank)]
    others = np.setdiff1d(np.arange(height), pivots, assume_unique=True)
    chances = leverage[others]
    chances = chances + (chances.mean() or 1.0)
    drawn = rng.choice(others, count - pivots.shape[0], replace=False, p=chances / chances.sum())
    return np.sort(np.concatenate((pivots, drawn)))


def _likely_pivots(leverage: FloatArray, rank: int, rng: np.random.Generator) -> IntArray:
    """Candidates for pivots: all rows, or a sample by leverage that spans the row space when the rows are many."""
    height = leverage.shape[0]
    count = _PIVOT_CANDIDATES_PER_RANK * rank
    if 2 * count >= height or np.count_nonzero(leverage) <= count:
        return np.arange(height)
    return np.sort(rng.choice(height, count, replace=False, p=leverage / leverage.sum()))


def interpolate(U: FloatArray, rows: IntArray) -> FloatArray:
    """Pseudo-inverse of ``U[rows]``, in float64; the transpose when ``rows`` are all rows of an orthonormal U."""
    chosen = U[rows].astype(np.float64)
    if len(chosen) == U.shape[0]:
        return chosen.T
    if len(chosen) < U.shape[1]:
        return np.linalg.pinv(chosen)
    Q, R = np.linalg.qr(chosen)
    diagonal = np.abs(np.diagonal(R))
    if diagonal.min() <= _SINGULAR * diagonal.max():
        return np.linalg.pinv(chosen)
    return np.asarray(linalg.solve_triangular(R, Q.T, check_finite=False))
