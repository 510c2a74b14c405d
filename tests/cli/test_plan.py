from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer")

from blockbasis.cli import console


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


def test_a_plan_shows_its_progress_and_the_time_left(call, tmp_path, monkeypatch):
    monkeypatch.setattr(console, "_FIRST_LINE", 0.0)
    np.save(tmp_path / "many.npy", np.random.default_rng(0).normal(size=(3_000, 3)))
    assert "survey of " in (text := call("plan", tmp_path / "many.npy", "--bandwidth", 2, "--tol", 0.05)[1])
    assert "s left" in text
