"""Rows of a basis that determine coordinates in it (Proposition 3.2 of the paper), and what follows from them."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction.pivoting import important_columns

#: Pivoted QR looks at this many candidates for each one it is to choose; more make it slow and no better.
_PIVOT_CANDIDATES_PER_RANK = 8
#: Rows are taken to determine no coordinates, or not all, when their triangle has a diagonal with such a quotient.
_SINGULAR = 1e-10


def determining_rows(U: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Rows of U from which coordinates follow stably: pivots, then others up to ``count``.

    The others are drawn half uniformly and half by leverage. Uniform rows alone are wasted where most of a cluster's
    points are isolated and their rows of U vanish; leverage alone misses what the basis does not hold.
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
    """Rows to pivot among: all, or when they are many, enough of them drawn by leverage to span the row space."""
    height = leverage.shape[0]
    count = _PIVOT_CANDIDATES_PER_RANK * rank
    if 2 * count >= height or np.count_nonzero(leverage) <= count:
        return np.arange(height)
    return np.sort(rng.choice(height, count, replace=False, p=leverage / leverage.sum()))


def interpolate(U: FloatArray, rows: IntArray) -> FloatArray:
    """Pseudo-inverse of ``U[rows]``, in float64; the transpose when the rows are all of them."""
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
