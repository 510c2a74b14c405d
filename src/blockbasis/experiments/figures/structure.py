"""The block basis structure against the low-rank structure, for the same ways of sampling columns."""

from __future__ import annotations

from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.accuracy import relative_error
from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.report import figures

_SAMPLINGS = {"randomized": "rand", "uniform": "unif", "leverage": "ls", "exact": "svd"}
_BANDWIDTH, _CLUSTERS = 2.0, 10
_RANKS = {1: [10, 20, 50, 100, 150], _CLUSTERS: [4, 8, 16, 32, 48]}


def _parts(quick: bool) -> list[Settings]:
    n, runs, count = (800, 1, 3) if quick else (4000, 5, 5)
    return [
        {"data": name, "sampling": how, "clusters": k, "ranks": ranks[:count], "n": n, "runs": runs}
        for name in ("abalone", "pendigits")
        for how in _SAMPLINGS
        for k, ranks in _RANKS.items()
    ]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, _ = points.load_points(settings["data"], settings["n"])
    kernel = bb.Gaussian(_BANDWIDTH)
    rows: list[Row] = []
    for rank in settings["ranks"]:
        for run, stream in enumerate(rng.spawn(settings["runs"])):
            # One cluster is the low-rank structure, with one basis for all rows.
            choices = {"n_clusters": settings["clusters"], "rank": rank, "sampling": settings["sampling"]}
            A = bb.factorize(X, kernel, algorithm="paper", inner="exact", rng=stream, **choices)
            error = relative_error(A, X, kernel).value
            rows.append({"rank": rank, "run": run, "stored": A.stored / len(X), "error": error})
    return rows


def _draw(result: Result) -> Any:
    names = result.distinct("data")
    figure, axes = figures.panels(len(names))
    for each, name in zip(axes, names, strict=True):
        for place, (how, short) in enumerate(_SAMPLINGS.items()):
            for clusters, structure, dash in ((_CLUSTERS, "BBF", "-"), (1, "LR", "--")):
                stored, errors = _curve(result, name, how, clusters)
                look = {**figures.style(place), "linestyle": dash}
                fill = None if clusters == _CLUSTERS else "none"
                runs = result.where(data=name, sampling=how, clusters=clusters)
                dots = {**look, "linestyle": "none", "ms": 3, "alpha": 0.4, "mfc": fill}
                each.plot([r["stored"] for r in runs], [r["error"] for r in runs], **dots)
                each.plot(stored, errors, **look, ms=4.5, mfc=fill, label=f"{structure} {short}")
        each.set(xscale="log", yscale="log", xlabel="floats per point", ylabel="relative error")
        each.set_title(f"{points.TITLES[name]}, h = {_BANDWIDTH:g}")
    figures.shared_legend(figure, axes[0])
    return figure


def _curve(result: Result, name: str, how: str, clusters: int) -> tuple[list[float], list[float]]:
    """Return the mean memory and the mean error of each rank."""
    found = [
        result.where(data=name, sampling=how, clusters=clusters, rank=rank)
        for rank in result.distinct("rank", data=name, sampling=how, clusters=clusters)
    ]
    stored, errors = ([float(np.mean([r[key] for r in rows])) for rows in found] for key in ("stored", "error"))
    return stored, errors


def _judge(result: Result) -> Verdict:
    """Judge by the low-rank error at the same memory, interpolated on logarithmic axes."""
    gains, over_svd = {}, {}
    for name in result.distinct("data"):
        for how, short in _SAMPLINGS.items():
            blocks = _curve(result, name, how, _CLUSTERS)
            gains[f"{points.TITLES[name]} {short}"] = _least_gain(blocks, _curve(result, name, how, 1))
            over_svd[f"{points.TITLES[name]} {short}"] = _least_gain(blocks, _curve(result, name, "exact", 1))
    beaten = [where for where, gain in gains.items() if not gain > 1]  # also if the curves have no common memory
    below = [where for where, gain in over_svd.items() if gain > 1]
    return Verdict(
        not beaten and len(below) > len(over_svd) / 2,
        f"At the same memory the low-rank error is at least {min(gains.values()):.2g} times the block basis error with "
        f"the same sampling{'; not more for ' + ', '.join(beaten) if beaten else ''}; {len(below)} of {len(over_svd)} "
        "block basis curves lie below the best low-rank approximation throughout.",
    )


def _least_gain(blocks: tuple[list[float], list[float]], low_rank: tuple[list[float], list[float]]) -> float:
    """Return the smallest ratio of the low-rank error to the block basis error over the common range of memory."""
    stored, errors = (np.log(each) for each in blocks)
    their_stored, theirs = (np.log(each) for each in low_rank)
    shared = (stored >= their_stored[0]) & (stored <= their_stored[-1])
    ratios = np.exp(np.interp(stored, their_stored, theirs) - errors)[shared]
    return float(ratios.min()) if len(ratios) else float("nan")


EXPERIMENT = Experiment(
    "structure",
    "Block basis structure against low-rank structure",
    "4.1.2",
    "At the same memory the block basis structure has a lower error than the low-rank structure whatever the sampling, "
    "and for most samplings a lower one than the best low-rank approximation.",
    _parts,
    _measure,
    _draw,
    _judge,
)
