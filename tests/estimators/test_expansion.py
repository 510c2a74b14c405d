from __future__ import annotations

import numpy as np

import blockbasis as bb
from blockbasis.estimators.expansion import Expansion, by_cluster


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
