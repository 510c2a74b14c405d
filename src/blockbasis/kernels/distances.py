"""Squared distances between points: by matrix products, and by differences where products cancel."""

from __future__ import annotations

import math

import numpy as np

from blockbasis._typing import FloatArray, IntArray

#: Errors that entries of a kernel with f(0) = 1 may have, by the precision of the points.
ENTRY_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
#: Coordinates that are held at once when differences are taken.
_HELD = 2**20


def squared_distances(X: FloatArray, Y: FloatArray, centre: FloatArray, *, error: float = 0.0) -> FloatArray:
    """Squared Euclidean distances between the rows of ``X`` and of ``Y``.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (m, d)
    centre : ndarray of shape (d,)
        A point near those of ``X``; the nearer, the fewer distances are computed twice.
    error : float, default=0.0
        Error that every squared distance may have. Where rounding may exceed it, distances are computed in float64,
        and those that are small against the norms once more, by differences.

    Returns
    -------
    ndarray of shape (n, m)
        Not negative. In float64 where float32 does not suffice.
    """
    if error == 0:  # float32 never suffices
        X, Y, centre = (each.astype(np.float64, copy=False) for each in (X, Y, centre))
    near, far = X - centre, Y - centre
    norms = np.einsum("ij,ij->i", near, near)
    # |x|^2 + |y|^2 - 2xy is off by this share of its terms, and points y much farther out than all x are no worse off.
    share = 3 * math.sqrt(X.shape[1] + 1) * float(np.finfo(near.dtype).eps)
    cancelled = share * float(norms.max(initial=0.0)) > error
    if cancelled and near.dtype == np.float32:
        return squared_distances(*(each.astype(np.float64) for each in (X, Y, centre)), error=error)
    far_norms = np.einsum("ij,ij->i", far, far)
    # The norms are two more columns of the product: no pass over the result adds them.
    ones = np.ones((len(X), 1), near.dtype), np.ones((len(Y), 1), near.dtype)
    left = np.concatenate((-2 * near, norms[:, np.newaxis], ones[0]), axis=1)
    right = np.concatenate((far, ones[1], far_norms[:, np.newaxis]), axis=1)
    squared: FloatArray = left @ right.T
    if not cancelled:
        return np.maximum(squared, 0, out=squared)
    sums = np.add.outer(norms, far_norms)
    # A profile f changes by no more than the relative error of its argument.
    sums *= share / ENTRY_ERROR[near.dtype]
    few = np.flatnonzero(squared <= sums)
    squared.flat[few] = squares_of_differences(X, Y, *np.divmod(few, len(Y)))
    return squared


def squares_of_differences(
    X: FloatArray, Y: FloatArray, rows: IntArray, columns: IntArray, unit: float = 1.0
) -> FloatArray:
    """Squared distances of pairs of points, in units of a length, without cancellation."""
    squared = np.empty(len(rows), dtype=X.dtype)
    step = max(1, _HELD // X.shape[1])
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        differences = X[rows[some]] - Y[columns[some]]
        with np.errstate(over="ignore"):  # points too many units apart are infinitely far
            differences /= unit
            np.einsum("ij,ij->i", differences, differences, out=squared[some])
    return squared
