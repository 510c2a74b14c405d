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
