"""Measured exponents of the time in n, k and r, compared with the complexity table."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Table, Verdict
from blockbasis.experiments.framework.tables import pivot_table
from blockbasis.experiments.framework.timing import column, draw_growth, exponent, product_seconds, shortest
from blockbasis.report import figures

_DIMENSION, _BANDWIDTH = 5, 0.2
#: Exponents of n, k and r in the bounds O(n k r^2 + k^2 r^3) and O(n r + (r k)^2) of the paper, of the larger term.
_FACTORIZATION = {"points": 1, "clusters": 2, "rank": 3}
_APPLICATION = {"points": 1, "clusters": 2, "rank": 2}
_ALGORITHMS = ("default", "paper")
#: Largest excess of a measured exponent over its bound.
_SLACK = 0.1


def _parts(quick: bool) -> list[Settings]:
    base = {"points": 4_000, "clusters": 10, "rank": 10} if quick else {"points": 20_000, "clusters": 20, "rank": 20}
    steps = (1, 2, 4) if quick else (1, 2, 4, 8)
    factors: dict[str, tuple[int, ...]] = {"points": steps, "clusters": steps[:3], "rank": steps[:3]}
    shared = {**base, "repetitions": 1 if quick else 3}
    return [
        {"varied": name, "algorithm": algorithm, "values": [base[name] * factor for factor in factors[name]], **shared}
        for algorithm in _ALGORITHMS
        for name in base
    ]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for value in settings["values"]:
        chosen = {**settings, settings["varied"]: value}
        X = unit_cube_mixture(chosen["points"], _DIMENSION, rng=rng)
        choices = {"n_clusters": chosen["clusters"], "rank": chosen["rank"], "algorithm": chosen["algorithm"]}
        job = partial(bb.factorize, X, bb.Gaussian(_BANDWIDTH), rng=rng, **choices)
        seconds, A = shortest(job, settings["repetitions"])
        rows.append({"value": value, "factorization": seconds, "application": product_seconds(A, rng)})
    return rows


def _draw(result: Result) -> Any:
    names = list(_FACTORIZATION)
    figure, axes = figures.panels(len(names), columns=3)
    for each, name in zip(axes, names, strict=True):
        place = 0
        for algorithm in _ALGORITHMS:
            rows = result.where(varied=name, algorithm=algorithm)
            for what in ("factorization", "application"):
                label = f"{what}, {algorithm}"
                draw_growth(each, column(rows, "value"), column(rows, what), label=label, place=place)
                place += 1
        each.set(xlabel=name)
        each.legend(frameon=False, fontsize="x-small")
    return figure


def _judge(result: Result) -> Verdict:
    above, sentences = [], []
    for algorithm in result.distinct("algorithm"):
        for what, bounds in (("factorization", _FACTORIZATION), ("application", _APPLICATION)):
            found = []
            for name, bound in bounds.items():
                rows = result.where(varied=name, algorithm=algorithm)
                power = exponent(column(rows, "value"), column(rows, what))
                if power > bound + _SLACK:
                    above.append(f"{what}, {algorithm}, with {name}")
                found.append(f"{name} {power:.2f} (the paper: {bound})")
            sentences.append(f"{what}, {algorithm}: {', '.join(found)}")
    allowed = (
        f"Each may be up to {_SLACK:g} above the paper's power of the larger term, and may be below it: with k and r "
        "both terms grow, of which the smaller power is seen at these sizes."
    )
    outside = f" Above are: {'; '.join(above)}." if above else ""
    return Verdict(not above, f"Exponents of {'; '.join(sentences)}. {allowed}{outside}")


def _tabulate(result: Result) -> list[Table]:
    return [
        pivot_table(
            result,
            f"seconds of {what} against {name}",
            down="algorithm",
            across="value",
            value=what,
            varied=name,
        )
        for what in ("factorization", "application")
        for name in _FACTORIZATION
    ]


EXPERIMENT = Experiment(
    "complexity",
    "Measured exponents beside the complexity table",
    "3.2.3",
    "A factorization takes O(n k r^2 + k^2 r^3), a product O(n r + (r k)^2), for n points, k clusters and rank r.",
    _parts,
    _measure,
    _draw,
    _judge,
    timed=True,
    tabulate=_tabulate,
    choices="The paper's pre-computation, whose time it gives as O(r^2 n log n), is not among them: its ranks change "
    "with n.",
)
