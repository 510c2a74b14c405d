"""The cases of the benchmarks: points, bandwidth, tolerance."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from data import points_of

import blockbasis as bb

#: How much a run does: a test of the harness, minutes, or everything.
SIZES = ("tiny", "quick", "full")


@dataclass(frozen=True)
class Case:
    """Points, a Gaussian kernel and a tolerance.

    Parameters
    ----------
    name : str
        As in the files of earlier commits, to which floats and seconds are compared.
    data : str
        A data set, or "mixture-5": a generated mixture with five columns.
    n : int or None
        Points; None is all of the data set.
    bandwidth, tol : float
    seed : int
        Of the points drawn and of the factorization.
    today : float or None
        Floats a point of commit 53d7054.
    floats : float
        How many times as many are allowed.
    """

    name: str
    data: str
    n: int | None
    bandwidth: float
    tol: float
    seed: int = 0
    today: float | None = None
    floats: float = 1.1

    @property
    def kernel(self) -> bb.Gaussian:
        return bb.Gaussian(self.bandwidth)

    @property
    def title(self) -> str:
        size = "" if self.n is None else f" {self.n:,}"
        return f"{self.data}{size}, h={self.bandwidth:g}, tol={self.tol:g}"

    def points(self) -> np.ndarray:
        return points_of(self.data, self.n, self.seed)

    def of(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


#: Nine cases that are timed beside Nystroem, and two whose floats are to be halved.
ENGINE = (
    Case("mix8", "mixture-8", 100_000, 1.0, 1e-2, today=13),
    Case("pend4", "pendigits", None, 4.0, 1e-2, today=54),
    Case("cov4", "covtype", 50_000, 4.0, 3e-2, today=17),
    Case("bike4", "bike", None, 4.0, 1e-2),
    Case("elev6", "elevators", None, 6.0, 1e-2),
    Case("census4", "census_house", None, 4.0, 1e-2, today=65),
    Case("mix5", "mixture-5", 60_000, 0.5, 1e-3, today=102),
    Case("cov1", "covtype", 20_000, 1.0, 0.2, today=272, floats=0.5),
    Case("census1", "census_house", None, 1.0, 0.1, floats=0.5),
    Case("emg1", "emg", None, 1.0, 1e-2, today=217, floats=0.5),
    Case("census2", "census_house", None, 2.0, 1e-2, today=808),
)
#: Cases whose time is judged against Nystroem's: the last two of the eleven are for their floats.
TIMED = tuple(case.name for case in ENGINE if case.name not in ("cov1", "census1"))
#: What the tests of the harness run on.
TINY = Case("tiny", "mixture-3", 1_500, 1.0, 1e-2)
CASES = {case.name: case for case in (*ENGINE, TINY)}
#: Cases of a reduced run: minutes, not hours.
QUICK = ("mix8", "pend4", "bike4", "elev6", "cov4", "census4")


def chosen(size: str, only: list[str] | None = None) -> list[Case]:
    """Cases of a run of this size; of these the ones named, when some are."""
    if size == "tiny":
        return [TINY]
    cases = [case for case in ENGINE if size == "full" or case.name in QUICK]
    return [CASES[name] for name in only if name in CASES] if only else cases
