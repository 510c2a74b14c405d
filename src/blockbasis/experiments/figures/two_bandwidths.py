"""Singular values of CTG and Gesture at the bandwidth of cross-validation and at that of small classes."""

from __future__ import annotations

import numpy as np

from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.framework.spectra import draw_spectra, measure_spectrum

#: Bandwidths of the paper: of the cross-validation, and for small classes.
_BANDWIDTHS = {"ctg": (1.42, 0.5), "gesture": (0.25, 0.088)}
_TOL = 1e-3
#: Smallest factor between ranks that counts as "much lower".
_MUCH = 2


def _parts(quick: bool) -> list[Settings]:
    return [{"data": name, "h": h, "n": 1500 if quick else None} for name, pair in _BANDWIDTHS.items() for h in pair]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    return measure_spectrum(settings, _TOL)


def _judge(result: Result) -> Verdict:
    sentences, holds = [], True
    for name in result.distinct("data"):
        large, small = (next(r for r in result.where(data=name, h=h) if "rank" in r) for h in _BANDWIDTHS[name])
        holds &= _MUCH * large["rank"] <= small["rank"]
        sentences.append(
            f"{points.TITLES[name]}: rank {large['rank']} of {large['points']} at h = {large['h']:g}, "
            f"{small['rank']} at h = {small['h']:g} (tolerance {_TOL:g})."
        )
    return Verdict(holds, " ".join(sentences))


EXPERIMENT = Experiment(
    "two-bandwidths",
    "Singular values at two bandwidths",
    "2.2",
    "At the bandwidth of cross-validation the numerical rank is much lower than at the smaller one that serves small "
    "classes.",
    _parts,
    _measure,
    draw_spectra,
    _judge,
)
