"""Parts of symmetric eigendecompositions: only the pairs that are wanted, at a fraction of the cost of all.

LAPACK's driver for a part of the spectrum gives up on some matrices with many equal eigenvalues; the driver for the
whole does not, and is then asked instead.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from blockbasis._typing import FloatArray


def leading_eigenpairs(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenvalues of a symmetric matrix, descending, and their vectors."""
    height = M.shape[0]
    try:
        values, vectors = linalg.eigh(M, subset_by_index=[height - count, height - 1], driver="evr", check_finite=False)
    except linalg.LinAlgError:
        values, vectors = np.linalg.eigh(M)
        values, vectors = values[height - count :], vectors[:, height - count :]
    return values[::-1], vectors[:, ::-1]


def negative_eigenpairs(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues below zero of a symmetric matrix, ascending, and their vectors."""
    try:
        values, vectors = linalg.eigh(M, subset_by_value=(-np.inf, 0.0), driver="evr", check_finite=False)
    except linalg.LinAlgError:
        values, vectors = np.linalg.eigh(M)
    negative = values < 0
    return values[negative], vectors[:, negative]


#: Negative eigenvalues below this share of the largest diagonal entry are rounding.
DEFINITE = 1e-12


def semidefinite_part(M: FloatArray, rounding: float = DEFINITE) -> FloatArray:
    """A symmetric matrix without its negative eigenvalues; itself when it has none beyond ``rounding``.

    A Cholesky factorization tells, and only where it fails are the negative eigenpairs computed.
    """
    shift = rounding * float(np.abs(np.diagonal(M)).max(initial=0.0))
    try:
        linalg.cholesky(M + shift * np.eye(M.shape[0]), lower=True, overwrite_a=True, check_finite=False)
        return M
    except linalg.LinAlgError:
        values, vectors = negative_eigenpairs(M)
    definite: FloatArray = M - (vectors * values) @ vectors.T
    return definite
