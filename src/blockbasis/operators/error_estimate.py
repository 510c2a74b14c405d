"""An error with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorEstimate:
    """A relative Frobenius error.

    Parameters
    ----------
    value : float
        |K - A| / |K|.
    stderr : float
        Standard error of ``value``; zero when it is exact.
    exact : bool

    Examples
    --------
    >>> import blockbasis as bb
    >>> f"{bb.ErrorEstimate(0.012, 0.0004, exact=False)}"
    '0.012 ± 0.0004'
    """

    value: float
    stderr: float
    exact: bool

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        return f"{self.value:{spec}}" + ("" if self.exact else f" ± {self.stderr:.1g}")
