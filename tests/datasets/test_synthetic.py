from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from blockbasis.datasets import unit_cube_mixture


def test_shape_and_seed():
    X = unit_cube_mixture(50, 3, rng=0)
    assert X.shape == (50, 3)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X, unit_cube_mixture(50, 3, rng=0))
    np.testing.assert_array_equal(X, unit_cube_mixture(50, 3, rng=np.random.default_rng(0)))
    assert not np.array_equal(X, unit_cube_mixture(50, 3, rng=1))


def test_clouds_around_centres_in_the_unit_cube():
    X = unit_cube_mixture(4000, 5, n_centers=4, spread=1e-3, rng=0)
    centres = []
    for x in X:
        if not centres or cdist([x], centres).min() > 0.05:
            centres.append(x)
    assert len(centres) == 4
    assert np.min(centres) > -0.01
    assert np.max(centres) < 1.01
    labels = cdist(X, centres).argmin(axis=1)
    counts = np.bincount(labels)
    assert np.abs(counts / 4000 - 0.25).max() < 0.05
    for i in range(4):
        deviation = X[labels == i].std(axis=0)
        np.testing.assert_allclose(deviation, 1e-3, rtol=0.15)


def test_the_papers_settings_are_the_default():
    X = unit_cube_mixture(20_000, 2, n_centers=1, rng=0)
    np.testing.assert_allclose(X.std(axis=0), 0.1, rtol=0.03)
    np.testing.assert_array_equal(
        unit_cube_mixture(9, 2, rng=0), unit_cube_mixture(9, 2, n_centers=10, spread=0.1, rng=0)
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n": 0}, "n"),
        ({"n": 1.5}, "n"),
        ({"d": 0}, "d"),
        ({"d": "2"}, "d"),
        ({"n_centers": 0}, "n_centers"),
        ({"spread": 0.0}, "spread"),
        ({"spread": np.nan}, "spread"),
        ({"rng": -1}, "rng"),
        ({"rng": 0.5}, "rng"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises((TypeError, ValueError), match=f"'{name}' parameter of unit_cube_mixture must be"):
        unit_cube_mixture(**{"n": 5, "d": 2, **arguments})
