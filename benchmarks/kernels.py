"""Nanoseconds to evaluate a kernel entry, beside scikit-learn's, on one thread.

python benchmarks/kernels.py [--repetitions 7]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

import blockbasis as bb

#: Rows, columns and dimension of a block: of a factorization, of an exact product, of a small cluster.
SHAPES = ((20_000, 40, 54), (20_000, 400, 54), (20_000, 400, 3), (200, 80_000, 54), (3000, 3000, 8), (300, 300, 8))


def nanoseconds(evaluate: Callable[[], np.ndarray], repetitions: int) -> float:
    """Of an entry, in the shortest of several evaluations."""
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        values = evaluate()
        seconds.append(time.perf_counter() - start)
    return 1e9 * min(seconds) / values.size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    rng = np.random.default_rng(0)
    kernel = bb.Gaussian(2.0)
    print("| rows x columns, d | precision | ours | scikit-learn | ratio |\n| --- | --- | --- | --- | --- |")
    for n, m, d in SHAPES:
        for dtype in (np.float64, np.float32):
            X, Y = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
            with threadpool_limits(limits=1):
                ours = nanoseconds(lambda X=X, Y=Y: kernel(X, Y), repetitions)
                theirs = nanoseconds(lambda X=X, Y=Y: rbf_kernel(X, Y, gamma=kernel.gamma), repetitions)
            print(
                f"| {n} x {m}, {d} | {dtype.__name__} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
