from __future__ import annotations

import numpy as np
import pytest

from blockbasis.estimators._columns import ColumnMap, as_they_are, column_scale, heavy_tails, standardized


def columns(n=500):
    """Normal, lognormal, mostly zeros, constant."""
    rng = np.random.default_rng(0)
    rare = np.where(rng.uniform(size=n) < 0.1, np.exp(4 * rng.normal(size=n)), 0.0)
    return np.stack([rng.normal(size=n), np.exp(3 * rng.normal(size=n)), rare, np.full(n, 7.0)], axis=1)


def test_scales_make_columns_comparable_and_constant_ones_vanish():
    X = np.random.default_rng(0).normal(size=(300, 3)) * [1, 100, 0] + [0, 1e6, 7]
    scale = column_scale(X, None)
    np.testing.assert_allclose((X * scale).std(axis=0), [1, 1, 0], rtol=1e-9)
    assert scale[2] == 0
    np.testing.assert_array_equal(column_scale(np.ones((5, 2)), None), np.ones(2))
    repeated = np.repeat(np.arange(300), 2)
    np.testing.assert_allclose(column_scale(X, np.full(300, 2.0)), column_scale(X[repeated], None), rtol=1e-12)


def test_columns_of_heavy_tails_are_found():
    mapping = heavy_tails(columns())
    np.testing.assert_array_equal(mapping.columns, [1, 2])
    assert mapping.centers[1] == 0 and (mapping.spreads > 0).all()
    assert heavy_tails(columns()[:, [0, 3]]) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_map_keeps_the_order_and_leaves_other_columns(dtype):
    X = columns().astype(dtype)
    mapped = heavy_tails(X)(X)
    assert mapped.dtype == dtype
    np.testing.assert_array_equal(mapped[:, [0, 3]], X[:, [0, 3]])
    for j in (1, 2):
        assert (np.diff(mapped[np.argsort(X[:, j]), j]) >= 0).all()
    assert np.ptp(mapped[:, 1]) < 0.1 * np.ptp(X[:, 1])


def test_slopes_are_the_derivatives():
    X, step = columns(), 1e-6
    mapping = heavy_tails(X)
    differences = (mapping(X + step) - mapping(X - step)) / (2 * step)
    np.testing.assert_allclose(mapping.slopes(X), differences, atol=1e-4)


def test_values_as_large_as_there_are_stay_finite():
    mapping = ColumnMap(np.array([0]), np.array([0.0]), np.array([1e-3]))
    X = np.array([[1e300], [-1e300], [0.0]])
    assert np.isfinite(mapping(X)).all() and np.isfinite(mapping.slopes(X)).all()


def test_views_are_centred_and_scaled():
    X = columns()
    view = standardized(X, None, heavy_tails(X))
    np.testing.assert_allclose(view(X).mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(view(X).std(axis=0), [1, 1, 1, 0])
    raw = as_they_are(X, None)
    np.testing.assert_allclose(raw(X)[:, 1], X[:, 1] - X[:, 1].mean())
    np.testing.assert_array_equal(raw.scale, [1, 1, 1, 0])
    assert raw.mapped(X) is X
