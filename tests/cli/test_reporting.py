from __future__ import annotations

import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from blockbasis.cli.reporting import command_line


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "shells", "-t", "rings", "--out", "out.bbf"),
        ("compress", "csv", "--bandwidth", 1, "--tol", 0.1, "--out", "out.bbf"),
        ("compare", "csv", "-b", 1, "--memory", 10, "--method", "svd", "--method", "nystrom", "--runs", 1),
    ],
    ids=["fit", "compress", "compare"],
)
def test_a_report_is_written_and_not_replaced(call, csv, shells, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    named = {"csv": csv, "shells": shells}
    arguments = [named.get(each, each) for each in command]
    code, text = call(*arguments, "--report", "r.html")
    assert code == 0, text
    assert "Report: r.html" in text
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count("<svg") >= 1
    code, text = call(*arguments, "--report", "r.html")
    assert code == 1
    assert "exists. Give --force" in text


def test_without_matplotlib_nothing_is_written(call, shells, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, text = call("fit", shells, "-t", "rings", "--report", "r.html")
    assert code == 1
    assert "blockbasis[plot]" in text
    assert not (tmp_path / "model.bbf").exists()


def test_the_command_is_quoted(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "fit", "a b.csv"])
    assert command_line() == "blockbasis fit 'a b.csv'"
