from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from blockbasis.cli import demo


@pytest.fixture(autouse=True)
def few_points(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "N", 2_000)
    monkeypatch.setattr(demo, "ROWS", 300)
    monkeypatch.setattr(demo, "EXACT_ROWS", 500)
    monkeypatch.setattr(demo, "TOL", 1e-2)
    monkeypatch.chdir(tmp_path)


def test_the_demonstration_measures_what_it_prints(call, tmp_path):
    code, text = call("demo")
    assert code == 0, text
    assert "2,000 points in 5 dimensions" in text
    assert "The kernel model has the lowest test error" in text
    assert f"Report: {tmp_path / 'report.html'}" in text
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1. A regression with a known answer" in page
    assert page.count("<svg") >= 10


def test_the_errors_are_those_promised(call, tmp_path):
    code, text = call("demo", "--json", "--no-report")
    assert code == 0, text
    found = json.loads(text)
    ours, linear, mean = found["errors"].values()
    assert ours < linear < mean
    assert found["error"] <= 1e-2
    assert found["product_difference"] < 5e-2
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_replaced_only_if_asked(call, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("another report")
    monkeypatch.setattr(demo, "_regression", lambda *_: pytest.fail("The report was not checked before the work."))
    code, text = call("demo")
    assert (code, text) == (1, "Error: report.html exists. Give --force to replace it, or another --report.")


def test_the_seed_and_the_threads_are_taken(call, monkeypatch):
    taken = []
    monkeypatch.setattr(demo.bb, "factorize", lambda X, kernel, **settings: taken.append(settings) or 1 / 0)
    code, _ = call("demo", "--no-report", "--seed", 3, "--jobs", 1, "-q")
    assert code == 1
    assert (taken[0]["rng"], taken[0]["n_jobs"]) == (3, 1)
