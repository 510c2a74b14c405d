"""How exactly the compressed system is solved, and what the factorization is worth as a preconditioner.

BLOCKBASIS_DATA=... python benchmarks/solvers.py direct                     RidgeSystem against 80-bit references
BLOCKBASIS_DATA=... python benchmarks/solvers.py exact [--points 20000]     exact_solve with and without A
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from data import load_standardized
from sklearn.exceptions import ConvergenceWarning

import blockbasis as bb

RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2)


# --- the compressed system -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Relative errors of one way to solve: residual, logdet, diagonal of the inverse (the largest)."""

    residual: float
    logdet: float
    inverse_diagonal: float

    def __str__(self) -> str:
        return f"{self.residual:.1e} | {self.logdet:.1e} | {self.inverse_diagonal:.1e}"


class Reference:
    """A + ridge I from its factors, its determinant and its inverse's diagonal, in extended precision."""

    def __init__(self, A: bb.BlockBasis) -> None:
        n, order = A.shape[0], A.partition.order
        U = np.zeros((n, int(A.ranks.sum())), dtype=np.longdouble)
        ends = np.cumsum(A.ranks)
        for cluster, block, end in zip(A.partition.clusters, A.bases, ends, strict=True):
            U[order[cluster], end - block.shape[1] : end] = block
        self.dense = U @ A.inner.todense().astype(np.longdouble) @ U.T
        if A.diagonal_part is not None:
            self.dense[np.diag_indices(n)] += A.diagonal_part

    def at(self, ridge: float, b: np.ndarray) -> Exact:
        M = self.dense + np.longdouble(ridge) * np.eye(len(self.dense), dtype=np.longdouble)
        logdet, inverse = _inverse_factor(M.copy())
        return Exact(M, b, inverse.T @ (inverse @ b), logdet, np.einsum("ij,ij->j", inverse, inverse))


@dataclass(frozen=True)
class Exact:
    """M x = b with its solution, and with what else is asked of M."""

    M: np.ndarray
    b: np.ndarray
    x: np.ndarray
    logdet: np.longdouble
    inverse_diagonal: np.ndarray

    def residual(self, x: np.ndarray) -> float:
        return float(np.linalg.norm((self.M @ x - self.b).astype(np.float64)) / np.linalg.norm(self.b))

    def errors(self, x: np.ndarray, logdet: float, inverse_diagonal: np.ndarray) -> Errors:
        diagonal = np.abs(inverse_diagonal / self.inverse_diagonal - 1).max()
        return Errors(self.residual(x), float(abs(logdet / self.logdet - 1)), float(diagonal))


def _inverse_factor(M: np.ndarray) -> tuple[np.longdouble, np.ndarray]:
    """Logarithm of the determinant and L^-1 of M = L Lᵀ, by plain elimination; M is overwritten."""
    n = len(M)
    inverse = np.eye(n, dtype=M.dtype)
    logdet = np.longdouble(0)
    for j in range(n):
        root = np.sqrt(M[j, j])
        logdet += 2 * np.log(root)
        column = M[j + 1 :, j] / root
        M[j + 1 :, j + 1 :] -= np.outer(column, column)
        inverse[j, : j + 1] /= root
        inverse[j + 1 :, : j + 1] -= np.outer(column, inverse[j, : j + 1])
    return logdet, inverse


def run_direct(n: int) -> None:
    print("| case | ridge | residual | logdet | inverse diagonal | NumPy: residual | logdet ", end="")
    print("| inverse diagonal | residual of the exact solution, rounded |\n| --- |" + " --- |" * 8)
    X = load_standardized("abalone", n)
    b = np.random.default_rng(1).standard_normal(len(X))
    for h in (1.0, 0.2):
        for diagonal in (True, False):
            A = bb.factorize(X, bb.Gaussian(h), n_clusters=10, rank=60, diagonal=diagonal, rng=0)
            reference, first = Reference(A), bb.RidgeSystem(A, 1.0)
            for ridge in RIDGES:
                exact = reference.at(ridge, b)
                numpy = exact.errors(*_numpy_figures(exact.M.astype(np.float64), b))
                best = exact.residual(exact.x.astype(np.float64))
                systems = {"fresh": bb.RidgeSystem(A, ridge)}
                if not diagonal:  # with D another ridge is another factorization
                    systems["reused"] = first.with_ridge(ridge)
                for name, system in systems.items():
                    ours = exact.errors(system.solve(b), system.logdet(), system.inverse_diagonal())
                    case = f"h={h:g}, {'with' if diagonal else 'no'} D, {name}"
                    print(f"| {case} | {ridge:g} | {ours} | {numpy} | {best:.1e} |", flush=True)


def _numpy_figures(M: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    return np.linalg.solve(M, b), float(np.linalg.slogdet(M)[1]), np.diagonal(np.linalg.inv(M))


# --- the exact system ------------------------------------------------------------------------------------------------


def run_exact(n: int, clusters: int, rank: int, ridge: float = 1e-3) -> None:
    X, kernel = load_standardized("census_house", n), bb.Gaussian(1.0)
    b = np.random.default_rng(1).standard_normal(len(X))
    start = time.perf_counter()
    A = bb.factorize(X, kernel, n_clusters=clusters, rank=rank, rng=0)
    print(f"{A}, {time.perf_counter() - start:.0f} s", flush=True)
    quick = _timed(X, kernel, b, ridge, preconditioner=A)
    with warnings.catch_warnings():
        # Beyond five times the iterations there is nothing left to show: the number is a bound then.
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = _timed(X, kernel, b, ridge, max_iterations=5 * quick.iterations + 1)
    more = "" if plain.converged else "more than "
    print(f"plain over preconditioned iterations: {more}{plain.iterations / quick.iterations:.2f}")


def _timed(X: np.ndarray, kernel: bb.kernels.Kernel, b: np.ndarray, ridge: float, **settings: Any) -> bb.Solution:
    start = time.perf_counter()
    found = bb.exact_solve(X, kernel, b, ridge, **settings)
    name = "with A" if "preconditioner" in settings else "plain"
    print(f"{name}: {found}, {time.perf_counter() - start:.0f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["direct", "exact"])
    parser.add_argument("--points", type=int)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--rank", type=int, default=150)
    arguments = parser.parse_args()
    if arguments.part == "direct":
        run_direct(arguments.points or 1500)
    else:
        run_exact(arguments.points or 20_000, arguments.clusters, arguments.rank)


if __name__ == "__main__":
    main()
