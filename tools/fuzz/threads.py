"""Four Python threads that factorize at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import blockbasis as bb
from tools.fuzz.case import Case

#: Wall time of four threads at once, relative to the same work one after the other just before.
MOST_TIMES_SERIAL = 1.3


def threads(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Four Python threads that factorize at once."""
    X = rng.normal(size=(600, 2))

    def work(seed: int) -> bytes:
        A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=seed)
        parts = [A.basis.values, *(panel.values for panel in A.inner.panels), A.diagonal()]
        return b"".join(part.tobytes() for part in parts)

    def limits() -> list[int]:
        return sorted(pool["num_threads"] for pool in threadpool_info())

    def measured() -> tuple[float, list[bytes], float, list[bytes]]:
        return *_timed(lambda: [work(seed) for seed in range(4)]), *_timed(lambda: list(pool.map(work, range(4))))

    work(0)
    before, first = limits(), None
    with ThreadPoolExecutor(4) as pool:
        while True:
            serial, alone, seconds, together = measured()
            if seconds > MOST_TIMES_SERIAL * serial:  # twice in turn: not due to other work on the machine
                serial, alone, seconds, together = measured()
            first = alone if first is None else first
            wrong = None if together == alone == first else "other factors"
            if limits() != before:
                wrong = f"limits {limits()}, before {before}"
            if wrong is None and seconds > MOST_TIMES_SERIAL * serial:
                wrong = f"{seconds:.2f} s, and {serial:.2f} s one after the other"
            yield "threads", wrong


def _timed(work: Callable[[], list[bytes]]) -> tuple[float, list[bytes]]:
    """Wall time of a piece of work, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
