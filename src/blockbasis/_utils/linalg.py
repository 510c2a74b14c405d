"""Dense linear algebra: eigenpairs, definiteness, Cholesky and Nyström factors, and scaling.

LAPACK's driver for a subset of eigenpairs is faster only for a small subset. Every driver except the slowest one fails
for some matrices with many equal eigenvalues. The functions of this module try the drivers one after the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Fraction of the eigenpairs above which a subset takes longer than all eigenpairs.
_SMALL_PART = 0.15
_FAST_DRIVERS = ("evd", "evr")


def symmetric(M: FloatArray) -> FloatArray:
    """Return the symmetric part (M + Mᵀ) / 2 in float64."""
    M = M.astype(np.float64, copy=False)
    return np.asarray((M + M.T) / 2)


#: Number of float32 squares that are summed in float32: longer sums would lose digits.
_SUMMED_ROWS = 64


def energy_of(M: FloatArray) -> float:
    """Return the squared Frobenius norm."""
    return float(column_energies(M).sum())


def column_energies(M: FloatArray) -> FloatArray:
    """Return the squared norms of the columns in float64.

    Squares in float32 are summed in float32 over 64 rows at a time, which is faster than a conversion of all entries.
    """
    if M.dtype == np.float64:
        return np.asarray(np.einsum("ij,ij->j", M, M))
    totals = np.zeros(M.shape[1])
    for start in range(0, len(M), _SUMMED_ROWS):
        some = M[start : start + _SUMMED_ROWS]
        totals += np.einsum("ij,ij->j", some, some)
    return totals


def diagonal_of(U: FloatArray, core: FloatArray) -> FloatArray:
    """Return the diagonal of U C Uᵀ for C = ``core``."""
    return np.asarray(np.einsum("ij,ij->i", U @ core.astype(U.dtype, copy=False), U))


def exponents_of(B: FloatArray) -> IntArray:
    """Return the exponent e of each column for which the largest entry is about 2**e; 0 for a column of zeros."""
    return np.asarray(np.frexp(np.abs(B).max(axis=0, initial=0.0))[1])


def times_power_of_two(B: FloatArray, exponents: IntArray, *, name: str, caller: str) -> FloatArray:
    """Return each column times 2**exponent, without rounding; raise a ValueError if the result overflows."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(B, exponents)
    if not np.isfinite(values).all():
        raise ValueError(
            f"The '{name}' parameter of {caller} must be small enough for a result in the range of float64. "
            f"Got entries of about 1e{int(exponents.max() * math.log10(2))} instead."
        )
    return np.asarray(values)


def eigenpairs(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return all eigenvalues of a symmetric matrix, ascending, and their eigenvectors."""
    if len(M) == 1:  # SciPy before 1.14 gives "evd" too little workspace for it
        return M[0].copy(), np.ones_like(M)
    for driver in _FAST_DRIVERS:
        try:
            return linalg.eigh(M, driver=driver, check_finite=False)  # type: ignore[no-any-return]
        except linalg.LinAlgError:
            continue
    return linalg.eigh(M, driver="ev", check_finite=False)  # type: ignore[no-any-return]


def leading_eigenpairs(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the ``count`` largest eigenvalues of a symmetric matrix, descending, and their eigenvectors."""
    height = M.shape[0]
    if count <= _SMALL_PART * height:
        try:
            part = [height - count, height - 1]
            values, vectors = linalg.eigh(M, subset_by_index=part, driver="evr", check_finite=False)
            if len(values) == count:  # of equal eigenvalues LAPACK may return fewer
                return values[::-1], vectors[:, ::-1]
        except linalg.LinAlgError:
            pass
    values, vectors = eigenpairs(M)
    return values[: -count - 1 : -1], vectors[:, : -count - 1 : -1]


def negative_eigenpairs(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the negative eigenvalues of a symmetric matrix, ascending, and their eigenvectors."""
    values, vectors = eigenpairs(M)
    count = int(np.count_nonzero(values < 0))
    return values[:count], vectors[:, :count]


#: Size of negative eigenvalues, relative to the largest diagonal entry, that count as rounding.
DEFINITE = 1e-12


def semidefinite_part(M: FloatArray, rounding: float = DEFINITE) -> FloatArray:
    """Return the nearest positive semi-definite matrix to a symmetric matrix, in the Frobenius norm.

    The matrix itself is returned if its negative eigenvalues are within ``rounding``. A Cholesky factorization decides;
    the negative eigenpairs are computed only if it fails.
    """
    shift = rounding * float(np.abs(np.diagonal(M)).max(initial=0.0))
    try:
        linalg.cholesky(M + shift * np.eye(M.shape[0]), lower=True, overwrite_a=True, check_finite=False)
        return M
    except linalg.LinAlgError:
        values, vectors = negative_eigenpairs(M)
    definite: FloatArray = M - (vectors * values) @ vectors.T
    return definite


#: Factor by which the diagonal shift of a matrix increases until its Cholesky factorization succeeds.
_SHIFT_STEP = 100.0
#: Smallest diagonal shift, so that the shift of a zero matrix increases.
_SMALLEST_SHIFT = 1e-290


def shifted_cholesky(M: FloatArray, shift: float) -> FloatArray:
    """Return L with L Lᵀ = M + s I, for the first s = shift, 100 shift, ... for which the factorization succeeds."""
    shift = max(shift, _SMALLEST_SHIFT)
    while True:
        shifted = M.copy(order="K")
        shifted[np.diag_indices_from(shifted)] += shift
        try:
            return np.asarray(linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
        except linalg.LinAlgError:
            shift *= _SHIFT_STEP


def nystrom_factor(columns: FloatArray, core: FloatArray, *, floor: float, rank: int | None = None) -> FloatArray:
    """Return F with F Fᵀ = columns core_r⁺ columnsᵀ, the factor of a Nyström approximation.

    Parameters
    ----------
    columns : ndarray of shape (n, m)
        Columns of a positive semi-definite matrix, or kernel values at m landmarks.
    core : ndarray of shape (m, m)
        Rows of the columns that were sampled, or the kernel matrix of the landmarks.
    floor : float
        Eigenvalues of the core up to this value are omitted.
    rank : int, default=None
        Largest number of eigenvalues of the core in core_r; None selects all.

    Returns
    -------
    ndarray of shape (n, r)
    """
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    kept = values > floor
    if rank is not None:
        kept[: max(0, len(values) - rank)] = False
    return np.asarray(columns @ (vectors[:, kept] / np.sqrt(values[kept])))


def unit_columns(n: int, picked: IntArray) -> FloatArray:
    """Return the columns ``picked`` of the n by n identity; their product with an operator gives its columns."""
    unit = np.zeros((n, len(picked)))
    unit[picked, np.arange(len(picked))] = 1
    return unit
