"""Dense factorizations of I + S for a symmetric matrix S of the size of C, as the Woodbury identity needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import DEFINITE

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Size of negative eigenvalues that count as rounding of the stored C, in units of eps times the largest eigenvalue.
_ROUNDING_UNITS = 10
_EPS = float(np.finfo(np.float64).eps)


class ShiftedFactorization(Protocol):
    """Factorization of a positive definite matrix I + S."""

    def solve(self, W: FloatArray) -> FloatArray:
        """Return (I + S)^-1 W."""

    def logdet(self) -> float:
        """Return log det(I + S)."""

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the diagonal blocks of (I + S)^-1 in the given ranges of columns."""


@dataclass(frozen=True, eq=False)
class CholeskyFactorization:
    """Cholesky factorization I + S = L Lᵀ, with the lower triangular ``factor`` L."""

    factor: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        """Return (I + S)^-1 W."""
        return np.asarray(linalg.cho_solve((self.factor, True), W, check_finite=False))

    def logdet(self) -> float:
        """Return log det(I + S)."""
        return 2 * float(np.log(np.diagonal(self.factor)).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the diagonal blocks of (I + S)^-1 in the given ranges of columns."""
        inverse, _ = linalg.lapack.dtrtri(self.factor, lower=1)
        for block in blocks:
            columns = inverse[block.start :, block]  # zero above the diagonal
            yield columns.T @ columns


@dataclass(frozen=True, eq=False)
class SpectralFactorization:
    """Spectral decomposition S = V diag(values) Vᵀ with every value above -1. Multiples of S share the vectors V."""

    values: FloatArray
    vectors: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        """Return (I + S)^-1 W."""
        return np.asarray(self.vectors @ ((self.vectors.T @ W) / (1 + self.values)[:, np.newaxis]))

    def logdet(self) -> float:
        """Return log det(I + S)."""
        return float(np.log1p(self.values).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the diagonal blocks of (I + S)^-1 in the given ranges of columns."""
        for block in blocks:
            rows = self.vectors[block]
            yield (rows / (1 + self.values)) @ rows.T


def cholesky_factorization(S: FloatArray) -> CholeskyFactorization | None:
    """Return the Cholesky factorization of I + S; None if I + S is not positive definite.

    Only the upper triangle of S is read, and S is overwritten.
    """
    check_conditioning(float(np.diagonal(S).max(initial=0.0)))
    S[np.diag_indices_from(S)] += 1
    try:
        # S.T is in LAPACK's column-major order, so that it is factored in place.
        return CholeskyFactorization(linalg.cholesky(S.T, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None


def spectral_factorization(values: FloatArray, vectors: FloatArray, precision: float) -> SpectralFactorization:
    """Return the factorization of I + S from the eigenpairs of S.

    Parameters
    ----------
    values, vectors : ndarray
        Eigenvalues and eigenvectors of S.
    precision : float
        Machine epsilon of the dtype in which C is stored.

    Returns
    -------
    SpectralFactorization
        If an eigenvalue is at most -1/2, negative eigenvalues within the rounding of C are set to zero.

    Raises
    ------
    numpy.linalg.LinAlgError
        If an eigenvalue is at most -1 beyond rounding, so that I + S is not positive definite.
    """
    largest = float(values.max(initial=0.0))
    check_conditioning(largest)
    if values.min(initial=0.0) <= -0.5:
        # The rounding of S, ``noise``, is of the size of the ridge. It determines negative eigenvalues up to this size.
        noise = max(DEFINITE, _ROUNDING_UNITS * precision) * largest
        values = np.where((values < 0) & (values >= -noise), 0.0, values)
    if values.min(initial=0.0) <= -1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is not positive definite: A has eigenvalues down to about {values.min():.3g} times the ridge "
            "(and its diagonal part). Give a larger ridge, or factorize without cutoff= and with algorithm='default', "
            "which makes A positive semi-definite."
        )
    return SpectralFactorization(values, vectors)


def check_conditioning(largest: float) -> None:
    """Raise a LinAlgError if the largest eigenvalue of S, about ``largest``, makes I + S singular in float64."""
    if not largest * _EPS < 1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is singular to working precision: A is about {largest:.1g} times what the ridge (and the "
            "diagonal part of A) adds. Give a larger ridge."
        )
