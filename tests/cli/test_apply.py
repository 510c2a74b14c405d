from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb


def test_a_product_is_that_of_the_library(call, saved, tmp_path):
    out = tmp_path / "p.npy"
    code, text = call("apply", saved / "a.bbf", saved / "v.npy", "--out", out)
    assert code == 0, text
    expected = bb.load(saved / "a.bbf") @ np.load(saved / "v.npy")
    np.testing.assert_allclose(np.load(out), expected, rtol=1e-12)
    found = json.loads(call("apply", saved / "a.bbf", saved / "v.npy", "--out", tmp_path / "p.csv", "--json")[1])
    assert found["shape"] == [60, 2]
    np.testing.assert_allclose(np.loadtxt(tmp_path / "p.csv", delimiter=","), expected, rtol=1e-12)
