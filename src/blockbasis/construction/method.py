"""The choices of one construction."""

from __future__ import annotations

from dataclasses import dataclass

ALGORITHMS = ("default", "paper")
SAMPLINGS = ("energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block")
INNERS = ("sampled", "exact")


@dataclass(frozen=True)
class Method:
    """The choices of one construction, checked.

    Parameters
    ----------
    paper : bool
        Whether the paper's Algorithms 1 to 5 are followed.
    sampling : str
        One of `SAMPLINGS`.
    inner : str
        One of `INNERS`.
    diagonal : bool
        Whether a diagonal part D may be carried.
    cutoff : float or None
        Relative error that may be given up for zero blocks of C; None leaves the choice to a tolerance.
    """

    paper: bool
    sampling: str
    inner: str
    diagonal: bool
    cutoff: float | None

    @property
    def sketched(self) -> bool:
        """Whether bases are combinations of landmark columns, and not singular vectors of whole columns."""
        return not self.paper and self.sampling == "energy" and self.inner == "sampled"


@dataclass(frozen=True)
class SampleSizes:
    """Sizes of the samples from which the basis of a cluster is sketched.

    Parameters
    ----------
    rows, columns, landmarks : int
        Sampled rows, sampled columns and landmarks for each unit of rank.
    least_rows, least_columns, least_landmarks : int
        The least number of each.
    whole : int
        Clusters of at most so many points, or of at most twice the sampled rows, take all their rows.
    inner_rows : int
        Rows for each unit of rank that determine the inner matrix.
    single : bool
        Whether directions are computed in float32, which is enough for tolerances that are not small.
    negligible : float
        Squared relative error that does not matter.

    Notes
    -----
    ``python benchmarks/run.py accuracy`` prints the ratio of the error of `ACCURATE` to that of exact bases with an
    exact inner matrix. A tolerance is met with `FAST` too: `FAST` takes a few more basis vectors, and less time.
    """

    rows: int
    least_rows: int
    whole: int
    columns: int
    least_columns: int
    landmarks: int
    least_landmarks: int
    inner_rows: int
    single: bool
    negligible: float = 0.0


#: For given ranks: the error is as small as the ranks allow, at the cost of time.
ACCURATE = SampleSizes(24, 4096, 8192, 40, 800, 8, 64, 10, False)
#: For a tolerance or a budget: the ranks make up for smaller samples.
FAST = SampleSizes(12, 768, 1536, 20, 400, 5, 64, 7, True)
#: For surveys, which only need singular values.
SURVEY = SampleSizes(6, 256, 512, 12, 256, 0, 0, 0, False)
