from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb
from blockbasis.cli.options import KernelName
from blockbasis.cli.points import make_kernel, read_points


def test_scaled_columns_are_bandwidths_of_columns():
    X = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 100.0]
    kernel, h = make_kernel(KernelName.gaussian, 2.0, X, raw=False)
    scaled = X / X.std(axis=0)
    np.testing.assert_allclose(kernel(X), bb.Gaussian(2.0)(scaled), rtol=1e-10)
    assert h == 2.0
    assert make_kernel(KernelName.matern, 2.0, X, raw=True)[0] == bb.Matern(2.0)


def test_the_default_is_the_median_distance():
    X = np.random.default_rng(0).normal(size=(400, 3))
    _, h = make_kernel(KernelName.gaussian, None, X, raw=True)
    distances = np.linalg.norm(X[:, np.newaxis] - X, axis=2)[np.triu_indices(400, 1)]
    assert h == pytest.approx(np.median(distances), rel=0.05)


def test_constant_columns_have_the_bandwidth_itself():
    X = np.column_stack([np.arange(20.0), np.ones(20)])
    kernel, _ = make_kernel(KernelName.gaussian, 1.0, X, raw=False)
    assert np.isfinite(kernel(X)).all()


def test_a_target_is_left_out(csv):
    assert read_points(csv, "price").shape == (120, 2)
    assert read_points(csv, "-1").shape == (120, 2)
