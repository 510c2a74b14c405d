"""Accuracy of fixed ranks, against exact bases with an exact inner matrix of the same clusters."""

from __future__ import annotations

import itertools

import numpy as np
from cases import TINY
from data import points_of
from measure import Result, quietly
from reference import Reference, dense, operator_error
from report import Content, Verdict, at_most, succeeded, table
from sklearn.cluster import KMeans

import blockbasis as bb

TITLE = "Accuracy of fixed ranks"
CASES = (("abalone", 1.0), ("pendigits", 2.0), ("ctg", 0.5), ("emg", 0.1), ("gesture", 0.25), ("gesture", 1.0))
RANKS = (10, 40)
CLUSTERS = (5, 20)
#: Cases in which the paper's own algorithm is run too.
PAPER = (("abalone", 1.0), ("pendigits", 2.0))
#: 2,000 points, 10 clusters of rank 30, with D: where the bandwidth is small. Errors of commit 53d7054, seed by seed.
SMALL = {
    ("pendigits", 0.5): (0.0693, 0.0729, 0.0813, 0.0838, 0.0754),
    ("abalone", 0.2): (0.1394, 0.1527, 0.1499, 0.1367, 0.1533),
}
SEEDS = {"tiny": 1, "quick": 2, "full": 5}


def cells(size: str, only: list[str] | None) -> list[Result]:
    if size == "tiny":
        return [{"data": TINY.data, "h": TINY.bandwidth, "k": 5, "seed": 0, "n": 800, "small": False}]
    cases = CASES if size == "full" else (("abalone", 1.0), ("ctg", 0.5))
    found = [
        {"data": name, "h": h, "k": k, "seed": seed, "n": None, "small": False}
        for (name, h), k, seed in itertools.product(cases, CLUSTERS, range(SEEDS[size]))
    ]
    found += [
        {"data": name, "h": h, "k": 10, "seed": seed, "n": 2_000, "small": True}
        for (name, h), seed in itertools.product(SMALL, range(SEEDS[size]))
    ]
    return [cell for cell in found if not only or cell["data"] in only]


def run(cell: Result) -> Result:
    """Errors of ours and of the reference; one thread, since many small factorizations are slower with more."""
    X, kernel = points_of(cell["data"], cell["n"], cell["seed"]), bb.Gaussian(cell["h"])
    with quietly():
        if cell["small"]:
            A = bb.factorize(X, kernel, n_clusters=cell["k"], rank=30, rng=cell["seed"])
            return {"error": bb.relative_error(A, X, kernel).value}
        return _fixed_ranks(X, kernel, cell)


def _fixed_ranks(X: np.ndarray, kernel: bb.Gaussian, cell: Result) -> Result:
    seed = cell["seed"]
    labels = KMeans(cell["k"], n_init=1, random_state=seed).fit(X).labels_
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    K = dense(X, kernel)
    reference = Reference(K, np.bincount(labels), np.random.default_rng(seed))
    plain = reference.errors(RANKS, diagonal=False)
    with_d = reference.errors(RANKS, diagonal=True)
    options: dict[str, Result] = {"": {"diagonal": False}, "_d": {}}
    if (cell["data"], cell["h"]) in PAPER:
        options["_paper"] = {"algorithm": "paper"}
    record: Result = {}
    for rank in RANKS:
        record |= {f"exact_{rank}": plain[rank], f"exact_d_{rank}": with_d[rank]}
        for name, more in options.items():
            A = bb.factorize(X, kernel, partition=labels, rank=rank, rng=seed, **more)
            record[f"ours{name}_{rank}"] = operator_error(A, K)
    return record


def line(record: Result) -> str:
    if "error" in record:
        return f"error {record['error']:.4f}"
    ratios = [f"r={r}: {_ratio(record, r, ''):.3f}, with D {_ratio(record, r, '_d'):.3f}" for r in RANKS]
    return "ratio to exact bases " + "; ".join(ratios)


def _ratio(record: Result, rank: int, diagonal: str) -> float:
    return float(record[f"ours{diagonal}_{rank}"] / record[f"exact{diagonal}_{rank}"])


def groups(content: Content) -> dict[tuple[str, float, int], list[Result]]:
    """Records of fixed ranks by data, bandwidth and clusters: one for each seed."""
    found: dict[tuple[str, float, int], list[Result]] = {}
    for record in succeeded(content):
        if not record["small"]:
            found.setdefault((record["data"], record["h"], record["k"]), []).append(record)
    return found


def ratios(content: Content, diagonal: str) -> dict[tuple[str, float, int, int], np.ndarray]:
    """Ratios to the exact bases of every case, one for each seed."""
    return {
        (*key, rank): np.array([_ratio(record, rank, diagonal) for record in records])
        for key, records in groups(content).items()
        for rank in RANKS
    }


def small_errors(content: Content) -> dict[tuple[str, float], tuple[list[float], list[float]]]:
    """Errors at small bandwidths, and those of the earlier commit with the same seeds."""
    found: dict[tuple[str, float], tuple[list[float], list[float]]] = {}
    for record in succeeded(content):
        if record["small"]:
            case = record["data"], record["h"]
            now, then = found.setdefault(case, ([], []))
            now.append(record["error"])
            then.append(SMALL[case][record["seed"]])
    return found


def verdicts(content: Content) -> list[Verdict]:
    found = []
    for diagonal, name, mean, worst in (("", "without D", 1.12, 1.25), ("_d", "with D", 1.15, 1.30)):
        of = ratios(content, diagonal)
        means = [values.mean() for values in of.values()]
        spread = [values.std() / values.mean() for values in of.values() if len(values) > 1]
        count = f"{len(of)} of 24 cases"
        found += [
            at_most(f"{name}: mean ratio to exact bases at most {mean}, {count}", means, mean, np.mean),
            at_most(f"{name}: worst ratio at most {worst}, {count}", means, worst),
            at_most(f"{name}: standard deviation over the seeds at most 3%, largest", spread, 0.03),
        ]
    for (name, h), (now, then) in small_errors(content).items():
        must = f"{name} h={h:g}: error with D over that of commit 53d7054 at most 1.1, {len(now)} seeds"
        found.append(at_most(must, [float(np.mean(now) / np.mean(then))], 1.1))
    return found


def tables(content: Content) -> list[str]:
    header = ["case", "exact", "ours", "ratio", "worst seed", "exact, D", "ours, D", "ratio, D", "worst seed, D"]
    header += ["paper's algorithm, ratio"]
    rows = []
    for (name, h, k), records in groups(content).items():
        for rank in RANKS:
            row = [f"{name} h={h:g}, k={k}, r={rank}"]
            for diagonal in ("", "_d"):
                of = np.array([_ratio(record, rank, diagonal) for record in records])
                keys = (f"exact{diagonal}_{rank}", f"ours{diagonal}_{rank}")
                row += [*(np.mean([record[key] for record in records]) for key in keys), of.mean(), of.max()]
            paper = [r[f"ours_paper_{rank}"] / r[f"exact_{rank}"] for r in records if f"ours_paper_{rank}" in r]
            rows.append([*row, float(np.mean(paper)) if paper else None])
    small = [
        [f"{name} h={h:g}", float(np.mean(now)), max(now), float(np.mean(then))]
        for (name, h), (now, then) in small_errors(content).items()
    ]
    second = table(["2,000 points, k=10, r=30", "error with D, mean", "largest", "commit 53d7054, mean"], small)
    return [table(header, rows), *([second] if small else [])]
