from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from blockbasis._utils.parallel import cores
from blockbasis.cli import compare, console


def test_compare_prints_a_table_and_writes_pictures(call, csv, tmp_path):
    out = tmp_path / "out"
    code, text = call(
        "compare", csv, "--bandwidth", 1, "--memory", 10, "--memory", 20, "--runs", 2, "--method", "bbf",
        "--method", "svd", "--target", "price", "--out", out,
    )  # fmt: skip
    assert code == 0, text
    assert "120 points, 2 columns, Gaussian(bandwidth=1.0)" in text
    assert "10 floats" in text
    assert " s │" in text
    assert "20 floats" in text
    assert {path.name for path in out.iterdir()} == {f"comparison.{kind}" for kind in ("json", "csv", "svg", "png")}


def test_on_a_narrow_terminal_each_budget_has_a_row(call, csv, monkeypatch):
    arguments = ("compare", csv, "-b", 1, "--memory", 5, "--memory", 10, "--method", "svd", "--method", "nystrom")
    assert "method │ 5 floats" in call(*arguments)[1].replace("┃", "│")
    monkeypatch.setattr(console.stdout, "width", 40)
    text = call(*arguments)[1]
    assert "method floats error seconds SVD 5 " in text
    assert text.index("SVD 10 ") < text.index("Nyström 5 ")


def test_the_report_has_a_figure_for_memory_and_one_for_time(call, csv, tmp_path):
    arguments = ("compare", csv, "-b", 1, "--memory", 5, "--memory", 10, "--method", "svd", "--method", "nystrom")
    assert call(*arguments, "--report", tmp_path / "r.html", "-q") == (0, "")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert [page.count(f"<h2>{title}</h2>") for title in ("Error against memory", "Error against time")] == [1, 1]
    assert page.count('<th scope="row">') == 2  # a row for each method


def test_compare_takes_a_number_of_threads(call, csv, monkeypatch):
    found = []
    monkeypatch.setattr(compare, "compare_methods", lambda *_, **__: found.append(cores()) or 1 / 0)
    assert call("compare", csv, "--jobs", 1)[0] == 1
    assert found == [1]


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
        (["--bandwidth", -1], "must be a positive number, not -1"),
        (["--bandwidth", 1, "--memory", 1], "Invalid value for '--memory'"),
        (["--bandwidth", 1, "--method", "nystroem"], "no method 'nystroem'. Did you mean nystrom"),
        (["--bandwidth", 1, "--target", "cost"], "cost"),
        (["--points", 1], "Invalid value for '--points'"),
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
        ("absent.csv", None, "There is no file"),
        ("empty.csv", "", "is empty"),
        ("points.doc", "1 2", "no known ending"),
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


def test_a_file_has_room_for_a_table(csv):
    budgets = [each for floats in (10, 20, 30, 40) for each in ("--memory", str(floats))]
    command = [sys.executable, "-m", "blockbasis", "compare", str(csv), "-b", "1", "--method", "nystrom", *budgets]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len([line for line in shown.stdout.splitlines() if line.count("±") == 4]) == 1
