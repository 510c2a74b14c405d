from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from blockbasis.datasets import Dataset, standardized


def test_every_column_has_mean_0_and_deviation_1():
    X = np.random.default_rng(0).gamma(2.0, [1.0, 1e-6, 1e6], size=(500, 3))
    before = X.copy()
    Z = standardized(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) / X.std(axis=0))
    np.testing.assert_array_equal(X, before)


def test_tiny_and_huge_columns():
    """Whose squares vanish, or whose sums overflow; a scale of two to some power changes no digit."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    scale = np.ldexp(1.0, [-700, -900, 480])
    np.testing.assert_array_equal(standardized(X * scale), standardized(X))
    assert np.isfinite(standardized([[1e-320], [2e-320]])).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e8 + 0.1])
def test_constant_columns_are_zero(value):
    X = np.column_stack((np.full(1001, value), np.arange(1001)))
    Z = standardized(X)
    assert (Z[:, 0] == 0).all()
    assert Z[:, 1].std() == pytest.approx(1)


def test_whole_numbers_and_lists():
    assert standardized(np.array([[1], [3]], dtype=np.uint8)).tolist() == [[-1.0], [1.0]]
    assert standardized(np.array([[1], [3]], dtype=np.float32)).dtype == np.float64


def test_bad_points():
    with pytest.raises(ValueError, match="'X' parameter of standardized must be free of NaN"):
        standardized([[np.nan]])


def test_a_dataset_is_frozen_and_says_what_it_is():
    data = Dataset(np.zeros((3, 2)), np.zeros(3), "some", "three points", "here")
    assert repr(data) == "Dataset(some: 3 x 2, y)"
    assert repr(dataclasses.replace(data, y=None)) == "Dataset(some: 3 x 2)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"
