from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators import _local_posterior
from blockbasis.estimators._local_posterior import conditioned
from blockbasis.partition import QUICK, kmeans
from tests.repeating import first_of

KERNEL, NOISE = bb.Matern([1.0, 2.0], 1.5), 0.05


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(-3, 3, size=(800, 2)), rng.uniform(-3, 3, size=(200, 2))
    Y = np.column_stack((np.sin(3 * X[:, 0]) + X[:, 1], np.cos(X[:, 1]))) + np.sqrt(NOISE) * rng.normal(size=(800, 2))
    return X, Y, X_new


@pytest.fixture(scope="module")
def exact(data):
    X, Y, X_new = data
    K, cross = KERNEL(X) + NOISE * np.eye(800), KERNEL(X_new, X)
    value = -0.5 * (np.vdot(Y, np.linalg.solve(K, Y)) + 2 * np.linalg.slogdet(2 * np.pi * K)[1])
    variance = 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    return cross @ np.linalg.solve(K, Y), variance, value


def fitted(data, n_clusters, seed=0, kernel=KERNEL, noise=NOISE, n_jobs=1):
    X, Y, _ = data
    return conditioned(kernel, X, Y, np.full(800, noise), n_clusters, np.random.default_rng(seed), n_jobs)


@pytest.mark.parametrize("seed", range(3))
def test_one_neighbourhood_of_all_points_is_the_exact_process(data, exact, seed, monkeypatch):
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 50)
    mean, variance, _ = exact
    posterior = fitted(data, 1, seed).posterior
    np.testing.assert_allclose(posterior.mean(data[2], 1), mean, atol=1e-6)
    np.testing.assert_allclose(posterior.variance(data[2], 1), variance, atol=1e-6)


def test_inducing_points_at_all_points_are_the_exact_process(data, exact, monkeypatch):
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 800)
    mean, variance, value = exact
    found = fitted(data, 8)
    assert found.value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.posterior.mean(data[2], 1), mean, atol=1e-4)
    np.testing.assert_allclose(found.posterior.variance(data[2], 1), variance, atol=1e-4)
    K = KERNEL(data[0]) + NOISE * np.eye(800)
    np.testing.assert_allclose(found.dual, np.linalg.solve(K, data[1]), atol=1e-3)


def rms_error(posterior, data, mean):
    return np.sqrt(np.mean((posterior.mean(data[2], 1) - mean) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_function_in_much_noise_needs_data_far_away(data, seed, monkeypatch):
    X, Y, X_new = data
    kernel, noise = bb.Matern([4.0, 8.0], 1.5), 2.0
    mean = kernel(X_new, X) @ np.linalg.solve(kernel(X) + noise * np.eye(800), Y)
    errors = {}
    for count in (1, 60):
        monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", count)
        errors[count] = rms_error(fitted(data, 16, seed, kernel, noise).posterior, data, mean)
    assert errors[60] < 0.5 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_rough_function_needs_data_nearby(data, exact, seed, monkeypatch):
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 60)
    mean, variance, _ = exact
    posterior = fitted(data, 10, seed).posterior
    inducing = posterior._inducing
    weights = np.linalg.solve(inducing.precision, inducing.evidence)
    far = inducing.features(KERNEL.coordinates(data[2])) @ weights
    assert rms_error(posterior, data, mean) < 0.3 * np.sqrt(np.mean((far - mean) ** 2))
    assert np.abs(posterior.variance(data[2], 1) - variance).mean() < 0.1 * variance.mean()


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_means_and_variances_are_continuous(data, seed, monkeypatch):
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 30)
    posterior = fitted(data, 12, seed).posterior
    rng = np.random.default_rng(seed)
    for _ in range(5):
        ends = rng.uniform(-3, 3, size=(2, 2))
        jumps = []
        for steps in (300, 3_000):
            line = ends[0] + np.linspace(0, 1, steps)[:, np.newaxis] * (ends[1] - ends[0])
            values = np.column_stack((posterior.mean(line, 1), posterior.variance(line, 1)))
            jumps.append(np.abs(np.diff(values, axis=0)).max())
        assert jumps[1] < 0.3 * jumps[0]  # a jump would stay as large


def test_covariances_are_semidefinite_and_have_the_variances(data):
    posterior = fitted(data, 8).posterior
    covariance = posterior.covariance(data[2])
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-10
    np.testing.assert_allclose(np.diagonal(covariance), posterior.variance(data[2], 1), rtol=1e-9)


