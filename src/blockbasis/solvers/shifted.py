"""I + S for a small symmetric S, factored: what all solutions with U C Uᵀ + D' come down to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import DEFINITE
from blockbasis._utils.typing import FloatArray

#: Negative eigenvalues of so many roundings of the largest come from the precision in which C is stored.
_ROUNDINGS = 10
_EPS = float(np.finfo(np.float64).eps)


class Shifted(Protocol):
    """I + S, positive definite, factored."""

    def solve(self, W: FloatArray) -> FloatArray:
        """(I + S)^-1 W."""

    def logdet(self) -> float:
        """Logarithm of the determinant of I + S."""

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Diagonal blocks of (I + S)^-1."""


@dataclass(frozen=True, eq=False)
class CholeskyShifted:
    """I + S = L Lᵀ: the cheapest for one system."""

    factor: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        return np.asarray(linalg.cho_solve((self.factor, True), W, check_finite=False))

    def logdet(self) -> float:
        return 2 * float(np.log(np.diagonal(self.factor)).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        inverse, _ = linalg.lapack.dtrtri(self.factor, lower=1)
        for block in blocks:
            columns = inverse[block.start :, block]  # zero above the diagonal
            yield columns.T @ columns


@dataclass(frozen=True, eq=False)
class SpectralShifted:
    """S = V diag(values) Vᵀ, every value above -1: S may be scaled at no cost."""

    values: FloatArray
    vectors: FloatArray

    def solve(self, W: FloatArray) -> FloatArray:
        return np.asarray(self.vectors @ ((self.vectors.T @ W) / (1 + self.values)[:, np.newaxis]))

    def logdet(self) -> float:
        return float(np.log1p(self.values).sum())

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        for block in blocks:
            rows = self.vectors[block]
            yield (rows / (1 + self.values)) @ rows.T


def cholesky(S: FloatArray) -> CholeskyShifted | None:
    """I + S factored, None when it is not positive definite; only the upper triangle of S is read, and overwritten."""
    check_conditioning(float(np.diagonal(S).max(initial=0.0)))
    S[np.diag_indices_from(S)] += 1
    try:
        # Transposed the array is in LAPACK's order, and factored in place.
        return CholeskyShifted(linalg.cholesky(S.T, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None


def spectral(values: FloatArray, vectors: FloatArray, precision: float) -> SpectralShifted:
    """I + S from the eigenpairs of S; a LinAlgError when it is not positive definite beyond rounding."""
    largest = float(values.max(initial=0.0))
    check_conditioning(largest)
    if values.min(initial=0.0) <= -0.5:
        # Rounding competes with the ridge: S is known to ``noise`` only, and so are its eigenvalues below.
        noise = max(DEFINITE, _ROUNDINGS * precision) * largest
        values = np.where((values < 0) & (values >= -noise), 0.0, values)
    if values.min(initial=0.0) <= -1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is not positive definite: A has eigenvalues down to about {values.min():.3g} times the ridge "
            "(and its diagonal part). Give a larger ridge, or factorize without cutoff= and with algorithm='default', "
            "which keeps A positive semi-definite."
        )
    return SpectralShifted(values, vectors)


def check_conditioning(largest: float) -> None:
    """Refuse what float64 cannot solve at all."""
    if not largest * _EPS < 1:
        raise np.linalg.LinAlgError(
            f"A + ridge I is singular to working precision: A is about {largest:.1g} times what the ridge (and the "
            "diagonal part of A) adds. Give a larger ridge."
        )
