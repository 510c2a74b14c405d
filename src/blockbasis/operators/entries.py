"""Numbers of kernel entries that the construction of a factorization evaluated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entries:
    """Numbers of kernel entries that the construction of a factorization evaluated.

    Parameters
    ----------
    bases : int
        Entries evaluated for the bases of the clusters.
    inner : int
        Entries evaluated for the inner matrix.
    planning : int
        Entries evaluated for the choice of clusters and ranks, and for the check against exact entries. All entries
        of a matrix that is evaluated once and cached count here.
    """

    bases: int
    inner: int
    planning: int = 0

    @property
    def total(self) -> int:
        """Sum of all entries evaluated."""
        return self.bases + self.inner + self.planning
