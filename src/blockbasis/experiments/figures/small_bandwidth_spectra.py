"""Singular values of CTG and EMG at the bandwidths of the memory figure."""

from __future__ import annotations

import math

import numpy as np

from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.framework.spectra import draw_spectra, measure_spectrum

_BANDWIDTHS = {"ctg": 0.5, "emg": 0.1}
_POINTS = 6000
_TOL = 1e-3
#: Singular values decay slowly if they decrease by at most this factor from index 0.1 n to index 0.4 n.
_FROM, _TO, _SLOW = 0.1, 0.4, 10.0
#: Size of singular values, relative to the largest, that are rounding errors.
_ROUNDING = 1e-12


def _parts(quick: bool) -> list[Settings]:
    return [{"data": name, "h": h, "n": 1500 if quick else _POINTS} for name, h in _BANDWIDTHS.items()]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    return measure_spectrum(settings, _TOL)


def _judge(result: Result) -> Verdict:
    facts = [row for row in result.rows if "rank" in row]
    falls = {row["data"]: _fall(result, row) for row in facts}
    return Verdict(
        max(falls.values()) <= _SLOW,
        " ".join(
            f"{points.TITLES[r['data']]}, h = {r['h']:g}: {r['rank']} of {r['points']} singular values are above "
            f"{_TOL:g} of the largest; from a tenth of their number to four tenths they fall by a factor "
            f"{falls[r['data']]:.2g}."
            for r in facts
        ),
    )


def _fall(result: Result, facts: Row) -> float:
    """Return the factor by which the singular values decrease in the middle; infinity if they reach rounding level."""
    rows = [row for row in result.where(data=facts["data"]) if "index" in row]
    indices, values = [row["index"] for row in rows], [row["value"] for row in rows]
    first, last = np.interp([_FROM * facts["points"], _TO * facts["points"]], indices, values)
    return float(first / last) if last > _ROUNDING else math.inf


EXPERIMENT = Experiment(
    "small-bandwidth-spectra",
    "Singular values at bandwidths for small classes",
    "4.2.1",
    "At the bandwidths that serve small classes the singular values of CTG and EMG fall slowly or reach a plateau: "
    "these matrices are of higher rank.",
    _parts,
    _measure,
    draw_spectra,
    _judge,
)
