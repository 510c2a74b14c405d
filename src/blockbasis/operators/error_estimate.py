"""Relative error with its standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True)
class ErrorEstimate:
    """Relative Frobenius error of an approximation, with its standard error.

    Parameters
    ----------
    value : float
        Relative error |K - A| / |K|.
    stderr : float
        Standard error of ``value``; zero if the error is exact.
    exact : bool
        Whether the error was computed from all entries, and not from a sample.

    Examples
    --------
    >>> import blockbasis as bb
    >>> f"{bb.ErrorEstimate(0.012, 0.0004, exact=False)}"
    '0.012 ± 0.0004'
    """

    value: float
    stderr: float
    exact: bool

    @classmethod
    def of_sampled_rows(cls, errors: FloatArray, norms: FloatArray) -> ErrorEstimate:
        """Estimate the error from the squared norms of sampled rows of K - A, ``errors``, and of K, ``norms``."""
        error, norm = float(errors.sum()), float(norms.sum())
        if error == 0:
            return cls(0.0, 0.0, exact=False)
        if not 0 < norm < np.inf or not error < np.inf:  # the relative error is undefined
            return cls(np.inf, 0.0, exact=False)
        value = (error / norm) ** 0.5
        # Standard error of a ratio estimator: the squared error is a ratio of sums over the same rows.
        spread = float(np.std(errors - value**2 * norms)) * len(errors) ** 0.5
        return cls(value, spread / (2 * value * norm), exact=False)

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        return f"{self.value:{spec}}" + ("" if self.exact else f" ± {self.stderr:.1g}")
