"""The method of a construction, and the sizes of its samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

ALGORITHMS = ("default", "paper")
SAMPLINGS = ("energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block")
INNERS = ("sampled", "exact")


@dataclass(frozen=True)
class Method:
    """Method of a construction, from checked arguments.

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
    """Number of rows, columns and landmarks from which the basis of a cluster is sketched.

    Parameters
    ----------
    rows, min_rows : int
        Sampled rows for each unit of rank, and the least number of them.
    all_rows_size : int
        Clusters of at most this many points, or of at most twice the sampled rows, use all their rows.
    columns, min_columns : int
        Sampled columns for each unit of rank, and the least number of them.
    landmarks, min_landmarks : int
        Landmarks for each unit of rank, and the least number of them.
    inner_rows : int
        Rows for each unit of rank that determine the inner matrix.
    max_column_share : float
        Largest share of all columns that is sampled.
    diagonal_rounds : int
        Rounds in which directions and diagonal part of a sampled block are computed in turn; zero for no diagonal part.
    power_iterations : int
        Power iterations for the directions in each of these rounds.
    precise : bool
        Whether coefficients are fitted to full precision where all rows are sampled.
    reuse_share : float
        Share of the required rows and columns with which an earlier sample is used again.
    isolated_columns : int
        Sampled columns of a cluster whose points have less energy with all other points than with themselves: there
        are few pairs of near points, and a smaller sample would miss them.
    max_inner_share : float
        Largest share of the points of a cluster that determines the inner matrix.
    negligible : float
        Squared relative error that is negligible.

    Notes
    -----
    `ACCURATE` comes nearer to exact bases with an exact inner matrix (``python benchmarks/run.py accuracy``). A
    tolerance is met in either case: `FAST` needs slightly higher ranks for it, and less time.
    """

    rows: int
    min_rows: int
    all_rows_size: int
    columns: int
    min_columns: int
    landmarks: int
    min_landmarks: int
    inner_rows: int
    max_column_share: float
    diagonal_rounds: int
    power_iterations: int
    precise: bool
    reuse_share: float
    isolated_columns: int = 0
    max_inner_share: float = 1.0
    negligible: float = 0.0

    def adapted(self, method: Method) -> SampleSizes:
        """The same sizes, without a diagonal part where the method carries none."""
        return self if method.diagonal else replace(self, diagonal_rounds=0)


#: Sampled entries of all clusters together that are kept for bases of higher ranks: 256 MB of float64.
KEPT_ENTRIES = 2**25
#: For given ranks: more time for a smaller error.
ACCURATE = SampleSizes(24, 4096, 32768, 40, 160, 8, 64, 7, 1.0, 3, 4, True, 1.0)
#: For a tolerance or a budget: the ranks follow from the sampled entries.
FAST = SampleSizes(10, 640, 1280, 30, 400, 4, 64, 6, 1 / 6, 1, 2, False, 0.7, 4096)
#: For a survey, which uses singular values only.
SURVEY = SampleSizes(6, 256, 512, 12, 256, 0, 0, 0, 1 / 8, 1, 2, False, 0.95, 4096)
