"""Parts of symmetric eigendecompositions, only the pairs that are wanted; and the factor that some columns determine.

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


def nystrom_factor(columns: FloatArray, core: FloatArray, *, floor: float, rank: int | None = None) -> FloatArray:
    """F with F Fᵀ = columns core⁺ columnsᵀ, from the ``rank`` largest eigenvalues of the core, those above ``floor``.

    With the columns' own rows as the core, and all eigenvalues, F Fᵀ is the semi-definite matrix of least rank that has
    these columns.
    """
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    kept = values > floor
    if rank is not None:
        kept[: max(0, len(values) - rank)] = False
    return np.asarray(columns @ (vectors[:, kept] / np.sqrt(values[kept])))
