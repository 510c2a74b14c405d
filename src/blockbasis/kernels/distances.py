"""Squared distances between points: by matrix products, and by differences where products cancel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Allowed error of the entries of a kernel with f(0) = 1, by the dtype of the points.
ENTRY_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
#: Largest share of the squared distances of a block that is computed once more, by differences. With more, products in
#: float64 take less time.
_FEW = 0.02
#: Differences of coordinates that are computed at once: 8 MB of float64.
_CHUNK_ENTRIES = 2**20


def squared_distances(X: FloatArray, Y: FloatArray, centre: FloatArray, *, error: float = 0.0) -> FloatArray:
    """Return the squared Euclidean distances between the rows of ``X`` and those of ``Y``.

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
    factors = product_factors(X, Y, centre, error=error)
    if not factors.cancelled:
        return factors.squared(slice(None))
    if X.dtype == np.float32:
        return squared_distances(*(each.astype(np.float64) for each in (X, Y, centre)), error=error)
    squared = factors.squared(slice(None))
    sums = np.add.outer(factors.left[:, -2], factors.right[:, -1])
    # A profile f changes by no more than the relative error of its argument.
    sums *= _rounding(X) / ENTRY_ERROR[X.dtype]
    cancelled = np.flatnonzero(squared <= sums)
    squared.flat[cancelled] = squares_of_differences(X, Y, *np.divmod(cancelled, len(Y)))
    return squared


@dataclass(frozen=True)
class ProductFactors:
    """Matrices whose product is the matrix of squared distances, up to rounding.

    Parameters
    ----------
    left : ndarray of shape (n, d + 2)
    right : ndarray of shape (m, d + 2)
    cancelled : bool
        Whether the rounding of the product may exceed the error that is allowed.
    rounding : float
        Largest rounding error of the squared distance of a point that is as far from the centre as the first points.
    """

    left: FloatArray
    right: FloatArray
    cancelled: bool
    rounding: float

    def product(self, rows: slice, out: FloatArray | None = None) -> FloatArray:
        """Return the squared distances of some rows; rounding errors can make them negative."""
        with np.errstate(invalid="ignore"):  # products of float32 set the flag by lanes of a register that are not used
            return np.asarray(np.matmul(self.left[rows], self.right.T, out=out))

    def squared(self, rows: slice, out: FloatArray | None = None) -> FloatArray:
        """Return the squared distances of some rows; negative rounding errors are set to zero."""
        squared = self.product(rows, out)
        return np.maximum(squared, 0, out=squared)


def product_factors(X: FloatArray, Y: FloatArray, centre: FloatArray, *, error: float) -> ProductFactors:
    """Return factors of the matrix |x|^2 + |y|^2 - 2xy; two additional columns hold the squared norms."""
    n, d = X.shape
    left, right = np.empty((n, d + 2), X.dtype), np.empty((len(Y), d + 2), X.dtype)
    X_centred, Y_centred = np.subtract(X, centre, out=left[:, :d]), np.subtract(Y, centre, out=right[:, :d])
    np.einsum("ij,ij->i", X_centred, X_centred, out=left[:, d])
    np.einsum("ij,ij->i", Y_centred, Y_centred, out=right[:, d + 1])
    X_centred *= -2
    left[:, d + 1] = right[:, d] = 1
    # Distances to points y of much larger norm than all x have a small relative error.
    rounding = _rounding(X) * float(left[:, d].max(initial=0.0))
    return ProductFactors(left, right, rounding > error, rounding)


def replace_nearest(squared: FloatArray, X: FloatArray, Y: FloatArray, rounding: float, error: float) -> bool:
    """Recompute by differences the squared distances whose roots may be wrong by more than an error.

    Parameters
    ----------
    squared : ndarray of shape (n, m)
        Squared distances by products; those of the nearest points are replaced in place, negative ones among them.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (m, d)
    rounding : float
        As in `ProductFactors`.
    error : float
        Error that every distance may have.

    Returns
    -------
    bool
        False if these are more than a few: none is replaced then.

    Notes
    -----
    With |y| <= |x| + |x - y|, the rounding error of |x - y|^2 is at most 3 ``rounding`` and a relative error, which is
    harmless. That of |x - y| is half of it divided by |x - y|. The limit has a safety factor of two.
    """
    ratio = 3 * rounding / error
    limit = min(ratio * ratio, float(np.finfo(squared.dtype).max))
    if squared.min(initial=math.inf) > limit:
        return True
    nearest = np.flatnonzero(~(squared > limit))  # distances that overflow may be NaN
    if len(nearest) > _FEW * squared.size:
        return False
    rows, columns = np.divmod(nearest, len(Y))
    squared[rows, columns] = squares_of_differences(X, Y, rows, columns)
    return True


def _rounding(X: FloatArray) -> float:
    """Return the rounding error of |x|^2 + |y|^2 - 2xy relative to its terms."""
    return 3 * math.sqrt(X.shape[1] + 1) * float(np.finfo(X.dtype).eps)


def squares_of_differences(
    X: FloatArray, Y: FloatArray, rows: IntArray, columns: IntArray, unit: float = 1.0
) -> FloatArray:
    """Return squared distances of pairs of points in units of a length, from differences, which do not cancel."""
    squared = np.empty(len(rows), dtype=X.dtype)
    step = max(1, _CHUNK_ENTRIES // X.shape[1])
    for start in range(0, len(rows), step):
        chunk = slice(start, start + step)
        differences = X[rows[chunk]] - Y[columns[chunk]]
        with np.errstate(over="ignore"):  # points too many units apart are infinitely far
            differences /= unit
            np.einsum("ij,ij->i", differences, differences, out=squared[chunk])
    return squared
