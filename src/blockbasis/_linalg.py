"""Parts of symmetric eigendecompositions, definiteness, and the factor that some columns determine.

LAPACK's driver for a part of the spectrum is the faster one only for a small part. Every driver but the slowest gives
up on some matrices with many equal eigenvalues, each on others: the next is then asked instead.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

from blockbasis._typing import FloatArray, IntArray

#: A part of the eigenpairs costs more than all of them above this share.
_SMALL_PART = 0.15
_FAST_DRIVERS = ("evd", "evr")


def symmetric(M: FloatArray) -> FloatArray:
    """Symmetric part of a matrix, in float64."""
    M = M.astype(np.float64, copy=False)
    return np.asarray((M + M.T) / 2)


#: Squares in float32 that are summed in float32.
_SUMMED_ROWS = 64


def energy_of(M: FloatArray) -> float:
    """Squared Frobenius norm."""
    return float(column_energies(M).sum())


def column_energies(M: FloatArray) -> FloatArray:
    """Squared norms of the columns, in float64.

    Squares in float32 are summed in float32 over some rows at a time: a conversion of every entry takes longer.
    """
    if M.dtype == np.float64:
        return np.asarray(np.einsum("ij,ij->j", M, M))
    totals = np.zeros(M.shape[1])
    for start in range(0, len(M), _SUMMED_ROWS):
        some = M[start : start + _SUMMED_ROWS]
        totals += np.einsum("ij,ij->j", some, some)
    return totals


def diagonal_of(U: FloatArray, core: FloatArray) -> FloatArray:
    """Diagonal of U C Uᵀ."""
    return np.asarray(np.einsum("ij,ij->i", U @ core.astype(U.dtype, copy=False), U))


def exponents_of(B: FloatArray) -> IntArray:
    """Powers of two by which the columns of a matrix have entries of about 1; 0 for a column of zeros."""
    return np.asarray(np.frexp(np.abs(B).max(axis=0, initial=0.0))[1])


def times_power_of_two(B: FloatArray, exponents: IntArray, *, name: str, caller: str) -> FloatArray:
    """Each column times its power of two, exactly; refused where float64 cannot hold it."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(B, exponents)
    if not np.isfinite(values).all():
        raise ValueError(
            f"The '{name}' parameter of {caller} must be small enough for a result that float64 can hold. "
            f"Got entries of about 1e{int(exponents.max() * math.log10(2))} instead."
        )
    return np.asarray(values)


def eigenpairs(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All eigenvalues of a symmetric matrix, ascending, and their vectors."""
    if len(M) == 1:  # SciPy before 1.14 gives "evd" too little workspace for it
        return M[0].copy(), np.ones_like(M)
    for driver in _FAST_DRIVERS:
        try:
            return linalg.eigh(M, driver=driver, check_finite=False)  # type: ignore[no-any-return]
        except linalg.LinAlgError:
            continue
    return linalg.eigh(M, driver="ev", check_finite=False)  # type: ignore[no-any-return]


def leading_eigenpairs(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenvalues of a symmetric matrix, descending, and their vectors."""
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
    """The eigenvalues below zero of a symmetric matrix, ascending, and their vectors."""
    values, vectors = eigenpairs(M)
    count = int(np.count_nonzero(values < 0))
    return values[:count], vectors[:, :count]


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


#: What is added to the diagonal of a matrix that is definite but for rounding grows by this until it shows.
_SHIFT_STEP = 100.0
_SMALLEST_SHIFT = 1e-150


def shifted_cholesky(M: FloatArray, shift: float) -> FloatArray:
    """L Lᵀ = M + s I, s at least ``shift``, and as much larger as rounding in M makes necessary."""
    shift = max(shift, _SMALLEST_SHIFT)
    while True:
        shifted = M.copy()
        shifted[np.diag_indices_from(shifted)] += shift
        try:
            return np.asarray(linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
        except linalg.LinAlgError:
            shift *= _SHIFT_STEP


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
