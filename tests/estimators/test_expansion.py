from __future__ import annotations

import numpy as np

import blockbasis as bb
from blockbasis.estimators._blending import by_cluster
from blockbasis.estimators._expansion import Expansion


def test_a_point_is_evaluated_in_the_cluster_of_the_nearest_centre():
    rng = np.random.default_rng(0)
    centers, kernel = np.array([[-2.0, 0.0], [2.0, 0.0]]), bb.Gaussian(1.0)
    points = (rng.normal(size=(4, 2)), rng.normal(size=(7, 2)))
    weights = (rng.normal(size=(4, 3)), rng.normal(size=(7, 3)))
    X = rng.normal(size=(50, 2))
    values = Expansion(kernel, centers, points, weights)(X, 1)
    for x, value in zip(X, values, strict=True):
        i = int(x[0] > 0)
        np.testing.assert_allclose(value, kernel(x[np.newaxis], points[i])[0] @ weights[i], atol=1e-14)


def test_clusters_without_new_points_are_left_out():
    groups = by_cluster(np.array([[0.1], [9.0], [-0.2]]), np.array([[0.0], [5.0], [10.0]]))
    assert [(i, rows.tolist()) for i, rows in groups] == [(0, [0, 2]), (2, [1])]


def test_a_far_point_does_not_blur_the_others():
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(600, 3)), rng.normal(size=(100, 3))
    model = bb.KernelRidge(0.1, bandwidth=1.5, n_clusters=6, rank=30, random_state=0).fit(X, np.sin(X[:, 0]))
    process = bb.GaussianProcessRegressor(alpha=0.1, bandwidth=1.5, n_clusters=6, rank=30, random_state=0)
    process.fit(X, np.sin(X[:, 0]))
    alone, (mean, std) = model.predict(X_new), process.predict(X_new, return_std=True)
    for far in (1e6, 1e8, 1e12):
        beside = np.concatenate((X_new, [[far, 0.0, 0.0]]))
        np.testing.assert_allclose(model.predict(beside)[:-1], alone, atol=1e-12)
        means, stds = process.predict(beside, return_std=True)
        np.testing.assert_allclose(means[:-1], mean, atol=1e-12)
        np.testing.assert_allclose(stds[:-1], std, atol=1e-9)


def test_points_learnt_in_double_are_predicted_in_double():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    model = bb.KernelRidge(1e-6, bandwidth=3.0, n_clusters=6, rank=30, random_state=0).fit(X, np.sin(X[:, 0]))
    single = X.astype(np.float32)
    np.testing.assert_array_equal(model.predict(single), model.predict(single.astype(np.float64)))
