"""How close the factorization comes to exact bases with an exact inner matrix, on the paper's data.

    BLOCKBASIS_DATA=... python benchmarks/core_accuracy.py [--cases abalone pendigits ...] [--seeds 5]

The reference is computed here, by itself, from the dense kernel matrix. Ratios are means over the seeds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from data import load_standardized

import blockbasis as bb
from blockbasis.basis import DIAGONAL_ROUNDS
from blockbasis.partition import Partition, kmeans

CASES = [("abalone", 1.0), ("pendigits", 2.0), ("ctg", 0.5), ("emg", 0.1), ("gesture", 0.25), ("gesture", 1.0)]
PAPER_CASES = [("abalone", 1.0), ("pendigits", 2.0)]


@dataclass
class DenseReference:
    """Exact bases and exact inner matrix of one partition, from the dense matrix."""

    K: np.ndarray
    partition: Partition
    rng: np.random.Generator

    def error(self, rank: int, *, diagonal: bool) -> float:
        pieces = [self._cluster(i, rank, diagonal) for i in range(self.partition.n_clusters)]
        error, norm = 0.0, 0.0
        part = np.concatenate([d for _, d in pieces])
        C = self._inner([U for U, _ in pieces], part)
        right = [U for U, _ in pieces]
        offsets = np.concatenate(([0], np.cumsum([U.shape[1] for U in right])))
        for i, (U, _) in enumerate(pieces):
            rows = self.partition.cluster(i)
            strip = C[offsets[i] : offsets[i + 1]]
            for j, V in enumerate(right):
                columns = self.partition.cluster(j)
                block = self.K[rows, columns]
                norm += float(np.einsum("ij,ij->", block, block, dtype=np.float64))
                approximation = U @ strip[:, offsets[j] : offsets[j + 1]] @ V.T
                difference = block - approximation
                if i == j and diagonal:
                    own = np.einsum("ij,ij->i", U @ strip[:, offsets[i] : offsets[i + 1]], U)
                    difference[np.diag_indices(len(U))] -= np.clip(1 - own, 0, 1)
                error += float(np.einsum("ij,ij->", difference, difference, dtype=np.float64))
        return float(np.sqrt(error / norm))

    def _cluster(self, i: int, rank: int, diagonal: bool) -> tuple[np.ndarray, np.ndarray]:
        rows = self.partition.cluster(i)
        M = self.K[rows]
        at = np.arange(len(M)), np.arange(rows.start, rows.stop)
        d = np.zeros(len(M))
        if len(M) <= rank:
            return np.eye(len(M), dtype=M.dtype), d
        Q = None
        for _ in range(DIAGONAL_ROUNDS if diagonal else 0):
            Q = self._range(M, Q, rank)
            U = self._leading(M, Q, rank)
            M[at] = 1
            whole = U.T @ M[:, rows] @ U
            for _ in range(2):
                C = whole - (U.T * d) @ U
                d = np.clip(1 - np.einsum("ij,ij->i", U @ C, U), 0, 1)
            M[at] = 1 - d
        U = self._leading(M, self._range(M, Q, rank), rank)
        M[at] = 1
        return U, d

    def _range(self, M: np.ndarray, Q: np.ndarray | None, rank: int) -> np.ndarray:
        width = min(rank + 20, len(M))
        steps = 3 if Q is not None else 6
        if Q is None:
            Q = np.linalg.qr(M @ self.rng.standard_normal((M.shape[1], width)).astype(M.dtype))[0]
        for _ in range(steps):
            Q = np.linalg.qr(M @ (M.T @ Q))[0]
        return Q

    @staticmethod
    def _leading(M: np.ndarray, Q: np.ndarray, rank: int) -> np.ndarray:
        R = np.linalg.qr(M.T @ Q, mode="r")
        return (Q @ np.linalg.svd(R.T)[0])[:, :rank]

    def _inner(self, bases: list[np.ndarray], d: np.ndarray) -> np.ndarray:
        strips = []
        for i, U in enumerate(bases):
            rows = self.partition.cluster(i)
            left = U.T @ self.K[rows]
            left[:, rows] -= U.T * d[rows]
            strips.append(np.concatenate([left[:, self.partition.cluster(j)] @ V for j, V in enumerate(bases)], axis=1))
        return np.concatenate(strips)


def measure(name: str, bandwidth: float, seeds: int) -> list[dict[str, float | str]]:
    X = load_standardized(name)
    kernel = bb.Gaussian(bandwidth)
    results = []
    for k in (5, 20):
        runs: dict[int, list[tuple[float, ...]]] = {10: [], 40: []}
        for seed in range(seeds):
            partition = kmeans(X, k, np.random.default_rng(seed))
            ordered = X[partition.order].astype(np.float32 if len(X) > 5_000 else np.float64)
            reference = DenseReference(kernel(ordered), partition, np.random.default_rng(seed))
            exact = {(r, diagonal): reference.error(r, diagonal=diagonal) for r in runs for diagonal in (False, True)}
            del reference
            for r, run in runs.items():
                A = bb.factorize(X, kernel, partition=partition, rank=r, diagonal=False, rng=seed)
                plain = bb.relative_error(A, X, kernel).value
                allowed = 60 * r + 100 + (8 * A.ranks.sum()) ** 2 / 2 / len(X)
                entries = A.entries.total / len(X) / allowed
                A = bb.factorize(X, kernel, partition=partition, rank=r, rng=seed)
                with_d = bb.relative_error(A, X, kernel).value
                paper = float("nan")
                if (name, bandwidth) in PAPER_CASES:
                    A = bb.factorize(X, kernel, partition=partition, rank=r, algorithm="paper", rng=seed)
                    paper = bb.relative_error(A, X, kernel).value
                run.append((plain, exact[r, False], with_d, exact[r, True], paper, entries))
        for r, run in runs.items():
            plain, best, with_d, best_d, paper, entries = np.array(run).T
            results.append(
                {
                    "case": f"{name} h={bandwidth:g}, k={k}, r={r}",
                    "exact": best.mean(),
                    "default, no D": plain.mean(),
                    "ratio": (plain / best).mean(),
                    "worst": (plain / best).max(),
                    "spread %": 100 * (plain / best).std() / (plain / best).mean(),
                    "entries / allowed": entries.max(),
                    "exact, D": best_d.mean(),
                    "default, D": with_d.mean(),
                    "ratio D": (with_d / best_d).mean(),
                    "worst D": (with_d / best_d).max(),
                    "paper ratio": (paper / best).mean(),
                }
            )
            print(markdown_row(results[-1]), flush=True)
    return results


def markdown_row(row: dict[str, float | str]) -> str:
    return (
        "| " + " | ".join(v if isinstance(v, str) else "" if np.isnan(v) else f"{v:.3g}" for v in row.values()) + " |"
    )


def small_bandwidth(seeds: int) -> None:
    print("\n| case, 2,000 points, k=10, r=30 | error with D, mean | largest |\n| --- | --- | --- |")
    for name, bandwidth in (("pendigits", 0.5), ("abalone", 0.2)):
        errors = []
        for seed in range(seeds):
            X = load_standardized(name, 2000, seed)
            A = bb.factorize(X, bb.Gaussian(bandwidth), n_clusters=10, rank=30, rng=seed)
            errors.append(bb.relative_error(A, X, bb.Gaussian(bandwidth)).value)
        print(f"| {name} h={bandwidth:g} | {np.mean(errors):.3f} | {np.max(errors):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", help="data sets to run; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    start = time.perf_counter()
    results = []
    for name, bandwidth in CASES:
        if arguments.cases is None or name in arguments.cases:
            rows = measure(name, bandwidth, arguments.seeds)
            results += rows
    header = list(results[0])
    print("\n| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
    for row in results:
        print(markdown_row(row))
    ratios = np.array([row["ratio"] for row in results])
    ratios_d = np.array([row["ratio D"] for row in results])
    print(f"\nNo D: mean ratio {ratios.mean():.3f}, worst {ratios.max():.3f}.", end=" ")
    print(f"With D: mean ratio {ratios_d.mean():.3f}, worst {ratios_d.max():.3f}.")
    small_bandwidth(arguments.seeds)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
