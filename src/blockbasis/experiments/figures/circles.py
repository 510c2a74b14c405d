"""Two discs within a larger one: the best bandwidth of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockbasis.datasets import circles_in_circle
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings
from blockbasis.experiments.framework.classification import draw_boundary, draw_classes, draw_f1, f1_by_class, machine
from blockbasis.experiments.framework.nesting import class_size_and_radius, judge_nested
from blockbasis.report import figures

#: Bandwidth of the decision boundary in the paper's figure.
_DRAWN = 0.125
_BANDWIDTHS = (0.015, 16.0)


def _parts(quick: bool) -> list[Settings]:
    n, count = (1000, 20) if quick else (5000, 24)
    return [{"n": n, "bandwidths": np.geomspace(*_BANDWIDTHS, count).tolist()}]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, y = circles_in_circle(settings["n"], rng=rng)
    return [
        {**row, **class_size_and_radius(X, y, row["class"])} for row in f1_by_class(X, y, settings["bandwidths"], rng)
    ]


def _draw(result: Result) -> Any:
    figure, (left, right) = figures.panels(2)
    X, y = circles_in_circle(1000, rng=np.random.default_rng(0))
    draw_classes(left, X, y)
    draw_boundary(left, machine(_DRAWN).fit(X, y), X, colour="k")
    left.set_title(f"Boundary at h = {_DRAWN:g}")
    draw_f1(right, result, {r["class"]: f"{r['size']} points, radius {r['radius']:.2f}" for r in result.rows})
    return figure


EXPERIMENT = Experiment(
    "circles",
    "Two circles within a circle",
    "2.3",
    "The F1 score of the smaller disc peaks at a smaller bandwidth than that of the larger one, and drops faster as "
    "the bandwidth grows.",
    _parts,
    _measure,
    _draw,
    judge_nested,
)
