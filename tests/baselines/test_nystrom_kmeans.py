from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import blockbasis as bb
from blockbasis.baselines import nystrom, nystrom_kmeans


def test_exact_at_full_rank(radial, points, relative):
    """Every point is then its own centroid."""
    K = radial.matrix(points, points, 0.2)
    assert relative(nystrom_kmeans(points, radial.make(0.2), rank=160, rng=0), K) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_formula_at_the_centroids(points, seed, relative):
    landmarks = []

    def kernel(X, Y):
        landmarks.append(Y.copy())
        return np.exp(-cdist(X, Y, "sqeuclidean") / 0.09)

    A = nystrom_kmeans(points, kernel, rank=12, rng=seed)
    Z = landmarks[-1]
    assert Z.shape == (12, 3)
    nearest = cdist(points, Z).argmin(axis=1)
    np.testing.assert_allclose(Z, [points[nearest == i].mean(axis=0) for i in range(12)], atol=1e-12)
    C, W = kernel(points, Z), kernel(Z, Z)
    assert relative(A, C @ np.linalg.inv(W) @ C.T) < 1e-8


def test_centroids_beat_random_columns(many_points):
    kernel = bb.Gaussian(0.4)

    def mean_error(method):
        runs = (method(many_points, kernel, rank=20, rng=seed) for seed in range(5))
        return np.mean([bb.relative_error(A, many_points, kernel).value for A in runs])

    assert mean_error(nystrom_kmeans) < mean_error(nystrom)


def test_fewer_places_than_landmarks(relative):
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 20, axis=0)
    A = nystrom_kmeans(X, bb.Gaussian(1.0), rank=30, rng=0)
    assert A.rank <= 5
    assert relative(A, bb.Gaussian(1.0)(X)) < 1e-10
