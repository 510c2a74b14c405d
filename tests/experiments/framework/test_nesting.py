from __future__ import annotations

import numpy as np
import pytest

from blockbasis.experiments import EXPERIMENTS, Part, Result
from blockbasis.experiments.framework.nesting import class_size_and_radius, judge_nested


def test_a_class_is_described_by_its_size_and_its_radius():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [9.0, 9.0]])
    assert class_size_and_radius(X, np.array([1, 1, 0]), 1) == {"size": 2, "radius": pytest.approx(1.0)}


@pytest.mark.parametrize(("last", "holds"), [(1.0, True), (2.0, False), (8.0, False)])
def test_the_smaller_class_must_be_lost_at_a_smaller_bandwidth(last, holds):
    rows = tuple(
        {"h": h, "class": c, "f1": float(0.5 <= h <= end)}
        for c, end in ((1, 2.0), (2, last))
        for h in (0.5, 1.0, 2.0, 8.0)
    )
    verdict = judge_nested(Result(EXPERIMENTS["circles"], (Part({"n": 100}, 0.0, 1.0, rows),)))
    assert verdict.holds == holds
    assert f"from h = 0.5 to {last:.2g}" in verdict.sentence
