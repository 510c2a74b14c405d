"""The campaigns, and how many cases of each there are."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.fuzz.case import Case
from tools.fuzz.files import files
from tools.fuzz.inputs import inputs
from tools.fuzz.kills import kills
from tools.fuzz.limits import limits
from tools.fuzz.threads import threads
from tools.fuzz.tolerances import tolerances


@dataclass(frozen=True)
class Campaign:
    """Cases of one kind without end, their share of the time of a short run, and the number of a full one."""

    cases: Callable[[np.random.Generator, Path], Iterator[Case]]
    share: float
    full: int


CAMPAIGNS = {
    "files": Campaign(files, 0.25, 22_060),  # 20,000 corrupted, 2,000 forged, 60 hostile
    "kills": Campaign(kills, 0.15, 500),
    "inputs": Campaign(inputs, 0.25, 5_000),
    "threads": Campaign(threads, 0.1, 100),
    "limits": Campaign(limits, 0.05, 36),  # six limits of each of six calls
    "tolerances": Campaign(tolerances, 0.2, 200),
}


def run(name: str, seed: int, seconds: float = float("inf"), most: int | None = None) -> list[Case]:
    """Cases of a campaign until the time is over, or ``most`` of them."""
    folder, cases, end = Path(tempfile.mkdtemp()), list[Case](), time.perf_counter() + seconds
    try:
        for case in CAMPAIGNS[name].cases(np.random.default_rng(seed), folder):
            cases.append(case)
            if time.perf_counter() > end or len(cases) == most:
                break
    finally:
        shutil.rmtree(folder)
    return cases
