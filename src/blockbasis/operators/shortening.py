"""How long the coordinates u(x) of a new point may be.

u(x)ᵀ C_ii u(x) is the variance that a factorization gives to a point x of cluster i. Far from the points that an
extension was fitted to, u(x) can become so long that this variance exceeds k(x, x) by orders of magnitude. Shortened to
it, and C being positive semi-definite, no covariance with another point exceeds the geometric mean of both variances.
"""

from __future__ import annotations

import numpy as np

from blockbasis._utils.linalg import diagonal_of, eigenpairs
from blockbasis._utils.typing import FloatArray
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix

#: Eigenvalues of C_ii count as at least this share of the largest. Smaller ones are rounding, of either sign, and do
#: not bound coordinates that are large in their direction. Old points gain at most their rank times this.
_FLOOR = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}


def variance_roots(inner: InnerMatrix) -> tuple[FloatArray, ...]:
    """L_i of each cluster with L_i L_iᵀ = C_ii, its eigenvalues raised to a small positive one."""
    floor = _FLOOR[inner.dtype]
    roots = []
    for i in range(inner.n_rows):
        values, vectors = eigenpairs(inner.block(i, i).astype(np.float64))
        roots.append(vectors * np.sqrt(np.maximum(values, floor * max(float(values[-1]), 0.0))))
    return tuple(roots)


def largest_variances(basis: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """Largest u_jᵀ C_ii u_j of the points of each cluster."""
    largest = np.zeros(inner.n_rows)
    for i, _, U in basis.row_pieces():
        largest[i] = max(largest[i], float(diagonal_of(U, inner.block(i, i)).max()))
    return largest


def held_variance(u: FloatArray, root: FloatArray | None = None) -> FloatArray:
    """u(x)ᵀ L Lᵀ u(x) of each row of ``u``, in float64, L the identity if not given; infinite where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = u.astype(np.float64, copy=False)
        spread = spread if root is None else spread @ root
        held = np.einsum("ij,ij->i", spread, spread)
    return np.where(np.isnan(held), np.inf, held)


def shortened(u: FloatArray, held: FloatArray, allowed: FloatArray) -> FloatArray:
    """Rows of ``u`` shortened where the variance that they hold exceeds what is allowed; zero where it overflows.

    Parameters
    ----------
    u : ndarray of shape (m, r)
    held : ndarray of shape (m,)
        u(x)ᵀ C_ii u(x) of each row.
    allowed : ndarray of shape (m,)
        At least k(x, x).

    Returns
    -------
    ndarray of shape (m, r)
        Of the dtype of ``u``.
    """
    scale = np.sqrt(np.divide(allowed, held, out=np.ones(len(u)), where=held > allowed))
    result = u * scale[:, np.newaxis].astype(u.dtype)
    result[~np.isfinite(held)] = 0
    return np.asarray(result)
