from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor as Exact

import blockbasis as bb
from blockbasis.estimators import _likelihood
from blockbasis.estimators._likelihood import Covariance, Sample, log_likelihood, most_likely
from blockbasis.estimators._posterior import compressed_likelihood, with_own_variances
from blockbasis.kernels.hyperparameters import log_parameters, with_log_parameters
from tests.repeating import first_of


def sample(n=80, d=3, seed=0, n_targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(2 * X[:, :1]) + 0.3 * rng.normal(size=(n, n_targets))
    return Sample(X, Y - Y.mean(axis=0), np.zeros(n))


@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_are_scikit_learns(seed):
    data = sample(seed=seed)
    kernel = 1.7 * bb.Matern([0.8, 2.0, 5.0], 2.5) + 0.5 * bb.Gaussian(3.0) + bb.White(0.2)
    theirs = kernel.to_sklearn()
    model = Exact(theirs, alpha=0, optimizer=None).fit(data.X, data.Y[:, 0])
    expected, slopes = model.log_marginal_likelihood(theirs.theta, eval_gradient=True)
    value, gradient = log_likelihood(kernel, data)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-8)


def test_the_gradient_for_several_targets_and_given_noises():
    data = sample(n_targets=3)._replace(noise=np.linspace(0.1, 1.0, 80))
    kernel = 1.7 * bb.Laplacian([0.8, 2.0, 5.0])
    theta, (_, gradient) = log_parameters(kernel), log_likelihood(kernel, data)
    for j, step in enumerate(1e-5 * np.eye(4)):
        ahead, behind = (log_likelihood(with_log_parameters(kernel, theta + s * step), data)[0] for s in (1, -1))
        assert gradient[j] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)


def start(kernel, *, free_kernel=True, free_signal=True, noise=0.1):
    return Covariance(kernel, 1.0, noise, free_kernel, free_signal)


@pytest.mark.parametrize("seed", range(3))
def test_no_neighbour_of_the_maximum_is_more_likely(seed):
    data, rng = sample(seed=seed), np.random.default_rng(seed)
    best = most_likely(start(bb.Gaussian([1.0, 1.0, 1.0])), data, 1, rng).whole
    value, theta = log_likelihood(best, data)[0], log_parameters(best)
    for _ in range(20):
        other = with_log_parameters(best, theta + 0.1 * rng.normal(size=len(theta)))
        assert log_likelihood(other, data)[0] < value + 1e-2


def test_what_is_not_free_stays():
    kernel, rng = bb.Gaussian([1.3, 0.7, 2.0]), np.random.default_rng(0)
    data = sample()
    kept = most_likely(start(kernel, free_kernel=False), data, 0, rng)
    assert kept.kernel is kernel and kept.signal_variance != 1.0
    fixed = start(kernel, free_kernel=False, free_signal=False, noise=0.0)
    assert most_likely(fixed, data, 0, rng) is fixed
    signal = most_likely(start(kernel, free_signal=False), data, 0, rng)
    assert signal.signal_variance == 1.0 and signal.kernel != kernel


def test_restarts_are_never_worse():
    data = sample(60, 2, 5)
    values = []
    for restarts in (0, 4):
        best = most_likely(start(bb.Gaussian([1.0, 1.0])), data, restarts, np.random.default_rng(1))
        values.append(log_likelihood(best.whole, data)[0])
    assert values[1] >= values[0] - 1e-6


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_patches_tell_noise_from_what_is_finer_than_a_sample(seed):
    """A rough function on a fine grid: the points of a random sample are too far from each other to tell."""
    rng = np.random.default_rng(0)
    X = np.linspace(0, 400, 4_000)[:, np.newaxis]
    walk = np.empty(4_000)  # the process of exp(-|x - y|), step by step
    decay = np.exp(-0.1)
    walk[0] = rng.normal()
    for i in range(1, 4_000):
        walk[i] = decay * walk[i - 1] + np.sqrt(1 - decay**2) * rng.normal()
    data = Sample(X, (walk + 0.3 * rng.normal(size=4_000))[:, np.newaxis], np.zeros(4_000))
    found = most_likely(start(bb.Laplacian(10.0)), data, 0, np.random.default_rng(seed), sample_points=200)
    assert found.noise == pytest.approx(0.09, rel=0.35)
    assert found.kernel.bandwidth == pytest.approx(1.0, rel=0.5)


def test_a_covariance_that_cannot_be_factored_is_never_chosen():
    X = np.repeat(np.linspace(0, 1, 20), 2)[:, np.newaxis]
    data = Sample(X, np.sin(9 * X), np.zeros(40))
    assert _likelihood._negative(start(bb.Gaussian(1.0), noise=0.0), [data])[0] == _likelihood._IMPOSSIBLE
    found = most_likely(start(bb.Gaussian(1.0)), data, 0, np.random.default_rng(0))
    assert np.isfinite(log_likelihood(found.whole, data)[0])


# --- compressed ------------------------------------------------------------------------------------------------------


def test_the_diagonal_becomes_the_kernels(many_points):
    A = bb.factorize(many_points, bb.Gaussian(0.3), n_clusters=4, rank=5, diagonal=False, rng=0)
    completed = with_own_variances(A, many_points)
    held = A.diagonal()
    np.testing.assert_allclose(completed.diagonal(), np.maximum(held, 1), atol=1e-12)
    assert (held < 0.9).any()
    whole = bb.factorize(many_points, bb.Gaussian(0.3), n_clusters=1, rank=600, diagonal=False, rng=0)
    assert with_own_variances(whole, many_points) is whole


def test_the_likelihood_where_the_compression_loses_most_of_the_variance(many_points):
    """The reason for D: without it the noise must account for what is lost."""
    kernel = bb.Gaussian(0.1)
    y = np.sin(5 * many_points[:, :1]) + 0.5 * np.random.default_rng(0).normal(size=(600, 1))
    truth = log_likelihood(kernel, Sample(many_points, y, np.full(600, 0.2)))[0]
    for seed in range(3):
        A = bb.factorize(many_points, kernel, n_clusters=5, rank=15, diagonal=False, rng=seed)
        without = abs(compressed_likelihood(bb.RidgeSystem(A, 0.2), y) - truth)
        system = bb.RidgeSystem(with_own_variances(A, many_points), 0.2)
        assert abs(compressed_likelihood(system, y) - truth) < 0.5 * without
