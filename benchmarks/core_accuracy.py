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
from blockbasis._linalg import semidefinite_part
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import Partition, kmeans
from blockbasis.settling import DIAGONAL_ROUNDS

CASES = [("abalone", 1.0), ("pendigits", 2.0), ("ctg", 0.5), ("emg", 0.1), ("gesture", 0.25), ("gesture", 1.0)]
PAPER_CASES = [("abalone", 1.0), ("pendigits", 2.0)]


@dataclass
class DenseReference:
    """Exact bases and exact inner matrix of one partition, from the dense matrix in the partition's order."""

    K: np.ndarray
    partition: Partition
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.norm = sum(float(np.einsum("ij,ij->", rows, rows, dtype=np.float64)) for rows in self._strips())

    def _strips(self) -> list[np.ndarray]:
        return [self.K[cluster] for cluster in self.partition.clusters]

    def exact_errors(self, ranks: tuple[int, ...], *, diagonal: bool) -> dict[int, float]:
        """Error of exact bases and exact inner matrix at each rank; without D the bases of smaller ranks are nested."""
        if diagonal:
            return {rank: self._exact_error(rank, self._bases(rank, diagonal=True)) for rank in ranks}
        bases = self._bases(max(ranks), diagonal=False)
        return {rank: self._exact_error(rank, [(U[:, :rank], None) for U, _ in bases]) for rank in ranks}

    def operator_error(self, A: bb.BlockBasis) -> float:
        """Error of a factorization of the same points."""
        part = None if A.diagonal_part is None else A.diagonal_part[self.partition.order]
        return self._error(list(A.bases), A.inner.todense(), part)

    def _exact_error(self, rank: int, pieces: list[tuple[np.ndarray, np.ndarray | None]]) -> float:
        bases = [U for U, _ in pieces]
        d = None if pieces[0][1] is None else np.concatenate([d for _, d in pieces])
        C = self._inner(bases, d)
        if d is None:
            return self._error(bases, C, None)
        values, vectors = np.linalg.eigh(C)  # kept positive semi-definite, as the factorization is
        C = (vectors * np.maximum(values, 0)) @ vectors.T
        offsets = np.concatenate(([0], np.cumsum([U.shape[1] for U in bases])))
        own = [C[a:b, a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        held = [np.einsum("ij,ij->i", U @ c, U) for U, c in zip(bases, own, strict=True)]
        return self._error(bases, C, np.clip(1 - np.concatenate(held), 0, 1))

    def _error(self, bases: list[np.ndarray], C: np.ndarray, d: np.ndarray | None) -> float:
        offsets = np.concatenate(([0], np.cumsum([U.shape[1] for U in bases])))
        error = 0.0
        for i, (U, rows) in enumerate(zip(bases, self.partition.clusters, strict=True)):
            strip = (U @ C[offsets[i] : offsets[i + 1]]).astype(self.K.dtype)
            for j, (V, columns) in enumerate(zip(bases, self.partition.clusters, strict=True)):
                difference = self.K[rows, columns] - strip[:, offsets[j] : offsets[j + 1]] @ V.T.astype(self.K.dtype)
                if i == j and d is not None:
                    difference[np.diag_indices(len(U))] -= d[rows]
                error += float(np.einsum("ij,ij->", difference, difference, dtype=np.float64))
        return float(np.sqrt(error / self.norm))

    def _bases(self, rank: int, *, diagonal: bool) -> list[tuple[np.ndarray, np.ndarray | None]]:
        return [self._basis(rows, rank, diagonal) for rows in self.partition.clusters]

    def _basis(self, rows: slice, rank: int, diagonal: bool) -> tuple[np.ndarray, np.ndarray | None]:
        M = self.K[rows]
        d = np.zeros(len(M))
        if len(M) <= rank:
            return np.eye(len(M), dtype=M.dtype), d if diagonal else None
        at = np.arange(len(M)), np.arange(rows.start, rows.stop)
        Q = self._range(M, np.linalg.qr(M @ self._random(M, rank))[0], 3)
        for _ in range(DIAGONAL_ROUNDS if diagonal else 0):
            U = self._leading(M, Q, rank)
            M[at] = 1
            whole = U.T @ M[:, rows] @ U
            for _ in range(20):
                core = semidefinite_part(whole - (U.T * d) @ U)
                d = np.clip(1 - np.einsum("ij,ij->i", U @ core, U), 0, 1)
            M[at] = 1 - d
            Q = self._range(M, Q, 2)
        U = self._leading(M, Q, rank)
        M[at] = 1
        return U, d if diagonal else None

    def _random(self, M: np.ndarray, rank: int) -> np.ndarray:
        return self.rng.standard_normal((M.shape[1], min(rank + 20, len(M)))).astype(M.dtype)

    @staticmethod
    def _range(M: np.ndarray, Q: np.ndarray, steps: int) -> np.ndarray:
        for _ in range(steps):
            Q = np.linalg.qr(M @ (M.T @ Q))[0]
        return Q

    @staticmethod
    def _leading(M: np.ndarray, Q: np.ndarray, rank: int) -> np.ndarray:
        R = np.linalg.qr(M.T @ Q, mode="r")
        return (Q @ np.linalg.svd(R.T)[0])[:, :rank]

    def _inner(self, bases: list[np.ndarray], d: np.ndarray | None) -> np.ndarray:
        strips = []
        for U, rows in zip(bases, self.partition.clusters, strict=True):
            left = U.T @ self.K[rows]
            if d is not None:
                left[:, rows] -= U.T * d[rows]
            pairs = zip(bases, self.partition.clusters, strict=True)
            strips.append(np.concatenate([left[:, columns] @ V for V, columns in pairs], axis=1))
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
            reference = DenseReference(
                KernelMatrix(kernel, ordered).block(*[slice(0, len(X))] * 2), partition, np.random.default_rng(seed)
            )
            best = reference.exact_errors(tuple(runs), diagonal=False)
            best_d = reference.exact_errors(tuple(runs), diagonal=True)
            for r, run in runs.items():
                A = bb.factorize(X, kernel, partition=partition, rank=r, diagonal=False, rng=seed)
                plain = reference.operator_error(A)
                allowed = 60 * r + 100 + (8 * A.ranks.sum()) ** 2 / 2 / len(X)
                entries = A.entries.total / len(X) / allowed
                with_d = reference.operator_error(bb.factorize(X, kernel, partition=partition, rank=r, rng=seed))
                paper = float("nan")
                if (name, bandwidth) in PAPER_CASES:
                    A = bb.factorize(X, kernel, partition=partition, rank=r, algorithm="paper", rng=seed)
                    paper = reference.operator_error(A)
                run.append((plain, best[r], with_d, best_d[r], paper, entries))
        for r, run in runs.items():
            plain, exact, with_d, exact_d, paper, entries = np.array(run).T
            ratio, ratio_d = plain / exact, with_d / exact_d
            results.append(
                {
                    "case": f"{name} h={bandwidth:g}, k={k}, r={r}",
                    "exact": exact.mean(),
                    "default": plain.mean(),
                    "ratio": ratio.mean(),
                    "worst seed": ratio.max(),
                    "std %": 100 * ratio.std() / ratio.mean(),
                    "entries/allowed": entries.max(),
                    "exact, D": exact_d.mean(),
                    "default, D": with_d.mean(),
                    "ratio, D": ratio_d.mean(),
                    "worst seed, D": ratio_d.max(),
                    "paper ratio": (paper / exact).mean(),
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
    ratios_d = np.array([row["ratio, D"] for row in results])
    print(f"\nNo D: mean ratio {ratios.mean():.3f}, worst {ratios.max():.3f}.", end=" ")
    print(f"With D: mean ratio {ratios_d.mean():.3f}, worst {ratios_d.max():.3f}.")
    small_bandwidth(arguments.seeds)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
