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
    """How much of a cluster its basis is sketched from.

    Parameters
    ----------
    rows, columns, landmarks : int
        Sampled rows, sampled columns and landmarks for each unit of rank.
    least_rows, least_columns, least_landmarks : int
        The least number of each.
    whole : int
        Clusters of no more points, or of less than twice the sampled rows, take all their rows.
    inner_rows : int
        Rows for each unit of rank that determine the inner matrix.
    inner_share : float
        Largest share of the points of a cluster that determine the inner matrix.
    most_columns : float
        Largest share of all columns that are sampled.
    diagonal_rounds : int
        Rounds in which directions and diagonal part of a sampled block are computed in turn.
    power_iterations : int
        Power iterations for the directions in each of these rounds.
    precise : bool
        Whether coefficients are fitted to the last digit where all rows are sampled.
    enough : float
        Share of the wanted rows and columns with which an earlier sample is used again.
    lonely_columns : int
        Columns of a cluster whose points have less energy with all others than with themselves: pairs of near points
        are few, and fewer columns would miss them.
    negligible : float
        Squared relative error that does not matter.

    Notes
    -----
    `ACCURATE` comes nearer to exact bases with an exact inner matrix (``python benchmarks/run.py accuracy``). A
    tolerance is met in either case: `FAST` takes a few more vectors for it, and less time.
    """

    rows: int
    least_rows: int
    whole: int
    columns: int
    least_columns: int
    landmarks: int
    least_landmarks: int
    inner_rows: int
    most_columns: float
    diagonal_rounds: int
    power_iterations: int
    precise: bool
    enough: float
    lonely_columns: int = 0
    inner_share: float = 1.0
    negligible: float = 0.0


#: Sampled entries of all clusters together that are kept for bases of higher ranks.
KEPT_ENTRIES = 2**25
#: Where the ranks are given, accuracy is what time is spent on.
ACCURATE = SampleSizes(24, 4096, 8192, 40, 160, 8, 64, 7, 1.0, 3, 4, True, 1.0)
#: Where a tolerance or a budget is given, the ranks follow from what was sampled.
FAST = SampleSizes(10, 640, 1280, 22, 400, 4, 64, 6, 1 / 6, 1, 2, False, 0.7, 4096)
#: A survey only looks at singular values.
SURVEY = SampleSizes(6, 256, 512, 12, 256, 0, 0, 0, 1 / 8, 1, 2, False, 0.95, 4096)
