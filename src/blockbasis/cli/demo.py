"""Command demo: compress a kernel matrix of 50,000 points, measure the error, and compute a product."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

import blockbasis as bb
from blockbasis._utils.typing import FloatArray
from blockbasis.datasets import unit_cube_mixture

N, DIMENSION, BANDWIDTH = 50_000, 5, 0.5
EXACT_ROWS = 2_000

T = TypeVar("T")


def demo() -> None:
    """Compress a kernel matrix of 50,000 points, measure the error, and compute a product."""
    X = unit_cube_mixture(N, DIMENSION, rng=0)
    kernel = bb.Gaussian(BANDWIDTH)
    v = np.random.default_rng(1).standard_normal(N)
    print(f"{N:,} points of the paper's mixture in {DIMENSION} dimensions, Gaussian kernel, bandwidth {BANDWIDTH}")

    seconds, A = _timed(lambda: bb.factorize(X, kernel, n_clusters=25, rank=40, rng=0))
    print(f"\n{A}")
    print(f"factored in             {seconds:8.2f} s, from {A.entries.total / N**2:.2%} of the matrix's entries")

    dense = 8 * N**2
    print(f"dense matrix            {dense / 1e9:8.2f} GB")
    print(f"stored                  {8 * A.stored / 1e9:8.3f} GB: {dense / (8 * A.stored):.0f} times less")

    error = bb.relative_error(A, X, kernel, n_rows=1000, rng=2)
    print(f"relative error          {error:.2e} (Frobenius, from 1,000 rows)")

    product, _ = _timed(lambda: A @ v)
    exact, part = _timed(lambda: _exact_rows(kernel, X, v))
    exact *= N / EXACT_ROWS
    print(f"product, compressed     {product:8.4f} s")
    print(
        f"product, exact          {exact:8.2f} s (measured on {EXACT_ROWS:,} rows): {exact / product:.0f} times slower"
    )
    difference = np.linalg.norm((A @ v)[:EXACT_ROWS] - part) / np.linalg.norm(part)
    print(f"their difference        {difference:.2e} relative, for a random vector")


def _exact_rows(kernel: bb.Gaussian, X: FloatArray, v: FloatArray) -> FloatArray:
    return kernel.block(X[:EXACT_ROWS], X) @ v


def _timed(job: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    demo()
