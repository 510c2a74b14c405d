from __future__ import annotations

import json
import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from blockbasis._utils.parallel import check_n_jobs
from blockbasis._utils.progress import reporting
from blockbasis.datasets import DatasetError
from blockbasis.experiments import Experiment, Part, Result, Table, Verdict, read, run, write_index
from blockbasis.experiments.framework import running
from blockbasis.report.figures import panels


class Bench:
    """An experiment that counts how often it is run, and that can be interrupted."""

    def __init__(self, sizes=(1, 2, 3), stop_at=None, missing=()):
        self.measured = []
        self.stop_at, self.missing = stop_at, missing
        self.experiment = Experiment(
            "bench", "A bench", "9.9", "It runs.", lambda quick: [{"data": f"d{n}", "n": n} for n in sizes],
            self.measure, lambda result: panels(1)[0], lambda result: Verdict(True, f"{len(result.rows)} rows."),
            tabulate=lambda result: [Table("A table", ("one |M|", "2"), (("<3", "4"),))],
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


@pytest.mark.parametrize("timed", [False, True])
def test_linear_algebra_has_one_thread_where_time_is_not_measured(timed):
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    experiment = replace(Bench().experiment, timed=timed, measure=lambda settings, rng: [{"threads": threads()}])
    with threadpool_limits(2, user_api="blas"):
        outside = threads()
        found = run(experiment).rows[0]["threads"]
    assert found == (outside if timed else [1] * len(outside))


def test_other_settings_and_other_seeds_are_run_and_kept_beside(tmp_path):
    bench = Bench()
    first = run(bench.experiment, folder=tmp_path)
    other = run(bench.experiment, folder=tmp_path, seed=1)
    assert bench.measured == [1, 2, 3, 1, 2, 3]
    assert other.rows != first.rows
    assert run(bench.experiment, folder=tmp_path, seed=0).rows == first.rows
    assert len(bench.measured) == 6


def test_time_counts_once_where_parts_ran_side_by_side():
    intervals = ((0, 10), (2, 3), (5, 12), (20, 21))
    parts = tuple(Part({}, float(end), float(end - start), ()) for start, end in intervals)
    assert Result(Bench().experiment, parts).seconds == 13


def test_random_numbers_do_not_depend_on_the_other_parts():
    everything = run(Bench().experiment)
    alone = run(Bench(sizes=(2,)).experiment)
    assert alone.rows[0] == everything.rows[1]


def test_processes_find_the_same(tmp_path):
    together = run(Bench(sizes=(1, 2, 3, 4)).experiment, folder=tmp_path, n_processes=2)
    assert together.rows == run(Bench(sizes=(1, 2, 3, 4)).experiment).rows
    assert read(together.experiment, tmp_path).rows == together.rows


def test_processes_leave_out_missing_data_sets(tmp_path):
    with pytest.warns(UserWarning, match="bench omits the data set d2: not here") as warned:
        result = run(Bench(sizes=(2, 1, 2, 3), missing=(2,)).experiment, folder=tmp_path, n_processes=2)
    assert len(warned) == 1
    assert (result.missing, [row["n"] for row in result.rows]) == (("d2",), [1, 3])


def test_processes_have_one_thread_each():
    def measure(settings, rng):
        return [{"threads": check_n_jobs(None, caller="test")}]

    experiment = replace(Bench(sizes=(1, 2)).experiment, measure=measure)
    assert {row["threads"] for row in run(experiment, n_processes=2).rows} == {1}


def test_what_measures_time_runs_alone():
    bench = Bench()
    run(replace(bench.experiment, timed=True), n_processes=2)
    assert bench.measured == [1, 2, 3]  # in this process


@pytest.mark.parametrize(("free", "expected"), [(None, 4), (2**30, 1), (11 * 2**30, 2), (2**40, 4)])
def test_as_many_processes_as_cores_and_memory_allow(monkeypatch, free, expected):
    monkeypatch.setattr(running, "cpu_count", lambda: 4)
    monkeypatch.setattr(running, "available_memory", lambda: free)
    assert running.processes() == expected


def test_a_file_that_is_no_result_is_put_aside(tmp_path):
    (tmp_path / "bench.json").write_text('{"parts": [{"half"')
    with pytest.warns(UserWarning, match="is not a result"):
        assert len(run(Bench().experiment, folder=tmp_path).rows) == 3
    assert (tmp_path / "bench.unreadable").read_text() == '{"parts": [{"half"'


def test_two_runs_in_a_folder_keep_the_parts_of_both(tmp_path):
    other = Bench(sizes=(7,)).experiment

    class Meanwhile(Bench):
        def measure(self, settings, rng):
            run(other, folder=tmp_path)
            return super().measure(settings, rng)

    run(Meanwhile().experiment, folder=tmp_path)
    assert len(read(other, tmp_path).rows) == 1
    assert len(read(Bench().experiment, tmp_path).rows) == 3


def test_results_know_what_they_were_measured_with(tmp_path):
    result = run(Bench().experiment, folder=tmp_path)
    by = f"blockbasis {version('blockbasis')}, numpy {np.__version__}"
    assert all(by in part.by for part in result.parts)
    index, page = write_index([result], tmp_path, command="blockbasis reproduce all")
    for text in (index.read_text(), page.read_text()):
        assert by in text
        assert time.strftime("%Y-%m-%d", time.gmtime(result.parts[0].finished)) in text


def test_missing_data_sets_are_left_out_and_named(tmp_path):
    with pytest.warns(UserWarning, match="bench omits the data set d2: not here"):
        result = run(Bench(missing=(2,)).experiment, folder=tmp_path)
    assert result.missing == ("d2",)
    assert result.verdict().mark == "holds where measured"
    assert result.verdict().sentence == "2 rows. Not at hand: d2."
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
        assert "|M|" in text.replace("\\|", "|")
    assert 'src="bench.svg"' in index.read_text()
    assert (tmp_path / "bench.svg").is_file()
    assert "| one \\|M\\| | 2 |\n| --- | --- |\n| <3 | 4 |" in page.read_text()
    assert "<td>&lt;3</td><td>4</td>" in index.read_text()
