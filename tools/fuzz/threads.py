"""Four Python threads that factorize at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import blockbasis as bb
from tools.fuzz.case import Case


def threads(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Four Python threads that factorize at once."""
    X = rng.normal(size=(1000, 2))

    def work(seed: int) -> bytes:
        A = bb.factorize(X, bb.Gaussian(0.5), tol=1e-2, rng=seed)
        return b"".join(factor.tobytes() for factor in (A.basis.values, *A.inner.panels))

    def limits() -> list[int]:
        return sorted(pool["num_threads"] for pool in threadpool_info())

    work(0)
    before, start = limits(), time.perf_counter()
    alone = [work(seed) for seed in range(4)]
    serial = time.perf_counter() - start
    with ThreadPoolExecutor(4) as pool:
        while True:
            start = time.perf_counter()
            together = list(pool.map(work, range(4)))
            seconds = time.perf_counter() - start
            wrong = None if together == alone else "other factors"
            if limits() != before:
                wrong = f"limits {limits()}, before {before}"
            if seconds > 1.3 * serial:
                wrong = f"{seconds:.2f} s, and {serial:.2f} s one after the other"
            yield "threads", wrong
