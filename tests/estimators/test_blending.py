from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._blending import Blend, by_cluster
from blockbasis.partition import from_labels, nearest
from tests.repeating import first_of

SEEDS = range(3)
#: Distance of two points on either side of a border.
STEP = 1e-6


@pytest.fixture(scope="module")
def rough():
    """3,000 points in three columns, a target of some detail, and 1,000 new points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + np.cos(2 * X[:, 2]) + 0.1 * rng.normal(size=4000)
    return X[:3000], y[:3000], X[3000:], y[3000:]


def across_borders(X, centers, seed, count=200):
    """Pairs of points at a distance of STEP at the most, the nearest centres of which differ."""
    rng = np.random.default_rng(seed)
    starts, ends = X[rng.integers(len(X), size=(2, 4 * count))]
    crossing = np.flatnonzero(nearest(starts, centers) != nearest(ends, centers))[:count]
    low, high = starts[crossing], ends[crossing]
    assert len(crossing) == count
    while np.linalg.norm(high - low, axis=1).max() > STEP:
        middle = (low + high) / 2
        same = (nearest(middle, centers) == nearest(low, centers))[:, np.newaxis]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return low, high


def largest_jump(values, low, high):
    return float(np.abs(values(low) - values(high)).max())


def partition_of(X, k, seed):
    centers = X[np.random.default_rng(seed).choice(len(X), k, replace=False)]
    return from_labels(X, nearest(X, centers))


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("d", [1, 3, 50])
def test_shares_sum_to_one_and_few_clusters_take_part(seed, d):
    X = np.random.default_rng(seed).normal(size=(3000, d))
    parts = partition_of(X, 20, seed)
    shares = Blend.of(parts, X).shares(X, parts.centers)
    total, counts, largest = np.zeros(len(X)), np.zeros(len(X)), np.zeros(len(X))
    for _, rows, weights in shares:
        assert (np.diff(rows) > 0).all() and (weights > 0).all()
        total[rows] += weights
        counts[rows] += 1
        largest[rows] = np.maximum(largest[rows], weights)
    np.testing.assert_allclose(total, 1)
    assert 1.05 < counts.mean() <= 1.7
    for i, rows in by_cluster(X, parts.centers):
        of_nearest = np.zeros(len(X))
        (own,) = (share for share in shares if share.cluster == i)
        of_nearest[own.rows] = own.weights
        np.testing.assert_allclose(of_nearest[rows], largest[rows])  # no cluster counts more than the nearest


def test_without_a_width_each_point_has_its_nearest_cluster():
    X = np.random.default_rng(0).normal(size=(500, 2))
    centers = X[:7]
    for (i, rows, weights), (j, expected) in zip(Blend().shares(X, centers), by_cluster(X, centers), strict=True):
        assert i == j
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(weights, 1)


def test_points_far_away_have_few_clusters_too():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    parts = partition_of(X, 30, 0)
    blend = Blend.of(parts, X)
    for far in (10.0, 1e3, 1e8, 1e200):
        shares = blend.shares(far * X[:200], parts.centers)
        assert sum(len(share.rows) for share in shares) < 500
        assert all(np.isfinite(share.weights).all() for share in shares)


def test_points_that_are_all_centres_and_one_cluster_are_not_blended():
    X = np.repeat(np.arange(5.0)[:, np.newaxis], 10, axis=0)
    parts = from_labels(X, X[:, 0].astype(int))
    shares = Blend.of(parts, X).shares(X, parts.centers)
    assert [len(share.rows) for share in shares] == [10] * 5
    assert Blend.of(from_labels(X, np.zeros(50, dtype=int)), X) == Blend()


# --- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_predictions_do_not_jump_between_clusters(rough, seed, monkeypatch):
    X, y, X_new, y_new = rough
    settings = {"bandwidth": 1.5, "n_clusters": 12, "rank": 20, "random_state": seed}
    model = bb.KernelRidge(0.1, **settings).fit(X, y)
    low, high = across_borders(X, model.expansion_.centers, seed)
    assert largest_jump(model.predict, low, high) < 1e-3 * y.std()
    error = np.mean((model.predict(X_new) - y_new) ** 2)
    monkeypatch.setattr(Blend, "of", classmethod(lambda cls, *_: cls()))
    apart = bb.KernelRidge(0.1, **settings).fit(X, y)
    assert largest_jump(apart.predict, low, high) > 1e-2 * y.std()
    assert error < 1.005 * np.mean((apart.predict(X_new) - y_new) ** 2)


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_decision_values_do_not_jump_between_clusters(rough, seed):
    X, y, _, _ = rough
    labels = np.digitize(y, [-0.5, 0.5])
    model = bb.KernelRidgeClassifier(0.1, bandwidth=1.5, n_clusters=12, rank=20, random_state=seed).fit(X, labels)
    low, high = across_borders(X, model.expansions_[0].centers, seed)
    assert largest_jump(model.decision_function, low, high) < 1e-3


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_deviations_do_not_jump_between_clusters(rough, seed):
    X, y = rough[0][:1200], rough[1][:1200]
    model = bb.GaussianProcessRegressor(bandwidth=1.5, alpha=0.01, n_clusters=12, rank=20, random_state=seed)
    model.fit(X, y)
    posterior = model._posterior
    low, high = across_borders(X, posterior.mean.centers, seed)
    (means, deviations), (others, beside) = (model.predict(side, return_std=True) for side in (low, high))
    assert np.abs(means - others).max() < 1e-3 * y.std()
    assert np.abs(deviations - beside).max() < 1e-3 * y.std()
    apart = replace(posterior, mean=replace(posterior.mean, blend=Blend()))
    assert largest_jump(lambda side: np.sqrt(apart.variance(side, 1)), low, high) > 1e-2

    features = np.zeros((len(low), len(posterior.explained)))
    for i, rows, u in posterior._shared_coordinates(low):
        features[rows, posterior._blocks()[i]] = u
    left = 1 - np.einsum("ij,jk,ik->i", features, posterior.explained, features)
    np.testing.assert_allclose(posterior.variance(low, 1), np.maximum(left, 0), atol=1e-10)


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_values_that_were_exact_at_the_points_stay_so(rough, seed):
    X, y, _, _ = rough
    X, y = X[:1500], y[:1500]
    model = bb.KernelRidge(0.1, bandwidth=4.0, n_clusters=6, rank=60, random_state=seed).fit(X, y)
    learnt = model.factorization_ @ model.dual_coef_
    assert sum(len(share.rows) for share in model.expansion_.blend.shares(X, model.expansion_.centers)) > 1600
    np.testing.assert_allclose(model.predict(X), learnt, atol=1e-4 * np.abs(learnt).max())


def test_blends_are_saved(rough, tmp_path):
    X, y, X_new, _ = rough
    model = bb.KernelRidge(0.1, bandwidth=1.5, n_clusters=8, rank=15, random_state=0).fit(X, y)
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    assert again.expansion_.blend == model.expansion_.blend != Blend()
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))


@pytest.mark.parametrize("seed", range(3))
def test_slopes_of_the_weights_are_their_derivatives(seed):
    rng = np.random.default_rng(seed)
    centers, X = rng.normal(size=(6, 3)), rng.normal(size=(200, 3))
    blend = Blend(0.5, 2.0)
    shares = blend.shares(X, centers)
    assert len(X) < sum(len(share.rows) for share in shares)  # some points are near a border
    slopes = np.zeros((200, 6, 3))
    for share, slope in zip(shares, blend.slopes(X, centers, shares), strict=True):
        slopes[share.rows, share.cluster] = slope
    step = 1e-6 * np.eye(3)
    differences = [blend._weights(X + e, centers) - blend._weights(X - e, centers) for e in step]
    np.testing.assert_allclose(slopes, np.stack(differences, axis=2) / 2e-6, atol=1e-6)
