"""Time of a factorization against the number of points."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import blockbasis as bb
from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Table, Verdict
from blockbasis.experiments.framework.tables import pivot_table
from blockbasis.experiments.framework.timing import column, draw_growth, draw_linear, exponent, timed
from blockbasis.partition import Partition, kmeans
from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

_BANDWIDTH, _CLUSTERS, _RANK = 2.0, 15, 20
#: Largest number of points in a quick run and in a full run.
_DATA = {"census_house": (8_000, 22_784), "covtype": (16_000, 320_000)}
_SIZES = 5
_ALGORITHMS = ("default", "paper")
#: Largest exponent of n that counts as linear.
_LINEAR = 1.1


def _parts(quick: bool) -> list[Settings]:
    return [
        {"data": name, "algorithm": algorithm, "n": few if quick else many, "rank": _RANK}
        for name, (few, many) in _DATA.items()
        for algorithm in _ALGORITHMS
    ]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, _ = points.load_points(settings["data"], settings["n"])
    shared = np.random.default_rng(0)  # both algorithms have the same clusters and points
    groups = kmeans(X, _CLUSTERS, shared)
    rows: list[Row] = []
    for share in np.geomspace(1 / 2 ** (_SIZES - 1), 1, _SIZES):
        chosen = _stratified_sample(groups, float(share), shared)
        choices = {"partition": groups.labels[chosen], "rank": settings["rank"], "algorithm": settings["algorithm"]}
        seconds = _factorization_seconds(X[chosen], choices, rng)
        rows.append({"points": len(chosen), "seconds": seconds})
    return rows


def _stratified_sample(groups: Partition, share: float, rng: np.random.Generator) -> IntArray:
    """Return a random sample of every cluster with the given fraction of its points."""
    members = [groups.order[cluster] for cluster in groups.clusters]
    return np.concatenate([rng.permutation(each)[: max(1, round(share * len(each)))] for each in members])


def _factorization_seconds(X: FloatArray, choices: dict[str, Any], rng: np.random.Generator) -> float:
    """Return the shorter duration in seconds of two factorizations."""
    kernel = bb.Gaussian(_BANDWIDTH)
    return min(timed(partial(bb.factorize, X, kernel, rng=stream, **choices))[0] for stream in rng.spawn(2))


def _draw(result: Result) -> Any:
    names = result.distinct("data")
    figure, axes = figures.panels(len(names))
    for each, name in zip(axes, names, strict=True):
        for algorithm, label, place in zip(_ALGORITHMS, ("default", "the paper's"), ("bbf", "bbf-paper"), strict=True):
            rows = result.where(data=name, algorithm=algorithm)
            draw_growth(each, column(rows, "points"), column(rows, "seconds"), label=label, place=place)
        draw_linear(each, column(rows, "points"), rows[0]["seconds"])
        each.set(title=f"{points.TITLES[name]}, h = {_BANDWIDTH:g}", xlabel="points", ylabel="seconds to factorize")
        each.legend(frameon=False)
    return figure


def _judge(result: Result) -> Verdict:
    found = {}
    for name in result.distinct("data"):
        for algorithm in _ALGORITHMS:
            rows = result.where(data=name, algorithm=algorithm)
            found[f"{points.TITLES[name]}, {algorithm}"] = exponent(column(rows, "points"), column(rows, "seconds"))
    largest = max(column(result.rows, "points"))
    above = [where for where, value in found.items() if value > _LINEAR]
    return Verdict(
        not above,
        f"The time grows as a power of n, up to {largest} points, of exponent "
        + ", ".join(f"{value:.2f} ({where})" for where, value in found.items())
        + f". Up to {_LINEAR:g} counts as linear, and below 1 costs that do not grow with n weigh in"
        + (f"; above are {' and '.join(above)}." if above else "."),
    )


def _tabulate(result: Result) -> list[Table]:
    return [
        pivot_table(
            result,
            f"{points.TITLES[name]}, seconds to factorize",
            down="algorithm",
            across="points",
            value="seconds",
            data=name,
        )
        for name in result.distinct("data")
    ]


EXPERIMENT = Experiment(
    "linear-time",
    "Time of a factorization against the number of points",
    "3.2.3",
    "With a fixed rank for each block, the time to factorize Census house and Forest covertype grows linearly with the "
    "number of points.",
    _parts,
    _measure,
    _draw,
    _judge,
    timed=True,
    tabulate=_tabulate,
    choices=f"{_CLUSTERS} clusters, rank {_RANK}, at most {_DATA['covtype'][1]} points of Forest covertype.",
)
