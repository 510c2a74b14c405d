"""A budget of floats: whether it is kept, and the error beside the best of low rank with as many floats."""

from __future__ import annotations

import itertools

import numpy as np
from cases import TINY
from data import points_of
from measure import Result, quietly, stopwatch
from report import Content, Verdict, at_most, succeeded, table
from scipy.sparse.linalg import eigsh

import blockbasis as bb

TITLE = "Budgets"
CASES = (("abalone", 1.0), ("pendigits", 2.0))
FLOATS = (20, 50, 100)
SEEDS = {"tiny": 1, "quick": 1, "full": 5}


def cells(size: str, only: list[str] | None) -> list[Result]:
    if size == "tiny":
        return [{"data": TINY.data, "h": TINY.bandwidth, "n": TINY.n, "floats": 20, "seed": 0}]
    found = itertools.product(CASES if size == "full" else CASES[:1], FLOATS, range(SEEDS[size]))
    return [
        {"data": name, "h": h, "n": None, "floats": floats, "seed": seed}
        for (name, h), floats, seed in found
        if not only or name in only
    ]


def run(cell: Result) -> Result:
    X, kernel = points_of(cell["data"], cell["n"]), bb.Gaussian(cell["h"])
    budget = cell["floats"] * len(X)
    with quietly():
        with stopwatch() as times:
            A = bb.factorize(X, kernel, memory=budget, rng=cell["seed"], n_jobs=1)
        error = bb.relative_error(A, X, kernel).value
    best = low_rank_error(kernel(X), cell["floats"])
    return {"used": A.stored / budget, "error": error, "low_rank": best, "ratio": error / best, "cpu": times.cpu}


def low_rank_error(K: np.ndarray, rank: int) -> float:
    """Relative error of the best approximation of a rank."""
    values = eigsh(K, k=rank, which="LM", return_eigenvectors=False)
    return float(np.sqrt(max(0.0, 1 - (values**2).sum() / np.einsum("ij,ij->", K, K))))


def line(record: Result) -> str:
    return (
        f"{record['used']:.1%} of the budget, error {record['error']:.3g}, {record['ratio']:.3g} of the best low rank"
    )


def verdicts(content: Content) -> list[Verdict]:
    return [at_most("floats stored over the budget at most 1", (r["used"] for r in succeeded(content)), 1.0)]


def tables(content: Content) -> list[str]:
    groups: dict[tuple[str, float, int], list[Result]] = {}
    for record in succeeded(content):
        groups.setdefault((record["data"], record["h"], record["floats"]), []).append(record)
    header = ["data, h", "floats a point", "seeds", "error", "best of low rank", "ratio", "largest share of the budget"]
    rows = [
        [f"{name} {h:g}", floats, len(group)]
        + [float(np.mean([record[key] for record in group])) for key in ("error", "low_rank", "ratio")]
        + [max(record["used"] for record in group)]
        for (name, h, floats), group in groups.items()
    ]
    return [table(header, rows)]
