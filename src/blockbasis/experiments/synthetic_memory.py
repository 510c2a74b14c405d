"""Relative error against memory, and ranks against the bandwidth, on two synthetic data sets in the plane."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis import plotting
from blockbasis.experiments import points
from blockbasis.experiments.base import Experiment, Result, Row, Settings
from blockbasis.experiments.curves import METHODS, draw_errors, error_rows, judge_memory, tabulate_errors
from blockbasis.experiments.spectra import numerical_rank, singular_values

#: The paper's largest optimal bandwidths.
_BANDWIDTHS = {"alternating": 0.0127, "circles": 0.25}
_RANKS = "ranks"
_TOL = 1e-3


def _parts(quick: bool) -> list[Settings]:
    n, budgets, runs = (1000, [10, 20, 50], 2) if quick else (5000, [10, 20, 50, 100], 5)
    found: list[Settings] = []
    for name, h in _BANDWIDTHS.items():
        points_of = {"data": name, "h": h, "n": n}
        found.append({**points_of, "kind": _RANKS, "bandwidths": [h / 4, h / 2, h, 2 * h]})
        found += [{**points_of, "method": method, "budgets": budgets, "runs": runs} for method in METHODS]
    return found


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, _ = points.load(settings["data"], settings["n"])
    if settings.get("kind") == _RANKS:
        return [{"bandwidth": h, "rank": numerical_rank(singular_values(X, h), _TOL)} for h in settings["bandwidths"]]
    kernel = bb.Gaussian(settings["h"])
    return error_rows(X, kernel, settings["method"], settings["budgets"], settings["runs"], rng)


def _draw(result: Result) -> Any:
    names = result.distinct("data")
    figure, axes = plotting.panels(2 * len(names))
    for left, right, name in zip(axes[::2], axes[1::2], names, strict=True):
        rows = result.where(data=name, kind=_RANKS)
        left.plot([r["bandwidth"] for r in rows], [r["rank"] for r in rows], **plotting.style(0))
        left.set(xscale="log", xlabel="h", ylabel=f"numerical rank, tol {_TOL:g}", title=points.TITLES[name])
        draw_errors(right, result, "floats", data=name)
        right.set(title=f"h = {_BANDWIDTHS[name]:g}", xlabel="floats per point")
    plotting.shared_legend(figure, axes[1])
    return figure


EXPERIMENT = Experiment(
    "synthetic-memory",
    "Error against memory on synthetic data",
    "4.2.1",
    "On 100 alternating clusters and on circles within a circle, at bandwidths that classify best, BBF has a far lower "
    "error than the competing methods at the same memory.",
    _parts,
    _measure,
    _draw,
    judge_memory,
    tabulate=partial(tabulate_errors, across="floats"),
)
