from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb


def test_a_model(call, saved):
    code, text = call("info", saved / "rings.bbf")
    assert code == 0, text
    assert "rings.bbf: TableModel" in text
    assert "regression of rings, fitted to 48 rows" in text
    assert "length: numbers" in text
    assert "kernel model" in text
    assert json.loads(call("info", saved / "kind.bbf", "--json")[1])["task"] == "classification"


def test_a_factorization(call, saved):
    code, text = call("info", saved / "a.bbf")
    assert code == 0, text
    assert "Gaussian(bandwidth=2.0)" in text
    found = json.loads(call("info", saved / "a.bbf", "--json")[1])
    assert (found["kind"], found["points"]) == ("BlockBasis", 60)
    assert found["error"] <= 1e-2


def test_other_objects(call, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    bb.save(bb.factorize_cross(X, X[:30], bb.Gaussian(2.0), n_clusters=2, rank=5, rng=0), tmp_path / "c.bbf")
    assert "40 x 30" in call("info", tmp_path / "c.bbf")[1]
    bb.save(bb.KernelRidge(0.1, bandwidth=1.0).fit(X, X[:, 0]), tmp_path / "e.bbf")
    code, text = call("info", tmp_path / "e.bbf")
    assert code == 0, text
    assert "alpha 0.1" in text
