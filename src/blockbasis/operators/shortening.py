"""Bounds of the coordinates of new points.

The factorization assigns the variance u(x)ᵀ C_ii u(x) to a point x of cluster i. Far from the landmarks of the
extension, this variance can exceed k(x, x) by orders of magnitude. The functions of this module scale u(x) down until
the variance is at most k(x, x). C is positive semi-definite, so that the covariance with another point is then at most
the geometric mean of both variances, by the Cauchy-Schwarz inequality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import diagonal_of, eigenpairs

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.inner import InnerMatrix

#: Lower bound of the eigenvalues of C_ii, relative to the largest, by dtype. Smaller eigenvalues are rounding errors of
#: either sign, and would not bound coordinates in the direction of their eigenvectors.
_FLOOR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}
#: Number of bisections for the nearest coordinates with an allowed variance.
_BISECTIONS = 60


def variance_roots(inner: InnerMatrix) -> tuple[FloatArray, ...]:
    """Return L_i with L_i L_iᵀ = C_ii for each cluster, with eigenvalues raised to a small positive lower bound."""
    floor = _FLOOR[inner.dtype]
    roots = []
    for i in range(inner.n_rows):
        values, vectors = eigenpairs(inner.block(i, i).astype(np.float64))
        roots.append(vectors * np.sqrt(np.maximum(values, floor * max(float(values[-1]), 0.0))))
    return tuple(roots)


def largest_variances(basis: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """Return the largest variance u_jᵀ C_ii u_j of a factorized point j of each cluster."""
    largest = np.zeros(inner.n_rows)
    for i, _, U in basis.row_pieces():
        largest[i] = max(largest[i], float(diagonal_of(U, inner.block(i, i)).max()))
    return largest


def held_variance(u: FloatArray, root: FloatArray | None = None) -> FloatArray:
    """Return the variance |Lᵀ u(x)|² of each row of ``u`` in float64; infinity if it overflows.

    ``root`` is L; None is the identity.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = u.astype(np.float64, copy=False)
        scaled = scaled if root is None else scaled @ root
        variance = np.einsum("ij,ij->i", scaled, scaled)
    return np.where(np.isnan(variance), np.inf, variance)


def shortened(u: FloatArray, held: FloatArray, allowed: FloatArray) -> FloatArray:
    """Scale down the rows of ``u`` whose variance exceeds the allowed variance.

    Parameters
    ----------
    u : ndarray of shape (m, r)
        Coordinates of m new points.
    held : ndarray of shape (m,)
        Variance u(x)ᵀ C_ii u(x) of each row.
    allowed : ndarray of shape (m,)
        Largest allowed variance of each row.

    Returns
    -------
    ndarray of shape (m, r)
        Scaled rows in the dtype of ``u``; zero if the variance is infinite.
    """
    scale = np.sqrt(np.divide(allowed, held, out=np.ones(len(u)), where=held > allowed))
    result = u * scale[:, np.newaxis].astype(u.dtype)
    result[~np.isfinite(held)] = 0
    return np.asarray(result)


def within_variance(c: FloatArray, root: FloatArray, allowed: FloatArray) -> FloatArray:
    """Return the nearest coordinates c of K(x, X_i) with cᵀ C_ii⁻¹ c at most the allowed variance of x.

    Parameters
    ----------
    c : ndarray of shape (m, r)
        Coordinates of m rows.
    root : ndarray of shape (r, r)
        L with L Lᵀ = C_ii and orthogonal columns, as of `variance_roots`.
    allowed : ndarray of shape (m,)
        Largest allowed variance of each row.

    Returns
    -------
    ndarray of shape (m, r)
        Coordinates in float64; zero if C_ii is zero.
    """
    values = np.einsum("ij,ij->j", root, root)
    if not values.min() > 0:
        return np.zeros(c.shape)
    vectors = root / np.sqrt(values)
    a = c @ vectors
    energies = a**2 * values
    # The nearest point of the ellipsoid is a λ / (λ + μ); its variance decreases with μ. Bisection for μ.
    low, high = np.zeros(len(c)), np.sqrt(energies.sum(axis=1) / allowed)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = (energies / (values + middle[:, np.newaxis]) ** 2).sum(axis=1) > allowed
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    high[(energies / values**2).sum(axis=1) <= allowed] = 0
    return np.asarray((a * (values / (values + high[:, np.newaxis]))) @ vectors.T)
