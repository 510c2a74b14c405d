from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from blockbasis.cli import reproduce
from blockbasis.datasets import DatasetError
from blockbasis.experiments import EXPERIMENTS


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Parts are measured one after the other, where a test does not ask for more: to start a process takes seconds."""
    monkeypatch.setattr(reproduce, "processes", lambda: 1)


def test_experiments_are_listed(call):
    code, text = call("reproduce")
    assert code == 0
    assert all(name in text for name in EXPERIMENTS)


def test_an_unknown_figure_names_the_nearest(call):
    code, text = call("reproduce", "error-memory")
    assert code == 1
    assert "no figure or table 'error-memory'" in text
    assert "error-vs-memory" in text


def test_reproduce_writes_everything_and_resumes(call, tmp_path, monkeypatch):
    experiment = EXPERIMENTS["alternating"]
    parts = [{"clusters": k, "n": 100, "repetitions": 1} for k in (4, 9)]
    small = type(experiment)(**{**vars(experiment), "parts": lambda quick: parts})
    monkeypatch.setitem(EXPERIMENTS, "alternating", small)
    out, page = tmp_path / "out", tmp_path / "page.md"
    code, text = call("reproduce", "alternating", "--quick", "--out", out, "--page", page)
    assert code == 0, text
    assert "alternating" in text
    endings = {path.name for path in out.iterdir()}
    assert endings == {f"alternating.{kind}" for kind in ("json", "csv", "svg", "png")} | {"index.html"}
    assert "blockbasis reproduce alternating --quick" in page.read_text()
    before = (out / "alternating.json").read_bytes()
    assert call("reproduce", "alternating", "--quick", "--out", out, "--page", page)[0] == 0
    assert (out / "alternating.json").read_bytes() == before


def test_verdicts_for_machines_by_seed_and_nothing_if_quiet(call, tmp_path, monkeypatch):
    parts = [{"clusters": k, "n": 100, "repetitions": 1} for k in (4, 9)]
    monkeypatch.setitem(EXPERIMENTS, "alternating", replace(EXPERIMENTS["alternating"], parts=lambda quick: parts))
    arguments = ("reproduce", "alternating", "--out", tmp_path, "--seed", 5, "--jobs", 1)
    found = json.loads(call(*arguments, "--json")[1])
    assert [each["name"] for each in found["results"]] == ["alternating"]
    assert found["results"][0]["holds"] in (True, False)
    assert found["pages"][0] == str(tmp_path / "index.html")
    assert '"seed": 5' in (tmp_path / "alternating.json").read_text()
    assert "reproduce NAME --seed 5" in (tmp_path / "index.html").read_text()
    assert call(*arguments, "--quiet") == (0, "")
    assert len(json.loads(call("reproduce", "--json")[1])["figures"]) == len(EXPERIMENTS)


def test_reproduce_without_matplotlib_says_so_before_it_starts(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, text = call("reproduce", "statistics", "--out", tmp_path / "out")
    assert code == 1
    assert "blockbasis[plot]" in text
    assert not (tmp_path / "out").exists()


def test_missing_data_is_said_in_one_line_and_listed(call, tmp_path, monkeypatch):
    def absent(settings, rng):
        raise DatasetError("abalone is far away.")

    experiment = replace(EXPERIMENTS["block-errors"], measure=absent)
    monkeypatch.setitem(EXPERIMENTS, "block-errors", experiment)
    code, text = call("reproduce", "block-errors", "--out", tmp_path)
    assert code == 1, text
    assert "Warning: block-errors omits the data set abalone: abalone is far away." in text
    assert "reproduce.py" not in text
    page = (tmp_path / "index.html").read_text()
    assert "0 of 0 claims hold" in page
    assert "reproduce NAME" in page
    assert "Not run, or not to the end: rank-vs-bandwidth, class-table" in page
    assert "not measured" in page
    assert "<img" not in page


def test_a_failure_is_said_and_the_others_are_run(call, tmp_path, monkeypatch):
    def fail(settings, rng):
        raise np.linalg.LinAlgError("no convergence")

    small = [{"clusters": k, "n": 100, "repetitions": 1} for k in (4, 9)]
    chosen = {
        "curvature": replace(EXPERIMENTS["curvature"], measure=fail),
        "alternating": replace(EXPERIMENTS["alternating"], parts=lambda quick: small),
    }
    for name in list(EXPERIMENTS):
        monkeypatch.delitem(EXPERIMENTS, name)
    for name, experiment in chosen.items():
        monkeypatch.setitem(EXPERIMENTS, name, experiment)
    code, text = call("reproduce", "all", "--out", tmp_path)
    assert code == 1
    assert "curvature failed: LinAlgError: no convergence" in text
    assert "Not run, or not to the end: curvature." in (tmp_path / "reproduction.md").read_text()
    assert (tmp_path / "alternating.svg").exists()


def test_a_picture_that_cannot_be_drawn_ends_nothing_else(call, tmp_path, monkeypatch):
    def fail(result):
        raise KeyError("colour")

    small = [{"clusters": k, "n": 100, "repetitions": 1} for k in (4, 9)]
    experiment = replace(EXPERIMENTS["alternating"], draw=fail, parts=lambda quick: small)
    monkeypatch.setitem(EXPERIMENTS, "alternating", experiment)
    code, text = call("reproduce", "alternating", "--out", tmp_path)
    assert code == 1
    assert "alternating failed: KeyError: 'colour'" in text
    assert (tmp_path / "index.html").exists()


def test_a_page_that_cannot_be_written_is_known_before_the_work(call, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce.os, "access", lambda path, mode: path != tmp_path / "shut")
    code, text = call("reproduce", "alternating", "--out", tmp_path / "out", "--page", tmp_path / "shut" / "page.md")
    assert code == 1
    assert "Nothing can be written to" in text
    assert not list((tmp_path / "out").iterdir())


def test_an_interrupt_says_how_to_go_on(call, tmp_path, monkeypatch):
    def interrupted(settings, rng):
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "curvature", replace(EXPERIMENTS["curvature"], measure=interrupted))
    code, text = call("reproduce", "curvature", "--out", tmp_path)
    assert (code, text) == (130, "Interrupted. The same command goes on from here.")


def test_an_ended_process_is_no_traceback(call, tmp_path, monkeypatch):
    def ended(settings, rng):
        os.kill(os.getpid(), signal.SIGKILL)

    parts = [{"n": n} for n in range(2)]
    experiment = replace(EXPERIMENTS["curvature"], measure=ended, parts=lambda quick: parts)
    monkeypatch.setitem(EXPERIMENTS, "curvature", experiment)
    monkeypatch.setattr(reproduce, "processes", lambda: 2)
    code, text = call("reproduce", "curvature", "--out", tmp_path)
    assert code == 1
    assert "for want of memory most likely" in text


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ending_leaves_no_process_behind(tmp_path, number):
    script = f"""
import os, signal, time
from dataclasses import replace
from importlib.metadata import version
from blockbasis.cli import reproduce
from blockbasis.cli.app import app
from blockbasis.experiments import EXPERIMENTS

def wait(settings, rng):
    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), "w").close()
    time.sleep(300)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell has it ignored
EXPERIMENTS["curvature"] = replace(EXPERIMENTS["curvature"], measure=wait, parts=lambda quick: [{{"n": 1}}, {{"n": 2}}])
reproduce.processes = lambda: 2
app(["reproduce", "curvature", "--out", {str(tmp_path / "out")!r}])
"""
    main = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        workers = _wait_for(lambda: [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()], 2)
        main.send_signal(number)
        assert main.wait(60) == 128 + number
        _wait_for(lambda: [pid for pid in workers if not _runs(pid)], 2)
    finally:
        main.kill()


def _wait_for(look, count):
    """What is seen, once there is so much of it."""
    for _ in range(600):
        if len(found := look()) == count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"Still {look()}.")


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
