from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables.scorecard import Score, classification_scorecard, regression_scorecard


def test_errors_and_their_uncertainty():
    rng = np.random.default_rng(0)
    y = rng.normal(size=4000)
    card = regression_scorecard(y, {"ours": y + 0.1 * rng.normal(size=4000), "mean": np.zeros(4000)})
    ours, mean = card.scores
    assert ours.error == pytest.approx(0.1, abs=4 * ours.stderr)
    assert ours.stderr == pytest.approx(0.1 / np.sqrt(2 * 4000), rel=0.1)
    assert card.r2 == pytest.approx(1 - ours.error**2 / y.var())
    assert mean.error == pytest.approx(1, abs=0.05)


def test_a_winner_needs_a_difference_beyond_the_uncertainty():
    rng = np.random.default_rng(1)
    y = rng.normal(size=50)
    near = {"ours": y + rng.normal(size=50), "linear": y + rng.normal(size=50)}
    assert "do not differ" in regression_scorecard(y, near).verdict
    far = {"ours": y + 5 * rng.normal(size=50), "linear": y + 0.1 * rng.normal(size=50)}
    assert regression_scorecard(y, far).verdict.startswith("The linear has the lowest test error")


def test_one_row_and_rounding_name_no_winner():
    one = regression_scorecard(np.ones(1), {"ours": np.ones(1), "mean": np.zeros(1)})
    assert one.verdict == "One test row names no winner."
    assert one.r2 is None
    assert str(one.scores[1]) == "1"
    y = np.arange(20.0)
    same = regression_scorecard(y, {"ours": y + 1e-14, "linear": y})
    assert "size of rounding" in same.verdict


def test_classes():
    y = np.array(list("aabb") * 25)
    card = classification_scorecard(y, {"ours": np.where(np.arange(100) < 90, y, "a"), "most": np.full(100, "a")})
    assert card.scores[0].error == pytest.approx(0.05, abs=0.03)
    assert card.scores[0].stderr == pytest.approx(np.sqrt(0.05 * 0.95 / 100), rel=0.3)
    assert "lowest test error" in card.verdict


def test_the_text_of_a_score():
    assert str(Score("x", 0.123456, np.nan)) == "0.1235"
