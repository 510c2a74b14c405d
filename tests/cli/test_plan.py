from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")


def test_a_plan_is_printed_and_nothing_is_written(call, csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = call("plan", csv, "--bandwidth", 2, "--tol", 0.05)
    assert code == 0, text
    assert "Plan for 120 points, tol=0.05" in text
    assert "bandwidth 2" in text
    found = json.loads(call("plan", csv, "--memory", 20, "--json")[1])
    assert found["floats_per_point"] <= 20
    assert found["clusters"] >= 1
    assert [path.name for path in tmp_path.iterdir()] == [csv.name]
