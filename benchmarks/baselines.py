"""The methods to compare with, on the paper's data: relative Frobenius errors beside figures known for them.

    BLOCKBASIS_DATA=... python benchmarks/baselines.py [yardsticks meka others ifgt] [--seeds 5] [--data abalone ...]

Errors are means over the seeds; of Pendigits they are estimated from 2,000 rows, of Abalone exact.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from data import load_standardized

import blockbasis as bb
from blockbasis.baselines import approximate
from blockbasis.datasets import unit_cube_mixture

BANDWIDTHS = {"abalone": 1.0, "pendigits": 2.0}
BUDGETS = (20, 50, 100, 200)
EXACT_POINTS, ROWS = 5_000, 2_000

#: Errors at the budgets, from independent implementations.
YARDSTICKS = {
    ("abalone", "svd"): (0.206, 0.097, 0.051, 0.025),
    ("abalone", "nystrom"): (0.41, 0.21, 0.10, 0.052),
    ("abalone", "nystrom-kmeans"): (0.29, 0.145, 0.083, 0.044),
    ("pendigits", "svd"): (0.355, 0.213, 0.134, 0.078),
    ("pendigits", "nystrom"): (0.61, 0.39, 0.25, 0.16),
    ("pendigits", "nystrom-kmeans"): (0.47, 0.28, 0.18, 0.11),
}
#: Clusters, floats per point; least, median and largest error of the authors' code over 5 seeds.
MEKA = {"abalone": (5, 100, (0.056, 0.27, 0.91)), "pendigits": (10, 55, (0.17, 0.24, 0.58))}
OTHERS = ("nystrom-leverage", "rpcholesky", "random-features", "clra", "bbf-paper", "bbf")


class Case:
    """A data set with the paper's bandwidth."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.X = load_standardized(name)
        self.kernel = bb.Gaussian(BANDWIDTHS[name])
        self.rows = None if len(self.X) <= EXACT_POINTS else ROWS

    def error(self, method: str, floats: int, seed: int, **options: object) -> float:
        A = approximate(self.X, self.kernel, method, memory=floats * len(self.X), rng=seed, **options)
        assert A.stored <= floats * len(self.X)
        return bb.relative_error(A, self.X, self.kernel, n_rows=self.rows, rng=1000 + seed).value

    def errors(self, method: str, floats: int, seeds: int, **options: object) -> np.ndarray:
        return np.array([self.error(method, floats, seed, **options) for seed in range(seeds)])


def row(*cells: object) -> None:
    print("|", " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def header(*cells: object) -> None:
    print()
    row(*cells)
    row(*["---"] * len(cells))


def yardsticks(cases: list[Case], seeds: int) -> None:
    header("data", "method", *(f"{floats} floats per point (known, ratio)" for floats in BUDGETS))
    for case in cases:
        for method in ("svd", "nystrom", "nystrom-kmeans"):
            known = YARDSTICKS[case.name, method]
            runs = 1 if method == "svd" else seeds
            found = [case.errors(method, floats, runs).mean() for floats in BUDGETS]
            pairs = zip(found, known, strict=True)
            row(case.name, method, *(f"{error:.3g} ({best:.3g}, {error / best:.2f})" for error, best in pairs))


def meka(cases: list[Case], seeds: int) -> None:
    header("data", "clusters", "floats per point", "seeds", "least / quartiles / largest", "known", "BBF, largest")
    for case in cases:
        clusters, floats, known = MEKA[case.name]
        errors = case.errors("meka", floats, seeds, n_clusters=clusters, eta=0.0)  # as BBF: no block is cut off
        spread = " / ".join(f"{error:.3g}" for error in np.quantile(errors, (0, 0.25, 0.5, 0.75, 1)))
        best = case.errors("bbf", floats, seeds).max()
        row(case.name, clusters, floats, seeds, spread, " / ".join(map(str, known)), float(best))


def others(cases: list[Case], seeds: int) -> None:
    header("data", "method", *(f"{floats} floats per point" for floats in BUDGETS))
    for case in cases:
        for method in OTHERS:
            row(case.name, method, *(float(case.errors(method, floats, seeds).mean()) for floats in BUDGETS))


def ifgt(cases: list[Case], seeds: int) -> None:
    header("d", "n", "clusters", "largest order", "direct", "error / bound", "seconds to build", "seconds of a product")
    for d, sizes in ((2, (10_000, 40_000, 160_000)), (5, (10_000, 40_000, 80_000)), (40, (5_000, 10_000, 20_000))):
        for n in sizes:
            X = unit_cube_mixture(n, d, rng=0)
            start = time.perf_counter()
            A = approximate(X, bb.Gaussian(0.5), "ifgt", tol=1e-3, rng=0)
            built = time.perf_counter()
            v = np.random.default_rng(1).standard_normal(n)
            product = A @ v
            applied = time.perf_counter()
            some = np.random.default_rng(2).choice(n, 1000, replace=False)
            off = np.abs(product[some] - bb.Gaussian(0.5)(X[some], X) @ v).max() / (A.tol * np.abs(v).sum())
            order = "" if A.direct else max(A.expansion.orders)
            row(d, n, A.n_clusters, order, A.direct, float(off), built - start, applied - built)


PARTS = {"yardsticks": yardsticks, "meka": meka, "others": others, "ifgt": ifgt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="*", choices=BANDWIDTHS, default=list(BANDWIDTHS))
    arguments = parser.parse_args()
    cases = [Case(name) for name in arguments.data]
    for part in arguments.parts:
        PARTS[part](cases, arguments.seeds)


if __name__ == "__main__":
    main()
