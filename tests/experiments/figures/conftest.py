"""Measurements made up for the verdicts of the figures, and the verdicts on them."""

from __future__ import annotations

import pytest

from blockbasis.experiments import EXPERIMENTS, Part, Result
from blockbasis.experiments.framework.curves import METHODS


@pytest.fixture(scope="session")
def verdict():
    """The verdict of an experiment on parts: settings, and rows."""

    def of(name, parts):
        return Result(
            EXPERIMENTS[name], tuple(Part(settings, 0.0, 1.0, tuple(rows)) for settings, rows in parts)
        ).verdict()

    return of


@pytest.fixture(scope="session")
def memory():
    """Errors of each method at one budget."""

    def of(ours=0.1, svd=0.2, meka=(0.2, 0.9), ours_spread=0.0, paper=0.15):
        errors = dict.fromkeys(METHODS, (svd, svd))
        errors |= {"bbf": (ours - ours_spread, ours + ours_spread), "meka": meka, "bbf-paper": (paper, paper)}
        return [
            (
                {"data": "abalone", "method": method, "h": 1.0},
                [{"floats": 20, "run": run, "error": error} for run, error in enumerate(found)],
            )
            for method, found in errors.items()
        ]

    return of


@pytest.fixture(scope="session")
def bandwidths():
    """Errors of each method at a large and at a small bandwidth."""

    def of(first, last):
        parts = []
        for method in METHODS:
            gap = {"bbf": (0.0, 0.0)}.get(method, (first, last))
            rows = [{"inverse_square": g, "error": 0.1 + each} for g, each in zip((0.25, 100), gap, strict=True)]
            parts.append(({"data": "abalone", "method": method}, rows))
        return parts

    return of


@pytest.fixture(scope="session")
def regression():
    """Errors of regressions with each method."""

    def of(ours=0.5, other=0.8):
        errors = dict.fromkeys(METHODS, other) | {"bbf": ours, "bbf-surrogate": 0.5, "nystrom-surrogate": 0.6}
        facts = {"floats": 20, "run": 0, "converged": True}
        parts = [({"data": "abalone", "method": m}, [{**facts, "rmse": e}]) for m, e in errors.items()]
        return [*parts, ({"data": "abalone", "method": "exact"}, [{"run": 0, "rmse": 0.5}])]

    return of


@pytest.fixture(scope="session")
def check_errors_at_budgets(verdict, memory):
    """Claims that the figures of errors against memory share."""

    def check(name):
        assert verdict(name, memory()).holds
        assert not verdict(name, memory(svd=0.09)).holds
        assert not verdict(name, memory(ours_spread=0.05, meka=(0.5, 0.51))).holds
        # Two runs of ours and five of MEKA's with the same standard deviation: neither number of runs is favoured.
        five = tuple(0.5 + deviation for deviation in (-0.1, -0.1, 0.0, 0.1, 0.1))
        assert verdict(name, memory(ours_spread=0.07, meka=five)).holds
        assert not verdict(name, memory(ours_spread=0.072, meka=five)).holds
        beaten = verdict(name, memory(paper=0.25))
        assert beaten.mark == "holds for our default"
        assert "not for Abalone at 20 floats (SVD 0.2, the paper's 0.25)" in beaten.sentence
        assert verdict(name, memory()).mark == "holds"

    return check
