from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb


def test_a_factorization_within_a_tolerance(call, csv, tmp_path):
    out = tmp_path / "a.bbf"
    code, text = call("compress", csv, "--bandwidth", 2, "--tol", 0.05, "--target", "price", "--out", out)
    assert code == 0, text
    assert "120 points, 2 columns; gaussian kernel, bandwidth 2" in text
    A = bb.load(out)
    X = np.loadtxt(csv, delimiter=",", skiprows=1)[:, :2]
    kernel = bb.Gaussian(2 * X.std(axis=0))
    assert float(bb.relative_error(A, X, kernel).value) <= 0.05
    assert A.extend(X[:3]).shape == (3, 120)  # points as they are in the file


def test_a_budget_and_the_median_distance(call, csv, tmp_path):
    code, text = call(
        "compress", csv, "--memory", 12, "--kernel", "laplacian", "--dtype", "float32", "--raw", "--json",
        "--out", tmp_path / "a.bbf",
    )  # fmt: skip
    assert code == 0, text
    found = json.loads(text)
    assert found["floats_per_point"] <= 12
    assert found["dtype"] == "float32"
    assert 1 < found["bandwidth"] < 4
    size = call("compress", csv, "--memory", "60kB", "--out", tmp_path / "b.bbf", "-q")
    assert size == (0, "")
    assert (tmp_path / "b.bbf").stat().st_size <= 60_000
