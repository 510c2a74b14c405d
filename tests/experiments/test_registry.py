"""Every experiment, at the smallest size, from measuring to the picture and the verdict."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET

import pytest

from blockbasis.experiments import EXPERIMENTS, Verdict, run

#: Settings that make a part tiny, by experiment; all other settings stay as they are in a quick run.
TINY = {
    "rank-vs-bandwidth": {},
    "class-table": {},
    "f1-vs-bandwidth": {"bandwidths": [0.5, 2.0, 8.0]},
    "two-bandwidths": {},
    "curvature": {"n": 200},
    "alternating": {"n": 200, "repetitions": 1},
    "circles": {"n": 200, "bandwidths": [0.2, 1.0, 8.0]},
    "ten-dimensions": {"n": 200, "bandwidths": [0.3, 1.0, 8.0]},
    "pendigits-clusters": {},
    "complexity": {"points": 150, "clusters": 3, "rank": 4},
    "linear-time": {"rank": 3},
    "block-errors": {"clusters": 4, "rank": 5},
    "structure": {"ranks": [3, 6]},
    "error-vs-memory": {"budgets": [10], "runs": 2},
    "small-bandwidth-spectra": {},
    "synthetic-memory": {"budgets": [10], "runs": 2},
    "statistics": {},
    "error-vs-bandwidth": {"inverse_squares": [0.01, 100], "memory": 20},
    "regression": {"budgets": [10]},
    "gauss-transform": {"sizes": [60, 120]},
}
#: Experiments with several data sets that all take the same way: one is run.
ONE_DATA_SET = (
    "error-vs-memory",
    "synthetic-memory",
    "error-vs-bandwidth",
    "regression",
    "linear-time",
    "f1-vs-bandwidth",
)


def tiny(name, all_data=False):
    parts = [{**part, **TINY[name]} for part in EXPERIMENTS[name].parts(True)]
    if name == "complexity":
        steps = {"points": [150, 300], "clusters": [3, 6], "rank": [4, 8]}
        parts = [{**part, "values": steps[part["varied"]]} for part in parts]
    if name == "alternating":
        parts = parts[:3]
    if name in ONE_DATA_SET and not all_data:
        parts = [part for part in parts if part["data"] == parts[0]["data"]]
    return parts


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_from_settings_to_picture_and_verdict(name, small_data, tmp_path):
    parts = tiny(name)
    result = run(EXPERIMENTS[name], parts=parts, folder=tmp_path)
    assert len(result.parts) == len({str(part) for part in parts})
    assert result.missing == ()

    svg, png = result.draw(tmp_path)
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert png.read_bytes().startswith(b"\x89PNG")

    for table in result.tables():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}

    verdict = result.verdict()
    assert isinstance(verdict, Verdict)
    assert verdict.sentence.endswith(".")

    with (tmp_path / f"{name}.csv").open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == len(result.rows)
    again = run(EXPERIMENTS[name], parts=parts, folder=tmp_path)
    assert again.rows == result.rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", ONE_DATA_SET)
def test_every_data_set_has_rows_and_a_part_of_the_verdict(name, small_data, tmp_path):
    parts = tiny(name, all_data=True)
    result = run(EXPERIMENTS[name], parts=parts, folder=tmp_path)
    assert {row["data"] for row in result.rows} == {part["data"] for part in parts}
    assert result.verdict().sentence.endswith(".")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_are_plain_and_fewer_or_smaller_in_a_quick_run(name):
    quick, full = (EXPERIMENTS[name].parts(each) for each in (True, False))
    assert quick
    assert json.loads(json.dumps(full)) == full
    assert (quick == full) == (name == "class-table")  # which only counts
    assert EXPERIMENTS[name].claim.endswith(".")
