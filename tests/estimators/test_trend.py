from __future__ import annotations

import numpy as np
import pytest

from blockbasis.estimators._trend import Trend, column_scales, largest


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(50, 3)) * [1, 10, 100] + [0, 5, -1e4]


def test_a_linear_trend_is_recovered(X):
    Y = np.stack((2 + X @ [1.0, 0.5, -0.01], -X[:, 0]), axis=1)
    np.testing.assert_allclose(Trend.fitted("linear", X, Y)(X), Y, atol=1e-9)
    beyond = X + [100, 0, 0]
    np.testing.assert_allclose(Trend.fitted("linear", X, Y)(beyond)[:, 1], -beyond[:, 0], atol=1e-8)


def test_a_constant_trend_is_the_mean_and_none_is_zero(X):
    Y = np.random.default_rng(1).normal(size=(50, 2))
    np.testing.assert_allclose(Trend.fitted("constant", X, Y)(X[:4]), np.tile(Y.mean(axis=0), (4, 1)))
    np.testing.assert_array_equal(Trend.fitted(None, X, Y)(X[:4]), np.zeros((4, 2)))


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_targets_of_any_size_have_a_trend(X, size):
    Y = (1 + X[:, :1]) / 10 * size
    np.testing.assert_allclose(Trend.fitted("linear", X, Y)(X) / size, Y / size, atol=1e-12)


def test_a_column_that_does_not_vary_has_no_slope(X):
    for value in (7.0, 1e5 / 3):  # the mean of which is rounded
        still = np.column_stack((X, np.full(50, value)))
        trend = Trend.fitted("linear", still, X[:, :1])
        assert trend.scale[3] == 1
        np.testing.assert_allclose(trend(still + [0, 0, 0, 1]), X[:, :1], atol=1e-4)


def test_scales_are_the_standard_deviations(X):
    center, scale = column_scales(X.astype(np.float32))
    assert center.dtype == scale.dtype == np.float64
    np.testing.assert_allclose(center, X.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(scale, X.std(axis=0), rtol=1e-3)


def test_the_largest_value_is_never_zero():
    assert largest(np.array([[-3.0, 2.0]])) == 3
    assert largest(np.zeros((2, 2))) == largest(np.empty((0, 2))) == 1
