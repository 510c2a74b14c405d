"""Factorizations to a tolerance, whose true error is computed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.exceptions import AccuracyWarning
from tools.fuzz.case import Case

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int, int], Any]] = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "uniform": lambda rng, n, d: rng.random((n, d)),
    "mixture": lambda rng, n, d: rng.normal(size=(n, d)) + 5 * rng.integers(-2, 3, size=(n, 1)),
    "heavy tails": lambda rng, n, d: rng.standard_t(2, size=(n, d)),
    "Cauchy": lambda rng, n, d: rng.standard_cauchy(size=(n, d)),
    "line": lambda rng, n, d: np.outer(rng.random(n), np.ones(d)) + 1e-3 * rng.normal(size=(n, d)),
    "sphere": lambda rng, n, d: (x := rng.normal(size=(n, d))) / np.linalg.norm(x, axis=1, keepdims=True),
    "grid": lambda rng, n, d: np.round(2 * rng.normal(size=(n, d))),
    "near duplicates": lambda rng, n, d: (
        rng.normal(size=(n, d))[rng.integers(n // 10 + 1, size=n)] + 1e-6 * rng.normal(size=(n, d))
    ),
    "outlier": lambda rng, n, d: np.concatenate((rng.normal(size=(n - 1, d)), np.full((1, d), 1e8))),
}

#: Processor time that a factorization may take.
MOST_SECONDS = 120


def tolerances(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Factorizations to a tolerance, whose true error is computed."""
    while True:
        for name, draw in DISTRIBUTIONS.items():
            n, d = int(200 * 40 ** rng.uniform()), int(rng.integers(1, 10))
            X = draw(rng, n, d)
            kernel = [bb.Gaussian, bb.Laplacian, bb.Cauchy][int(rng.integers(3))](float(10 ** rng.uniform(-0.7, 0.7)))
            tol = float(10 ** rng.uniform(-4, -1))
            start = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                A = bb.factorize(X, kernel, tol=tol, rng=0)
            seconds = time.process_time() - start  # of all threads: other work on the machine does not count
            told = any(issubclass(each.category, AccuracyWarning) for each in caught)
            error = bb.relative_error(A, X, kernel).value
            wrong = f"error {error:.3g} for {tol:.3g}" if not told and not error <= 1.05 * tol else None
            if seconds > MOST_SECONDS:
                wrong = f"{seconds:.0f} s of processor time"
            yield name, wrong if wrong is None else f"{wrong}: n = {n}, d = {d}, {kernel!r}"
