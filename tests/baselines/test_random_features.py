from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import random_features
from tests.repeating import first_of


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_mean_of_many_waves_is_the_kernel(radial, points, seed):
    """The error of a mean of m waves is some multiple of 1 / sqrt(m), whatever the spectral density."""
    X = points[:40]
    K = radial.matrix(X, X, 0.5)
    m = 20_000
    A = random_features(X, radial.make(0.5), rank=2 * m, rng=seed)
    # A wave is at most 1 in modulus: five standard errors of a mean, for every one of the entries.
    assert np.abs(A.todense() - K).max() < 5 / np.sqrt(m)
    np.testing.assert_allclose(np.diagonal(A.todense()), 1, atol=1e-10)


def test_far_from_the_origin(points):
    near = random_features(points, bb.Gaussian(0.5), rank=50, rng=0).todense()
    far = random_features(points + 1e6, bb.Gaussian(0.5), rank=50, rng=0).todense()
    np.testing.assert_allclose(near, far, atol=1e-7)


def test_ranks(points):
    assert random_features(points, bb.Gaussian(1.0), rank=7, rng=0).rank == 6
    assert random_features(points, bb.Gaussian(1.0), rank=1000, rng=0).rank == 1000
    with pytest.raises(ValueError, match="'rank' parameter of random_features must be at least 2.*Got 1 instead"):
        random_features(points, bb.Gaussian(1.0), rank=1)


def test_a_function_has_no_spectral_density(points):
    with pytest.raises(ValueError, match="known spectral density: Gaussian, Laplacian, Matern, Cauchy"):
        random_features(points, lambda X, Y: X @ Y.T, rank=10)
