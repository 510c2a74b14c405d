"""Nested clusters in ten dimensions: numerical ranks, and the best bandwidth of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockbasis.datasets import nested_clusters
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.framework.classification import draw_f1, f1_by_class
from blockbasis.experiments.framework.nesting import class_size_and_radius, judge_nested
from blockbasis.experiments.framework.spectra import rank_from_values, singular_values
from blockbasis.report import figures

_BANDWIDTHS = (0.1, 10.0)
_TOLERANCES = (1e-4, 1e-3, 1e-2)


def _parts(quick: bool) -> list[Settings]:
    n, count = (800, 16) if quick else (4000, 20)
    return [{"n": n, "bandwidths": np.geomspace(*_BANDWIDTHS, count).tolist()}]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, y = nested_clusters(settings["n"], rng=rng)
    rows: list[Row] = []
    for h in settings["bandwidths"]:
        values = singular_values(X, h)
        rows += [{"h": h, "tol": tol, "rank": rank_from_values(values, tol)} for tol in _TOLERANCES]
    scores = f1_by_class(X, y, settings["bandwidths"], rng)
    return rows + [{**row, **class_size_and_radius(X, y, row["class"])} for row in scores]


def _draw(result: Result) -> Any:
    figure, (left, right) = figures.panels(2)
    for place, tol in enumerate(_TOLERANCES):
        rows = result.where(tol=tol)
        left.plot([r["h"] for r in rows], [r["rank"] for r in rows], **figures.style(place), label=f"tol = {tol:g}")
    left.set(xscale="log", yscale="log", xlabel="h", ylabel="numerical rank")
    left.legend(frameon=False)
    classes = [row for row in result.rows if "f1" in row]
    draw_f1(right, result, {r["class"]: f"{r['size']} points, radius {r['radius']:.2f}" for r in classes})
    return figure


def _judge(result: Result) -> Verdict:
    nested = judge_nested(result)
    ranks = [[row["rank"] for row in result.where(tol=tol)] for tol in _TOLERANCES]
    falling = all(a >= b for each in ranks for a, b in zip(each, each[1:], strict=False))
    return Verdict(
        nested.holds and falling,
        f"{nested.sentence} Over these bandwidths the rank (tol = 1e-2) goes from {ranks[-1][0]} to {ranks[-1][-1]}.",
    )


EXPERIMENT = Experiment(
    "ten-dimensions",
    "Nested clusters in ten dimensions",
    "2.3",
    "What holds for circles in the plane extends to dimension 10: the smaller cluster wants the smaller bandwidth, and "
    "with it a higher rank.",
    _parts,
    _measure,
    _draw,
    _judge,
)
