"""The continuation to new points against the exact kernel, on points that were held out."""

from __future__ import annotations

import itertools

import numpy as np
from cases import TINY
from data import points_of
from measure import Result, quietly, stopwatch
from report import Content, Verdict, at_most, number, share_at_least, succeeded, table

import blockbasis as bb

TITLE = "New points"
DATA = ("abalone", "pendigits", "emg", "gesture", "census_house", "covtype")
BANDWIDTHS = (1.0, 2.0, 4.0)
SEEDS = 3
TOLERANCE = 1e-2
#: Points held out, and at most so many of the others to factorize.
HELD_OUT, POINTS = 2_000, 5_000


def cells(size: str, only: list[str] | None) -> list[Result]:
    if size == "tiny":
        return [{"data": TINY.data, "h": TINY.bandwidth, "seed": 0, "n": 1_000, "held_out": 500}]
    data, bandwidths, seeds = (DATA, BANDWIDTHS, SEEDS) if size == "full" else (DATA, (2.0, 4.0), 1)
    return [
        {"data": name, "h": h, "seed": seed, "n": POINTS, "held_out": HELD_OUT}
        for name, h, seed in itertools.product(data, bandwidths, range(seeds))
        if not only or name in only
    ]


def run(cell: Result) -> Result:
    """Relative error of K(X_new, X), and its largest entry in modulus; of exact entries none is above 1."""
    X, X_new = split(cell)
    kernel = bb.Gaussian(cell["h"])
    with quietly(), stopwatch() as times:
        A = bb.factorize(X, kernel, tol=TOLERANCE, rng=cell["seed"], n_jobs=1)
    with quietly() as messages:
        with stopwatch() as extending:
            B = A.extend(X_new)
        approximation = B @ np.eye(len(X))
    exact = kernel(X_new, X)
    error = float(np.linalg.norm(approximation - exact) / np.linalg.norm(exact))
    return {
        "points": len(X),
        "error": error,
        "largest": float(np.abs(approximation).max()),
        "estimate": None if A.error_estimate is None else A.error_estimate.value,
        "estimate_new": B.error_estimate.value,
        "floats": A.stored / len(X),
        "cpu": times.cpu,
        "extend_cpu": extending.cpu,
        "warnings": messages,
    }


def split(cell: Result) -> tuple[np.ndarray, np.ndarray]:
    """Points to factorize and points held out, by the seed."""
    generated = cell["n"] + cell["held_out"] if cell["data"] == TINY.data else None
    X = points_of(cell["data"], generated)
    order = np.random.default_rng(cell["seed"]).permutation(len(X))
    held_out, others = order[: cell["held_out"]], order[cell["held_out"] :][: cell["n"]]
    return X[others], X[held_out]


def line(record: Result) -> str:
    estimate = number(record["estimate"], 2)
    return f"error {record['error']:.2g}, largest entry {record['largest']:.3g}, estimate at old points {estimate}"


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    near = (record["error"] <= 5 * TOLERANCE for record in records)
    said = (record["error"] <= 5 * TOLERANCE or "AccuracyWarning" in record["warnings"] for record in records)
    right = (1 / 1.5 <= record["estimate_new"] / record["error"] <= 1.5 for record in records)
    worst = max((record["error"] / TOLERANCE for record in records), default=0.0)
    return [
        share_at_least("error at most 5 tol in 95% of the cells", near, 0.95, f"largest {worst:.3g} tol"),
        share_at_least("error at most 5 tol, or a warning that it is not, every cell", said, 1.0),
        share_at_least("estimate at new points within a factor of 1.5 of the error in 95%", right, 0.95),
        at_most("no entry above 1.5", (record["largest"] for record in records), 1.5),
    ]


def tables(content: Content) -> list[str]:
    groups: dict[tuple[str, float], list[Result]] = {}
    for record in succeeded(content):
        groups.setdefault((record["data"], record["h"]), []).append(record)
    header = ["data, h", "points", "seeds", "error / tol, largest", "estimate / tol, largest", "warned"]
    header += ["largest entry", "floats a point", "cpu s, mean"]
    rows = [
        [
            f"{name} {h:g}",
            group[0]["points"],
            len(group),
            max(record["error"] for record in group) / TOLERANCE,
            max(record["estimate_new"] for record in group) / TOLERANCE,
            sum("AccuracyWarning" in record["warnings"] for record in group),
            max(record["largest"] for record in group),
            float(np.mean([record["floats"] for record in group])),
            float(np.mean([record["cpu"] for record in group])),
        ]
        for (name, h), group in groups.items()
    ]
    return [table(header, rows)]
