from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from blockbasis.datasets import (
    alternating_clusters,
    circles_in_circle,
    nested_clusters,
    overlapping_clusters,
    unit_cube_mixture,
)

LABELLED = {
    "alternating_clusters": alternating_clusters,
    "circles_in_circle": circles_in_circle,
    "nested_clusters": nested_clusters,
    "overlapping_clusters": overlapping_clusters,
}


# --- unit_cube_mixture -----------------------------------------------------------------------------------------------


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


# --- what all with labels have in common -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 37, 400])
@pytest.mark.parametrize("name", LABELLED)
def test_points_and_labels(name, n):
    X, y = LABELLED[name](n, rng=0)
    assert X.shape == (n, 10 if name == "nested_clusters" else 2)
    assert X.dtype == np.float64
    assert y.shape == (n,)
    assert y.dtype.kind == "i"
    assert np.isfinite(X).all()


@pytest.mark.parametrize("name", LABELLED)
def test_the_seed_decides(name):
    make = LABELLED[name]
    X, y = make(200, rng=3)
    for rng in (3, np.random.default_rng(3)):
        again, labels = make(200, rng=rng)
        np.testing.assert_array_equal(X, again)
        np.testing.assert_array_equal(y, labels)
    assert not np.array_equal(X, make(200, rng=4)[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LABELLED)
def test_the_order_says_nothing(name, seed):
    """Any stretch of the points holds its share of every label."""
    _, y = LABELLED[name](3000, rng=seed)
    for label in np.unique(y):
        share = (y == label).mean()
        for part in np.array_split(y == label, 5):
            assert abs(part.mean() - share) < 5 * np.sqrt(share * (1 - share) / len(part))


# --- alternating_clusters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_clusters", "rows", "columns"), [(1, 1, 1), (4, 2, 2), (7, 1, 7), (20, 4, 5), (100, 10, 10)]
)
def test_a_chessboard_in_the_unit_square(n_clusters, rows, columns):
    X, y = alternating_clusters(20 * n_clusters, n_clusters, spread=1e-9, rng=0)
    cells = np.column_stack((np.floor(X[:, 1] * rows), np.floor(X[:, 0] * columns))).astype(int)
    np.testing.assert_allclose(X, (cells[:, ::-1] + 0.5) / [columns, rows], atol=1e-7)
    np.testing.assert_array_equal(y, cells.sum(axis=1) % 2)
    assert np.unique(cells, axis=0, return_counts=True)[1].tolist() == [20] * n_clusters


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_clusters", [4, 20, 100])
def test_clusters_keep_apart(n_clusters, seed):
    X, y = alternating_clusters(10_000, n_clusters, rng=seed)
    side = {4: (2, 2), 20: (5, 4), 100: (10, 10)}[n_clusters]
    cells = np.floor(X * side).astype(int)
    assert (cells.sum(axis=1) % 2 == y).mean() > 0.999
    centred = X - (cells + 0.5) / side
    np.testing.assert_allclose(centred.std(axis=0), 1 / (8 * side[0]), rtol=0.05)


# --- circles_in_circle and nested_clusters ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("radii", [(0.5, 0.25), (0.1, 0.3)])
def test_balls_surrounded_by_a_ball(radii, d, seed):
    X, y = nested_clusters(4000, d, radii=radii, gap=0.04, rng=seed)
    assert np.bincount(y).tolist() == [2800, 800, 400]
    assert np.linalg.norm(X, axis=1).max() <= 1
    for label, radius, side in zip((1, 2), radii, (-1, 1), strict=True):
        center = np.zeros(d)
        center[0] = side * 0.7 * (1 - radius)
        distances = np.linalg.norm(X - center, axis=1)
        inside = distances[y == label]
        assert inside.max() <= radius
        assert distances[y == 0].min() > radius + 0.04
        # uniform in the ball: the d-th power of the distance is uniform
        np.testing.assert_allclose(np.quantile((inside / radius) ** d, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.08)
    assert np.linalg.norm(X[y == 0], axis=1).max() > 0.99


def test_circles_are_nested_clusters_in_the_plane():
    for ours, theirs in zip(circles_in_circle(300, rng=5), nested_clusters(300, 2, rng=5), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "radii", [(0.5, 0.5), (0.9, 0.1), (0.96, 0.01), (0.25,), (0.1, 0.1, 0.1), 0.3, "ab", (0.3, -0.1), (0.3, np.nan)]
)
def test_balls_must_fit(radii):
    with pytest.raises((TypeError, ValueError), match="'radii' parameter of circles_in_circle must be"):
        circles_in_circle(10, radii=radii)


# --- overlapping_clusters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_small_discs_on_the_border_of_a_large_one(seed):
    X, y = overlapping_clusters(9000, 6, radius=0.2, rng=seed)
    assert np.bincount(y).tolist() == [6000, 3000]
    large, small = X[y == 0], X[y == 1]
    assert np.linalg.norm(large, axis=1).max() <= 1
    np.testing.assert_allclose(np.median(np.linalg.norm(large, axis=1)), 0.5**0.5, atol=0.02)
    angles = np.pi / 3 * np.arange(6)
    distances = cdist(small, np.column_stack((np.cos(angles), np.sin(angles))))
    assert distances.min(axis=1).max() <= 0.2
    assert np.bincount(distances.argmin(axis=1)).tolist() == [500] * 6
    assert 0.4 < (np.linalg.norm(small, axis=1) < 1).mean() < 0.5  # a little less than half of each is inside


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, {"n": n}) for name in LABELLED for n in (0, 2.5, "9")),
        *((name, {"rng": rng}) for name in LABELLED for rng in (-1, 0.5)),
        *((name, {"n_clusters": k}) for name in ("alternating_clusters", "overlapping_clusters") for k in (0, 1.5)),
        ("alternating_clusters", {"spread": 0.0}),
        ("overlapping_clusters", {"radius": -1.0}),
        ("circles_in_circle", {"gap": 0.0}),
        ("nested_clusters", {"d": 0}),
        ("nested_clusters", {"gap": np.inf}),
    ],
)
def test_bad_arguments_of_labelled_points(name, arguments):
    (argument,) = arguments
    with pytest.raises((TypeError, ValueError), match=f"'{argument}' parameter of {name} must be"):
        LABELLED[name](**{"n": 10, **arguments})
