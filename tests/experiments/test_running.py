from __future__ import annotations

import json

import numpy as np
import pytest

from blockbasis.datasets import DatasetError
from blockbasis.experiments import Experiment, Verdict, read, run, write_index
from blockbasis.plotting import panels
from blockbasis.progress import reporting


class Bench:
    """An experiment that counts how often it is run, and that can be interrupted."""

    def __init__(self, sizes=(1, 2, 3), stop_at=None, missing=()):
        self.measured = []
        self.stop_at, self.missing = stop_at, missing
        self.experiment = Experiment(
            "bench", "A bench", "9.9", "It runs.", lambda quick: [{"data": f"d{n}", "n": n} for n in sizes],
            self.measure, lambda result: panels(1)[0], lambda result: Verdict(True, f"{len(result.rows)} rows."),
        )  # fmt: skip

    def measure(self, settings, rng):
        if settings["n"] == self.stop_at:
            raise KeyboardInterrupt
        if settings["n"] in self.missing:
            raise DatasetError("not here")
        self.measured.append(settings["n"])
        return [{"value": np.float64(rng.random()), "size": np.intp(settings["n"])}]


def test_finished_parts_are_not_run_again(tmp_path):
    first, second = Bench(), Bench(sizes=(1, 2, 3, 4))
    found = run(first.experiment, folder=tmp_path)
    again = run(second.experiment, folder=tmp_path)
    assert first.measured == [1, 2, 3]
    assert second.measured == [4]
    assert again.rows[:3] == found.rows
    assert run(second.experiment, folder=tmp_path).rows == again.rows


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Bench(stop_at=3).experiment, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json"]
    json.loads((tmp_path / "bench.json").read_text())
    rest = Bench()
    assert read(rest.experiment, tmp_path) is None
    result = run(rest.experiment, folder=tmp_path)
    assert rest.measured == [3]
    assert result.rows == run(Bench().experiment).rows


def test_other_settings_and_other_seeds_are_run(tmp_path):
    bench = Bench()
    run(bench.experiment, folder=tmp_path)
    other = run(bench.experiment, folder=tmp_path, seed=1)
    assert bench.measured == [1, 2, 3, 1, 2, 3]
    assert other.rows != run(bench.experiment, folder=tmp_path, seed=0).rows


def test_random_numbers_do_not_depend_on_the_other_parts():
    everything = run(Bench().experiment)
    alone = run(Bench(sizes=(2,)).experiment)
    assert alone.rows[0] == everything.rows[1]


def test_a_file_that_is_no_result_is_written_over(tmp_path):
    (tmp_path / "bench.json").write_text('{"parts": [{"half"')
    assert len(run(Bench().experiment, folder=tmp_path).rows) == 3


def test_missing_data_sets_are_left_out_and_named(tmp_path):
    with pytest.warns(UserWarning, match="bench goes without d2: not here"):
        result = run(Bench(missing=(2,)).experiment, folder=tmp_path)
    assert result.missing == ("d2",)
    assert f"{result.verdict()}" == "Holds where measured. 2 rows. Not at hand: d2."
    again = read(result.experiment, tmp_path)
    assert (again.missing, again.rows) == (result.missing, result.rows)
    assert read(Bench(sizes=(1, 2, 3, 4)).experiment, tmp_path) is None


def test_progress_counts_the_parts():
    events = []
    with reporting(events.append):
        run(Bench().experiment)
    assert [(event.stage, event.done, event.total) for event in events] == [("bench", i, 3) for i in (1, 2, 3)]


def test_files_hold_plain_numbers(tmp_path):
    run(Bench(sizes=(1,)).experiment, folder=tmp_path)
    (part,) = json.loads((tmp_path / "bench.json").read_text())["parts"]
    assert part["settings"] == {"data": "d1", "n": 1, "seed": 0}
    assert isinstance(part["rows"][0]["size"], int)
    header, line = (tmp_path / "bench.csv").read_text().splitlines()
    assert header == "data,n,seed,value,size"
    assert float(line.split(",")[3]) == part["rows"][0]["value"]


def test_the_index_names_claim_verdict_and_picture(tmp_path):
    result = run(Bench().experiment, folder=tmp_path)
    result.draw(tmp_path)
    page = tmp_path / "docs" / "reproduction.md"
    page.parent.mkdir()
    index, written = write_index([result], tmp_path, command="blockbasis reproduce all", page=page)
    assert written == page
    for text in (index.read_text(), page.read_text()):
        assert "It runs." in text
        assert "3 rows." in text
        assert "1 of 1 claims hold" in text
    assert "(../bench.svg)" in page.read_text()
    assert (page.parent / "../bench.svg").is_file()
