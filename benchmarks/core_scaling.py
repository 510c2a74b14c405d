"""Kernel entries against n and k, cut-off blocks, peak memory, exactness and definiteness of the factorization.

BLOCKBASIS_DATA=... python benchmarks/core_scaling.py [entries] [cutoff] [memory] [exactness] [definiteness]
"""

from __future__ import annotations

import itertools
import resource
import sys
import time

import numpy as np
from data import load_standardized

import blockbasis as bb
from blockbasis.construction import SAMPLINGS
from blockbasis.datasets import unit_cube_mixture

KERNELS = [
    bb.Gaussian(0.5),
    bb.Laplacian(0.5),
    bb.Matern(0.5, 1.5),
    bb.Matern(0.5, 2.5),
    bb.Cauchy(0.5),
    bb.InverseMultiquadric(0.5),
    bb.RationalQuadratic(0.5, 0.7),
]


def entries() -> None:
    """Entries for the bases: at most doubled with n, nearly free of k; Algorithm 2 grows with k."""
    kernel = bb.Gaussian(0.5)
    print("\nEntries for the bases, d = 5 mixture, k = 20, r = 20, in millions\n")
    sizes = [5_000, 10_000, 20_000, 40_000, 80_000]
    print("| sampling | " + " | ".join(f"n = {n:,}" for n in sizes) + " | largest ratio |")
    print("|" + " --- |" * (len(sizes) + 2))
    for sampling in ("energy", "pooled"):
        counts = []
        for n in sizes:
            X = unit_cube_mixture(n, 5, rng=0)
            counts.append(bb.factorize(X, kernel, n_clusters=20, rank=20, sampling=sampling, rng=0).entries.bases)
        ratio = max(b / a for a, b in itertools.pairwise(counts))
        print(f"| {sampling} | " + " | ".join(f"{c / 1e6:.2f}" for c in counts) + f" | {ratio:.3f} |", flush=True)

    print("\nEntries for the bases, n = 80,000, r = 20, in millions\n")
    clusters = [10, 20, 40, 80]
    print("| sampling | " + " | ".join(f"k = {k}" for k in clusters) + " | last over first |")
    print("|" + " --- |" * (len(clusters) + 2))
    X = unit_cube_mixture(80_000, 5, rng=0)
    for sampling in ("energy", "pooled", "randomized"):
        runs = [bb.factorize(X, kernel, n_clusters=k, rank=20, sampling=sampling, rng=0) for k in clusters]
        counts = [A.entries.bases for A in runs]
        row = " | ".join(f"{c / 1e6:.1f}" for c in counts)
        print(f"| {sampling} | {row} | {counts[-1] / counts[0]:.2f} |", flush=True)


def cutoff() -> None:
    """Blocks cut off from C on EMG, h = 0.1, 100 clusters."""
    X, kernel = load_standardized("emg"), bb.Gaussian(0.1)
    print(f"\nEMG, {len(X):,} points, h = 0.1, k = 100, r = 20; error from 2,000 rows\n")
    print("| cutoff | blocks dropped | error | change | floats per point |\n|" + " --- |" * 5)
    plain = None
    for share in (None, 1e-4, 1e-3, 1e-2):
        A = bb.factorize(X, kernel, n_clusters=100, rank=20, cutoff=share, rng=0)
        error = bb.relative_error(A, X, kernel, n_rows=2000, rng=0).value
        plain = error if plain is None else plain
        dropped = 0.0 if A.cutoff is None else A.cutoff.dropped
        print(f"| {share} | {dropped:.1%} | {error:.5f} | {error - plain:+.1e} | {A.stored / len(X):.1f} |", flush=True)


def memory() -> None:
    """Peak resident memory of a large factorization."""
    X = unit_cube_mixture(200_000, 8, rng=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    A = bb.factorize(X, bb.Gaussian(0.5), n_clusters=100, rank=40, rng=0)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    error = bb.relative_error(A, X, bb.Gaussian(0.5), n_rows=200, rng=0)
    print(f"\n{A}\npeak resident {peak:.2f} GB ({before:.2f} GB before), {seconds:.0f} s, relative error {error}")


def exactness() -> None:
    """Ranks equal to the cluster sizes: every kernel, partition and sampling."""
    X = unit_cube_mixture(300, 3, rng=0)
    worst, dots, products = 0.0, 0.0, 0.0
    v = np.random.default_rng(0).standard_normal(300)
    for kernel in KERNELS:
        for partition, sampling in itertools.product(("kmeans", "kcenters", "random", np.arange(300) % 4), SAMPLINGS):
            A = bb.factorize(X, kernel, n_clusters=4, rank=300, partition=partition, sampling=sampling, rng=0)
            worst = max(worst, bb.relative_error(A, X, kernel).value)
            A = bb.factorize(X, kernel, n_clusters=4, rank=12, partition=partition, sampling=sampling, rng=0)
            dots = max(dots, bb.dot_test(A, rng=0))
            dense = A.todense() @ v
            products = max(products, float(np.linalg.norm(A @ v - dense) / np.linalg.norm(dense)))
    print(f"\nranks equal to cluster sizes: largest relative error {worst:.1e}")
    print(f"dot test, largest disagreement {dots:.1e}; A @ v against A.todense() @ v, largest {products:.1e}")


def definiteness() -> None:
    """Smallest eigenvalue of U C Uᵀ + D over its largest, the worst of many bandwidths and seeds."""
    worst = np.inf
    for kernel, scale, seed in itertools.product(KERNELS, (0.02, 0.1, 0.5, 2.0, 10.0), range(5)):
        scaled = type(kernel)(**{**vars(kernel), "bandwidth": scale})
        X = unit_cube_mixture(500, 4, rng=seed)
        values = np.linalg.eigvalsh(bb.factorize(X, scaled, n_clusters=6, rank=15, rng=seed).todense())
        worst = min(worst, values[0] / values[-1])
    print(f"\nsmallest eigenvalue over the largest, worst of {len(KERNELS) * 25} factorizations: {worst:.1e}")


def main() -> None:
    parts = {f.__name__: f for f in (exactness, definiteness, entries, cutoff, memory)}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
