from __future__ import annotations

import csv

import numpy as np
import pytest

from blockbasis.experiments import Experiment, Part, Result, Verdict
from blockbasis.experiments.framework.base import read_json, write_json
from blockbasis.report.figures import panels

PARTS = (
    Part({"data": "a", "h": 0.5}, 1e9, 2.0, ({"n": 1, "error": 0.25}, {"n": 2, "error": 0.125})),
    Part({"data": "b", "h": 0.5}, 1e9 + 9, 3.0, ({"n": 1, "error": None},)),
)


@pytest.fixture
def result():
    experiment = Experiment(
        "bench", "A bench", "9.9", "It runs.", lambda quick: [], lambda settings, rng: [],
        lambda result: panels(1)[0], lambda result: Verdict(True, "It does."),
    )  # fmt: skip
    return Result(experiment, PARTS)


def test_rows_have_the_settings_of_their_part(result):
    assert result.rows[0] == {"data": "a", "h": 0.5, "n": 1, "error": 0.25}
    assert len(result.rows) == 3
    assert result.seconds == 5.0
    assert [row["n"] for row in result.where(data="a")] == [1, 2]
    assert result.distinct("n") == [1, 2]
    assert result.distinct("n", data="b") == [1]


def test_a_verdict_in_a_few_words():
    assert Verdict(None, "").mark == "not measured"
    assert Verdict(True, "").mark == "holds"
    assert Verdict(True, "", complete=False, ours_only=True).mark == "holds for our default where measured"
    assert Verdict(False, "", complete=False).mark == "does not hold"
    assert Verdict(True, "", also="less so by another").mark == "holds; less so by another"


def test_a_claim_of_which_a_part_is_missing_says_what(result):
    assert result.verdict().sentence == "It does."
    partial = Result(result.experiment, PARTS, ("c",)).verdict()
    assert not partial.complete
    assert "c" in partial.sentence
    nothing = Result(result.experiment, (), ("c",)).verdict()
    assert nothing.holds is None


def test_parts_are_written_and_read_again(tmp_path):
    rows = ({"n": np.intp(3), "error": np.float64(0.5), "budgets": [1, 2]},)
    write_json(tmp_path / "a.json", [Part({"data": "a"}, 1.0, 2.0, rows)], ("c",))
    (part,), missing = read_json(tmp_path / "a.json")
    assert missing == ("c",)
    assert part.settings == {"data": "a"}
    assert part.rows == ({"n": 3, "error": 0.5, "budgets": [1, 2]},)
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", [Part({}, 1.0, 2.0, ({"error": np.inf},))])
    with pytest.raises(TypeError, match="must be JSON types. Got ndarray"):
        write_json(tmp_path / "a.json", [Part({}, 1.0, 2.0, ({"error": np.zeros(2)},))])
    assert read_json(tmp_path / "a.json")[0] == [part]  # a file is replaced as a whole, or not at all


def test_numbers_are_written_as_a_table(result, tmp_path):
    result.save_csv(tmp_path)
    with (tmp_path / "bench.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["error"] for row in rows] == ["0.25", "0.125", ""]
