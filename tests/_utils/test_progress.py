from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import blockbasis as bb
from blockbasis._utils import progress
from blockbasis._utils.parallel import map_threads
from blockbasis.datasets import unit_cube_mixture


@pytest.fixture(scope="module")
def cloud():
    return unit_cube_mixture(800, 3, rng=0)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_events_of_a_stage_come_one_by_one_and_in_order(n_jobs):
    events = []
    with progress.reporting(events.append):
        assert map_threads(lambda i: i * i, [(i,) for i in range(20)], n_jobs, "squares") == [i * i for i in range(20)]
    assert [event.done for event in events] == list(range(1, 21))
    assert {(event.stage, event.total) for event in events} == {("squares", 20)}
    assert events[-1].remaining == 0
    assert all(event.elapsed >= 0 and event.remaining >= 0 for event in events)


def test_nobody_is_told_afterwards_or_of_stages_without_a_name():
    events = []
    with progress.reporting(events.append):
        map_threads(abs, [(1,)], 1)
    map_threads(abs, [(1,)], 1, "late")
    assert events == []


@pytest.mark.parametrize("arguments", [{"tol": 0.05}, {"memory": 20_000}, {"n_clusters": 4, "rank": 10}], ids=str)
def test_a_factorization_tells_its_stages_to_the_end(cloud, arguments):
    events = []
    A = bb.factorize(cloud, bb.Gaussian(0.5), rng=0, progress=events.append, **arguments)
    last = {event.stage: event for event in events}
    assert {"bases", "inner matrix"} <= set(last)
    assert ("check" in last) == ("rank" not in arguments)
    for stage in ("bases", "inner matrix"):
        assert (last[stage].done, last[stage].total) == (A.n_clusters, A.n_clusters)


def test_a_plan_tells_too(cloud):
    events = []
    bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, rng=0, progress=events.append)
    assert {event.stage.split()[0] for event in events} == {"survey"}


def test_progress_changes_nothing(cloud):
    silent, told = (
        bb.factorize(cloud, bb.Gaussian(0.5), tol=0.1, rng=0, progress=listener) for listener in (False, lambda e: None)
    )
    np.testing.assert_array_equal(silent.todense(), told.todense())


def test_a_listener_may_stop_the_work(cloud):
    def stop(event):
        if event.stage == "bases":
            raise KeyboardInterrupt

    threads, limits = threading.active_count(), [pool["num_threads"] for pool in threadpool_info()]
    with pytest.raises(KeyboardInterrupt):
        bb.factorize(cloud, bb.Gaussian(0.5), tol=0.05, rng=0, n_jobs=1, progress=stop)
    assert threading.active_count() == threads
    assert [pool["num_threads"] for pool in threadpool_info()] == limits
    map_threads(abs, [(1,)], 1, "bases")  # the listener that stops such a stage is gone


@pytest.mark.parametrize("bar", [True, False], ids=["rich", "text"])
def test_bars_appear_and_go(cloud, bar, monkeypatch, capsys):
    if bar:
        pytest.importorskip("rich")
        monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, by rich's rules
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bb.factorize(cloud, bb.Gaussian(0.5), n_clusters=4, rank=10, rng=0, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    if bar:
        assert "inner matrix" in captured.err
    else:
        assert "bases: 4/4, 0 s left" in captured.err
        assert captured.err.endswith("\r")


@pytest.mark.parametrize("rich", [True, False])
def test_a_file_has_a_line_for_each_stage(cloud, rich, monkeypatch, capsys):
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    bb.factorize(cloud, bb.Gaussian(0.5), n_clusters=4, rank=10, rng=0, n_jobs=1, progress=True)
    lines = capsys.readouterr().err.splitlines()
    stages = [line.split(":")[0] for line in lines]
    assert stages == list(dict.fromkeys(stages)) and {"bases", "inner matrix"} <= set(stages)
    assert lines[stages.index("bases")].startswith("bases: 25% done, ")


def test_pieces_with_names_share_a_bar(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    bars = []
    with progress.reporting(True):
        bar = progress._listener.get()
        advance = progress.advancing(6)
        for piece, size in (("first", 1), ("second", 2), ("third", 3)):
            advance(piece, size)
            bars.append((bar._task, bar._progress.tasks[0].description, bar._progress.tasks[0].completed))
        progress.counting("other", 2)()
        bars.append((bar._task, bar._progress.tasks[0].description, bar._progress.tasks[0].completed))
    assert [bar[1:] for bar in bars] == [("first", 1), ("second", 3), ("third", 6), ("other", 1)]
    assert len({bar[0] for bar in bars[:3]}) == 1 and bars[3][0] != bars[0][0]


def test_a_shorter_line_covers_a_longer_one():
    stream = io.StringIO()
    bar = progress._TextBar(stream)
    bar(progress.ProgressEvent("a long stage", 1, 10, 1.0, 9.0))
    bar(progress.ProgressEvent("b", 1, 1, 1.0, 0.0))
    first, second = stream.getvalue().split("\r")[1:]
    assert len(second) == len(first)


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_wrong_progress(cloud, wrong):
    with pytest.raises(TypeError, match="'progress' parameter of factorize must be True, False or a callable"):
        bb.factorize(cloud, bb.Gaussian(0.5), rank=3, progress=wrong)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child on Windows")
def test_an_interrupt_ends_the_work_and_leaves_nothing(tmp_path):
    code = (
        "import signal\n"  # a test run in the background has the signal ignored, and its children inherit that
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import blockbasis as bb\n"
        "from blockbasis.datasets import unit_cube_mixture\n"
        "X = unit_cube_mixture(50_000, 8, rng=0)\n"
        "bb.factorize(X, bb.Gaussian(0.3), tol=1e-2, rng=0, progress=lambda e: print(e.stage, flush=True))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("survey")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=300)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in said
    assert list(tmp_path.iterdir()) == []
