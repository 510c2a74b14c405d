from __future__ import annotations

import numpy as np
import pytest

from blockbasis import datasets
from blockbasis.datasets import Dataset
from blockbasis.experiments.framework import points


@pytest.fixture
def raw(monkeypatch):
    """Sets of forty points with columns of different widths and twenty classes."""
    X = np.column_stack((np.arange(40) % 3 + 1, np.linspace(-5, 90, 40), np.full(40, 7)))
    monkeypatch.setattr(
        datasets, "load", lambda name, standardize: Dataset(X.astype(float), np.arange(40) % 20, name, "", "")
    )
    points._all.cache_clear()
    yield X
    points._all.cache_clear()


def test_regression_data_are_standardized(raw):
    X, _ = points.load_points("cpusmall")
    assert np.allclose(X.mean(axis=0), 0)
    assert np.allclose(X.std(axis=0), [1, 1, 0])


def test_classification_data_lie_between_minus_one_and_one(raw):
    X, y = points.load_points("ctg")
    assert X[:, :2].min(axis=0).tolist() == [-1, -1]
    assert X[:, :2].max(axis=0).tolist() == [1, 1]
    assert len(points.class_sizes(y)) == 20


def test_emg_has_nineteen_classes(raw):
    X, y = points.load_points("emg")
    assert y.max() == 18
    assert len(X) == 38


def test_sexes_are_numbered_by_the_alphabet(raw):
    X, _ = points.load_points(points.ALPHABETICAL)
    order = X[:3, 0]  # of M, F, I
    assert order.argsort().tolist() == [1, 2, 0]


def test_a_part_is_always_the_same_part(raw):
    X, y = points.load_points("cpusmall", 10)
    again, _ = points.load_points("cpusmall", 10)
    assert X.shape == (10, 3)
    assert (again == X).all()
    assert len(points.load_points("cpusmall", 100)[0]) == 40


def test_median_squared_radius():
    X = np.array([[-1.0, 0], [1, 0], [0, 3], [0, -3], [0, 0]])
    assert points.median_squared_radius(X, np.arange(5)) == 1.0
