from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from blockbasis import __main__, cli
from blockbasis.datasets import DatasetError
from blockbasis.experiments import EXPERIMENTS


@pytest.fixture
def call(monkeypatch):
    """Runs a command and returns its exit code and everything it printed, in one line."""
    monkeypatch.setattr(cli._out, "width", 300)
    monkeypatch.setattr(cli._err, "width", 300)

    def run(*arguments):
        result = CliRunner().invoke(cli.app, [str(each) for each in arguments])
        return result.exit_code, " ".join(result.output.split())

    return run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "points.csv"
    X = np.random.default_rng(0).normal(size=(120, 3))
    np.savetxt(path, X, delimiter=",", header="a,b,price", comments="")
    return path


# --- reproduce -------------------------------------------------------------------------------------------------------


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
    assert "Warning: block-errors goes without abalone: abalone is far away." in text
    assert "cli.py" not in text
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
    monkeypatch.setattr(cli.os, "access", lambda path, mode: path != tmp_path / "shut")
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
    monkeypatch.setattr(cli, "processes", lambda: 2)
    code, text = call("reproduce", "curvature", "--out", tmp_path)
    assert code == 1
    assert "for want of memory most likely" in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_leaves_no_process_behind(tmp_path, number):
    script = f"""
import os, signal, time
from dataclasses import replace
from importlib.metadata import version
from blockbasis import cli
from blockbasis.experiments import EXPERIMENTS

def wait(settings, rng):
    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), "w").close()
    time.sleep(300)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell has it ignored
EXPERIMENTS["curvature"] = replace(EXPERIMENTS["curvature"], measure=wait, parts=lambda quick: [{{"n": 1}}, {{"n": 2}}])
cli.processes = lambda: 2
cli.app(["reproduce", "curvature", "--out", {str(tmp_path / "out")!r}])
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


# --- compare ---------------------------------------------------------------------------------------------------------


def test_compare_prints_a_table_and_writes_pictures(call, csv, tmp_path):
    out = tmp_path / "out"
    code, text = call(
        "compare", csv, "--bandwidth", 1, "--memory", 10, "--memory", 20, "--runs", 2, "--method", "bbf",
        "--method", "svd", "--target", "price", "--out", out,
    )  # fmt: skip
    assert code == 0, text
    assert "120 points, 2 columns, Gaussian(bandwidth=1.0)" in text
    assert "10 floats" in text
    assert "20 floats" in text
    assert {path.name for path in out.iterdir()} == {f"comparison.{kind}" for kind in ("json", "csv", "svg", "png")}


def test_compare_takes_the_number_of_a_column(call, tmp_path):
    path = tmp_path / "points.npy"
    np.save(path, np.random.default_rng(0).normal(size=(60, 4)))
    code, text = call("compare", path, "-b", 1, "--memory", 5, "--method", "svd", "--target", -1)
    assert code == 0, text
    assert "60 points, 3 columns" in text


def test_compare_takes_a_random_part_of_many_points(call, csv):
    code, text = call(
        "compare", csv, "-b", 1, "--points", 50, "--memory", 5, "--method", "svd", "--kernel", "laplacian"
    )
    assert code == 0, text
    assert "50 points, 3 columns, Laplacian(bandwidth=1.0)" in text
    assert "50 of the 120 points, drawn at random" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bandwidth", -1], "'bandwidth' parameter of Gaussian must be a positive finite number"),
        (["--bandwidth", 1, "--memory", 1], "'budgets' parameter of compare must be an integer of at least 3"),
        (["--bandwidth", 1, "--method", "nystroem"], "no method 'nystroem'. Did you mean nystrom"),
        (["--bandwidth", 1, "--target", "cost"], "cost"),
        ([], "Missing option '--bandwidth'"),
    ],
)
def test_mistakes_are_said_in_one_line(call, csv, arguments, message):
    code, text = call("compare", csv, *arguments)
    assert code != 0
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("absent.csv", None, "must be a file that exists"),
        ("empty.csv", "", "is empty"),
        ("points.doc", "1 2", "must end in one of"),
        ("words.csv", "a,b\n1,x\n2,y\n", "x"),
    ],
)
def test_files_that_hold_no_points(call, tmp_path, name, contents, message):
    if contents is not None:
        (tmp_path / name).write_text(contents)
    code, text = call("compare", tmp_path / name, "--bandwidth", 1)
    assert code == 1
    assert message in text
    assert "Traceback" not in text


# --- data and demo ---------------------------------------------------------------------------------------------------


def test_data_sets_are_listed_with_where_they_are(call, tmp_path, monkeypatch):
    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "abalone.npz").touch()
    code, text = call("data")
    assert code == 0
    assert "abalone 4177 x 8 regression yes" in text
    assert "pendigits 10992 x 16 classification no" in text
    assert "otto 61878 x 93 classification bring it" in text
    assert str(tmp_path / "cache") in text


def test_a_data_set_that_cannot_be_had(call, monkeypatch):
    def absent(name, standardize):
        raise DatasetError("otto has to be brought.")

    monkeypatch.setattr(cli.datasets, "load", absent)
    code, text = call("data", "otto")
    assert (code, text) == (1, "Error: otto has to be brought.")
    assert "Did you mean abalone" in call("data", "abalon")[1]
    assert "There are: abalone" in call("data", "nonsense")[1]


def test_demo_runs_the_demonstration(call, monkeypatch):
    monkeypatch.setattr(cli, "run_demo", lambda: print("shown"))
    assert call("demo") == (0, "shown")


# --- starting it -----------------------------------------------------------------------------------------------------


def test_as_a_module():
    shown = subprocess.run([sys.executable, "-m", "blockbasis", "--help"], capture_output=True, text=True, check=True)
    for command in ("reproduce", "compare", "data", "demo"):
        assert command in shown.stdout


def test_the_version_is_said(call):
    assert call("--version") == (0, f"blockbasis {version('blockbasis')}")


def test_a_file_has_room_for_a_table(csv):
    budgets = [each for floats in (10, 20, 30, 40) for each in ("--memory", str(floats))]
    command = [sys.executable, "-m", "blockbasis", "compare", str(csv), "-b", "1", "--method", "nystrom", *budgets]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len([line for line in shown.stdout.splitlines() if line.count("±") == 4]) == 1


def test_an_interrupt_while_it_starts_is_no_traceback(monkeypatch):
    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "blockbasis.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "blockbasis.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130


def test_without_typer_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "blockbasis.cli")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"pip install 'blockbasis\[cli\]'"):
        __main__.main()
