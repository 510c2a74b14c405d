"""Numerical rank of Abalone's kernel matrix against the bandwidth, and the decay of its singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockbasis import plotting
from blockbasis.experiments import points
from blockbasis.experiments.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.spectra import decay, draw_decay, numerical_rank, singular_values

_TOLERANCES = (1e-4, 1e-3, 1e-2)
_LARGEST, _SMALLEST = 4.0, 2.0**-4
#: At the largest bandwidth, by tolerance: what the paper prints, and an independent computation on the same data.
_PAPER = {1e-4: 66, 1e-3: 28, 1e-2: 11}
_INDEPENDENT = {1e-4: 64, 1e-3: 25, 1e-2: 10}


def _parts(quick: bool) -> list[Settings]:
    bandwidths = (0.25, 1.0, 4.0) if quick else tuple(2.0**e for e in range(-4, 3))
    return [{"data": points.ALPHABETICAL, "h": h, "n": None} for h in bandwidths]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, _ = points.load(settings["data"], settings["n"])
    values = singular_values(X, settings["h"])
    ranks: list[Row] = [{"tol": tol, "rank": numerical_rank(values, tol), "points": len(X)} for tol in _TOLERANCES]
    return [*ranks, *decay(values)]


def _draw(result: Result) -> Any:
    figure, (left, right) = plotting.panels(2)
    for place, tol in enumerate(_TOLERANCES):
        rows = result.where(tol=tol)
        left.plot([r["h"] for r in rows], [r["rank"] for r in rows], **plotting.style(place), label=f"tol = {tol:g}")
        left.plot(_LARGEST, _PAPER[tol], "k+", ms=11, label="the paper's, at h = 4" if place == 2 else None)
    left.set_xscale("log", base=2)
    left.set(yscale="log", xlabel="h", ylabel="numerical rank")
    left.legend(frameon=False)
    draw_decay(right, result, "h", "h = {:g}")
    return figure


def _judge(result: Result) -> Verdict:
    ranks = {tol: [r["rank"] for r in sorted(result.where(tol=tol), key=lambda r: r["h"])] for tol in _TOLERANCES}
    falling = all(a >= b for each in ranks.values() for a, b in zip(each, each[1:], strict=False))
    last = {r["tol"]: r["rank"] for r in result.where(h=_LARGEST) if "tol" in r}
    n = result.where(h=_LARGEST)[0]["points"]
    ours = ", ".join(str(last[tol]) for tol in _TOLERANCES)
    smallest = min(result.distinct("h"))
    full = result.where(h=smallest, tol=_TOLERANCES[0])[0]["rank"]
    return Verdict(
        falling and last == _INDEPENDENT,
        f"The rank falls from {full} of {n} (h = {smallest:g}, tol = 1e-4) to {ours} at h = 4 (tol = 1e-4, 1e-3, "
        f"1e-2); an independent computation has {', '.join(map(str, _INDEPENDENT.values()))}, the paper prints "
        f"{', '.join(map(str, _PAPER.values()))}: 1 to 3 more.",
    )


EXPERIMENT = Experiment(
    "rank-vs-bandwidth",
    "Numerical rank against the bandwidth",
    "2.1",
    "As h grows from 2^-4 to 2^2, the numerical rank of Abalone's kernel matrix falls from full to 66, 28 and 11 at "
    "tolerances 1e-4, 1e-3 and 1e-2.",
    _parts,
    _measure,
    _draw,
    _judge,
)
