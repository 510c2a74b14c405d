"""Sizes and radii of the classes of the classification data sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Table, Verdict
from blockbasis.report import figures

#: Selected classes of the paper: sizes, and squared median distances from the centre.
_PAPER = {
    "emg": ((1500,) * 5, (1.3e-4, 2.9e-3, 2.6e-2, 4.5e-1, 2.6)),
    "ctg": ((51, 71, 241, 318, 555), (1.0, 1.2, 1.4, 1.3, 1.4)),
    "gesture": ((2741, 998, 2097, 1087, 2948), (1.8e-2, 2.7e-2, 1.4e-1, 1.9e-1, 2.3e-1)),
    "otto": ((625, 870, 1602, 2736, 4570), (0.26, 0.40, 0.46, 0.45, 0.64)),
}
#: Relative difference of the sizes up to which a class corresponds to a class of the paper: those of CTG differ by 4%.
_ALIKE = 0.05
#: Smallest ratio of the extreme sizes, or squared radii, for which the classes "differ widely".
_WIDE = 2.5


def _parts(quick: bool) -> list[Settings]:
    return [{"data": name} for name in _PAPER]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, y = points.load_points(settings["data"])
    return [
        {"class": c, "size": size, "squared_radius": points.median_squared_radius(X, np.flatnonzero(y == c))}
        for c, size in points.class_sizes(y).items()
    ]


def _draw(result: Result) -> Any:
    names = result.distinct("data")
    figure, axes = figures.panels(len(names))
    for each, name in zip(axes, names, strict=True):
        rows = result.where(data=name)
        ours = {"marker": "o", "color": figures.COLOURS[0], "linestyle": "none"}
        theirs = {"marker": "s", "color": figures.COLOURS[1], "linestyle": "none", "mfc": "none", "ms": 9}
        x, y = ([row[key] for row in rows] for key in ("squared_radius", "size"))
        each.plot(x, y, **ours, label="all classes, ours")
        sizes, radii = _PAPER[name]
        each.plot(radii, sizes, **theirs, label="selected classes, the paper's")
        each.set(
            xscale="log",
            yscale="log",
            xlabel="squared radius $r_i^2$",
            ylabel="points $n_i$",
            title=points.TITLES[name],
        )
    figures.shared_legend(figure, axes[0])
    return figure


def _judge(result: Result) -> Verdict:
    sentences, holds = [], True
    for name in result.distinct("data"):
        rows = result.where(data=name)
        sizes, radii = ([row[key] for row in rows] for key in ("size", "squared_radius"))
        factors = [_nearest_factor(rows, *pair) for pair in zip(*_PAPER[name], strict=True)]
        holds &= max(_ratio(sizes), _ratio(radii)) >= _WIDE
        sentences.append(
            f"{points.TITLES[name]}: {len(rows)} classes of {min(sizes)} to {max(sizes)} points, squared radii "
            f"{min(radii):.2g} to {max(radii):.2g}; {_agreement(factors)}."
        )
    return Verdict(holds, " ".join(sentences))


def _agreement(factors: list[float]) -> str:
    if not np.isfinite(factors).all():
        return "not each of the paper's classes has one of ours of its size"
    return f"those of the paper's classes are within a factor {max(factors):.2f} of the nearest of about their size"


def _nearest_factor(rows: list[Row], size: int, squared_radius: float) -> float:
    """Return the factor between a squared radius and that of the nearest class of about the same size."""
    alike = [row["squared_radius"] for row in rows if abs(row["size"] - size) <= _ALIKE * size]
    return min((max(found / squared_radius, squared_radius / found) for found in alike), default=math.inf)


def _ratio(values: list[float]) -> float:
    return max(values) / min(values)


def _tabulate(result: Result) -> list[Table]:
    return [
        Table(
            points.TITLES[name],
            ("class", "points", "squared radius"),
            tuple((str(r["class"]), str(r["size"]), f"{r['squared_radius']:.2g}") for r in result.where(data=name)),
        )
        for name in result.distinct("data")
    ]


EXPERIMENT = Experiment(
    "class-table",
    "Classes of the classification data sets",
    "2.2",
    "In EMG, CTG, Gesture and Otto the classes differ widely in their number of points or in their radius.",
    _parts,
    _measure,
    _draw,
    _judge,
    tabulate=_tabulate,
)