def test_a_large_neighbourhood_is_thinned_and_the_rest_stays_known(data, exact, monkeypatch):
    monkeypatch.setattr(_local_posterior, "_NEIGHBOURHOOD_POINTS", 100)
    errors = {}
    for count in (1, 200):
        monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", count)
        posterior = fitted(data, 2).posterior
        assert [len(noise) for noise in posterior.noises] == [100, 100]
        errors[count] = rms_error(posterior, data, exact[0])
    assert errors[200] < 0.5 * errors[1]


def test_far_from_the_data_the_prior_returns(data):
    posterior, far = fitted(data, 8).posterior, np.array([[1e3, 0.0], [-1e6, 1e6]])
    np.testing.assert_allclose(posterior.mean(far, 1), 0, atol=1e-12)
    np.testing.assert_allclose(posterior.variance(far, 1), 1)


@pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e3])
@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_variances_stay_between_nothing_and_the_prior(data, noise, length):
    posterior = fitted(data, 8, kernel=bb.Gaussian([length, length]), noise=noise).posterior
    variances = posterior.variance(np.vstack((data[0], data[2])), 1)
    assert np.isfinite(posterior.mean(data[2], 1)).all()
    assert (variances >= 0).all() and (variances <= 1).all()


def test_threads_do_not_matter(data):
    one, two = fitted(data, 8), fitted(data, 8, n_jobs=2)
    assert one.value == two.value
    np.testing.assert_array_equal(one.posterior.variance(data[2], 1), two.posterior.variance(data[2], 2))


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_points_in_a_gap_know_the_data_on_its_other_side(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(800, 2))
    X[:, 0] += np.copysign(1.0, X[:, 0])
    kernel, noise = bb.Laplacian([4.0, 4.0]), np.full(800, NOISE)
    Y = rng.multivariate_normal(np.zeros(800), kernel(X) + NOISE * np.eye(800))[:, np.newaxis]
    gap = rng.uniform([-0.9, -3], [0.9, 3], size=(200, 2))
    exact = kernel(gap, X) @ np.linalg.solve(kernel(X) + NOISE * np.eye(800), Y)
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 1)
    errors = {}
    for facing in (0, 8):
        monkeypatch.setattr(_local_posterior, "_FACING", facing)
        posterior = conditioned(kernel, X, Y, noise, 40, np.random.default_rng(seed), 1).posterior
        errors[facing] = np.sqrt(np.mean((posterior.mean(gap, 1) - exact) ** 2))
    assert errors[8] < 0.85 * errors[0]


@pytest.mark.parametrize("n_clusters", [1, 2, 20])
def test_a_neighbourhood_has_the_points_nearest_to_the_border_on_all_sides(n_clusters):
    X = np.random.default_rng(0).uniform(size=(2_000, 2))
    partition = kmeans(X, n_clusters, np.random.default_rng(1), QUICK)
    squares = ((X[:, np.newaxis] - partition.centers) ** 2).sum(axis=2)
    beyond = squares - squares[np.arange(2_000), partition.labels][:, np.newaxis]
    for i, rows in enumerate(_local_posterior._within(partition, X)):
        inside = np.isin(np.arange(2_000), rows)
        assert inside[partition.labels == i].all()
        assert len(rows) >= min(int(3.1 * 2_000 / n_clusters), 1_800)
        assert inside.all() or beyond[~inside, i].min() >= beyond[inside & (partition.labels != i), i].max(initial=0)


def test_the_points_around_a_gap_are_the_nearest_ones_of_all_clusters():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(3_000, 2))
    X[:, 0] += np.copysign(1.0, X[:, 0])
    partition = kmeans(X, 12, np.random.default_rng(1), QUICK)
    left = int(((partition.centers - [-2.5, 0.0]) ** 2).sum(axis=1).argmin())
    right = int(((partition.centers - partition.centers[left] * [-1, 1]) ** 2).sum(axis=1).argmin())
    middle = (partition.centers[left] + partition.centers[right]) / 2
    nearest_rows = np.argsort(((X - middle) ** 2).sum(axis=1))[:200]
    assert np.isin(nearest_rows, _local_posterior._across(partition, X)[left]).all()
    assert len(np.unique(partition.labels[nearest_rows])) > 2
