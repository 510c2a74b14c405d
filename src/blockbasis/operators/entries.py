"""How many kernel entries a factorization cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entries:
    """Kernel entries that a factorization evaluated.

    Parameters
    ----------
    bases : int
        For the bases, the pass over the points with them.
    inner : int
        For the inner matrix.
    planning : int
        For the choice of clusters and ranks, and for the check against exact rows.
    """

    bases: int
    inner: int
    planning: int = 0

    @property
    def total(self) -> int:
        return self.bases + self.inner + self.planning
