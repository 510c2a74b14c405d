"""The harness end to end on one tiny case: a run, its results, the page. No timing decides a test."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import blockbasis as bb
from tests.repeating import first_of

MakePage = Callable[..., tuple[int, str]]
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script of the harness in a process of its own, with the package that is tested."""
    source = str(Path(bb.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def make_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[MakePage]:
    """The script page.py, run in this process: what it returns, and what it writes to standard error."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    page = importlib.import_module("page")
    yield lambda *arguments: (page.main(list(arguments)), capsys.readouterr().err)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results")
    done = run("run.py", "engine", "grid", "extend", "--tiny", "--out", str(directory))
    assert done.returncode == 0, done.stderr
    return directory


def content(directory: Path, suite: str) -> dict[str, object]:
    return json.loads((directory / f"{suite}.json").read_text())


def test_engine_compares_with_nystroem_at_our_error(results: Path) -> None:
    found = content(results, "engine")
    (record,) = found["records"]
    assert record["n"] == 1_500
    assert record["ours_error"] <= 1e-2
    assert record["reached"] and record["nystroem_error"] <= record["ours_error"]
    assert record["components"] in (50, 100, 200, 400, 800, 1600, 3200)
    assert record["ratio"] == pytest.approx(record["ours_cpu"] / max(record["nystroem_cpu"], 0.5))
    assert record["ours_peak_mb"] >= record["ours_data_mb"] > 0
    assert {"python", "numpy", "scikit-learn"} <= set(found["versions"])
    assert set(found["peers"]) >= {"ours", "nystroem", "pykeops", "sgpr", "kiss"}


def test_grid_knows_the_true_error(results: Path) -> None:
    (record,) = content(results, "grid")["records"]
    assert {"data", "h", "tol", "seed", "n", "stored", "planned", "plan", "build", "skipped"} <= set(record)
    assert 0 < record["error"] <= record["tol"]


def test_extension_is_measured_on_held_out_points(results: Path) -> None:
    (record,) = content(results, "extend")["records"]
    assert record["points"] == 1_000
    assert 0 < record["error"] < 5e-2
    assert record["largest"] < 1.5


def test_cells_that_are_done_are_not_run_again(results: Path) -> None:
    done = run("run.py", "grid", "--tiny", "--out", str(results))
    assert "1 cells, 0 to run" in done.stdout
    assert len((results / "grid.jsonl").read_text().splitlines()) == 1


def test_page_is_made_from_the_results(results: Path, tmp_path: Path, make_page: MakePage) -> None:
    code, said = make_page("--results", str(results), "--readme", str(tmp_path / "README.md"))
    assert code == 0, said
    text = (tmp_path / "README.md").read_text()
    assert content(results, "engine")["commit"] in text
    assert "time over Nystroem's at the same error" in text
    assert "`scale`: not run." in text
    assert (results / "engine.svg").exists() and (results / "grid.png").exists()


@pytest.mark.slow
def test_grid_is_compared_with_an_earlier_commit(results: Path, tmp_path: Path) -> None:
    (record,) = content(results, "grid")["records"]
    earlier = record | {"stored": 2 * record["stored"], "plan": 20 * record["plan"], "build": 20 * record["build"]}
    (tmp_path / "earlier.jsonl").write_text(json.dumps(earlier) + "\n")
    (tmp_path / "grid.jsonl").write_text((results / "grid.jsonl").read_text())
    baseline = ("--baseline", str(tmp_path / "earlier.jsonl"))
    assert run("run.py", "grid", "--tiny", "--out", str(tmp_path), *baseline).returncode == 0
    assert run("page.py", "--results", str(tmp_path), "--readme", str(tmp_path / "README.md")).returncode == 0
    text = (tmp_path / "README.md").read_text()
    assert "floats at most 1.1 times the earlier commit's in 90%: yes (100.0% of 1, median 0.5)" in text
    assert "processor time at most a tenth of the earlier commit's: yes" in text


def test_page_refuses_to_mix_commits(results: Path, tmp_path: Path, make_page: MakePage) -> None:
    for suite in ("engine", "grid"):
        (tmp_path / f"{suite}.json").write_text(json.dumps(content(results, suite) | {"commit": suite}))
    code, said = make_page("--results", str(tmp_path), "--readme", str(tmp_path / "README.md"))
    assert code == 1
    assert "different commits" in said
    assert not (tmp_path / "README.md").exists()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks of Linux")
@pytest.mark.parametrize("case", first_of(["ranks, 5,000", "tol, 20,000", "cross, 10,000"]))
def test_predicted_peaks_of_memory_are_near_the_measured_ones(case: str) -> None:
    (line,) = run("memory.py", case).stdout.splitlines()[2:]
    assert line.split("|")[1].strip() == case
    assert 0.7 <= float(line.split("|")[4]) <= 1.3
