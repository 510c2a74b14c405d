from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import blockbasis as bb
from blockbasis.estimators import _continuation
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._continuation import surroundings
from blockbasis.estimators._local import best_shares, regressed_locally
from tests.repeating import first_of

SEEDS = range(5)
SETTINGS = {"diagonal": False}


def prepared(X, kernel, **parameters):
    A = bb.factorize(X, kernel, rng=0, **SETTINGS, **parameters)
    return A, surroundings(A, X, np.random.default_rng(0), 1, points_per_rank=7)


def ridges(*values):
    return [np.array([value]) for value in values]


@pytest.fixture(scope="module")
def wiggly():
    """A target of fine detail, which the kernel resolves at a rank far beyond that of the tests."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 3))
    y = np.sin(4 * X[:, 0]) * X[:, 1] + np.cos(3 * X[:, 2]) + 0.1 * rng.normal(size=4000)
    return X[:3000], y[:3000], X[3000:], y[3000:]


@pytest.mark.parametrize("rows_per_point", [1, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_point_is_left_out_as_by_brute_force(regression, monkeypatch, weighted, rows_per_point):
    """Also where a cluster is fitted at some of its points only."""
    monkeypatch.setattr(_continuation, "_ROWS_PER_POINT", rows_per_point)
    X, y, _ = regression
    kernel = bb.Gaussian(0.5)
    A, around = prepared(X, kernel, n_clusters=3, rank=5)
    assert (sum(len(place.rows) for place in around) < len(X)) == (rows_per_point == 1)
    weights = np.random.default_rng(1).uniform(0.3, 3, len(X)) if weighted else None
    _, (left_out,) = regressed_locally(A, X, y[:, np.newaxis], ridges(0.05), weights, around, 1)
    w = np.ones(len(X)) if weights is None else weights

    def by_force(i, place):
        others = place.rows[place.rows != i]
        columns = kernel(X[others], place.points)
        gram = columns.T @ (w[others, np.newaxis] * columns) + 0.05 * kernel(place.points)
        solved = np.linalg.solve(gram, columns.T @ (w[others] * y[others]))
        return y[i] - kernel(X[[i]], place.points) @ solved

    for i in range(0, len(X), 20):
        shares = Blend.of(A.partition, X).shares(X[[i]], A.partition.centers)
        expected = sum(weights[0] * by_force(i, around[cluster]) for cluster, _, weights in shares)
        np.testing.assert_allclose(left_out[i], expected, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9, 1e-12])
def test_nothing_is_known_of_a_point_far_from_all_others(alpha):
    X = np.arange(60.0)[:, np.newaxis]
    y = np.random.default_rng(0).normal(size=(60, 1))
    A, around = prepared(X, bb.Gaussian(0.05), n_clusters=3, rank=10)
    _, (left_out,) = regressed_locally(A, X, y, ridges(alpha), None, around, 1)
    np.testing.assert_allclose(left_out, y, rtol=1e-2)


def test_several_ridges_at_once_are_those_one_after_the_other(regression):
    X, y, _ = regression
    Y = np.stack((y, y**2), axis=1)
    A, around = prepared(X, bb.Gaussian(1.0), n_clusters=4, rank=8)
    alphas = [np.array([0.1, 0.1]), np.array([1.0, 0.1])]
    fitted, missed = regressed_locally(A, X, Y, alphas, None, around, 2)
    for alpha, weights, left_out in zip(alphas, fitted, missed, strict=True):
        for target in range(2):
            (of_one,), (alone,) = regressed_locally(A, X, Y[:, [target]], [alpha[[target]]], None, around, 1)
            np.testing.assert_allclose(left_out[:, target], alone[:, 0], rtol=1e-8, atol=1e-10)
            for both, one in zip(weights, of_one, strict=True):
                np.testing.assert_allclose(both[:, target], one[:, 0], rtol=1e-5, atol=1e-6 * np.abs(one).max())


def test_one_cluster_with_all_points_is_the_exact_regression(regression):
    X, y, X_new = regression
    kernel = bb.Gaussian(1.0)
    A, around = prepared(X, kernel, n_clusters=1, rank=60)
    (weights,), _ = regressed_locally(A, X, y[:, np.newaxis], ridges(0.1), None, around, 1)
    assert len(around[0].points) == len(X)
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y).predict(X_new)
    values = kernel(X_new, around[0].points) @ weights[0]
    np.testing.assert_allclose(values[:, 0], exact, atol=1e-5)


def test_the_best_shares_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 500, 3))
    one[:, 1] *= 100  # the compressed regression is hopeless for this target
    other[:, 2] = one[:, 2] + 1  # and here nothing is to be gained
    weights = rng.uniform(1, 2, 500)
    shares = best_shares(one, other, weights)
    tried = np.linspace(0, 1, 1001)
    for target in range(3):
        mixtures = (1 - tried) * one[:, [target]] + tried * other[:, [target]]
        assert shares[target] == pytest.approx(tried[(weights @ mixtures**2).argmin()], abs=1e-3)
    np.testing.assert_array_equal(best_shares(one, one, None), 0)
    np.testing.assert_allclose(best_shares(1e160 * one, 1e160 * other, weights), shares, rtol=1e-9)


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_fine_detail_that_the_compression_leaves_out_is_learnt_from_the_data_around(wiggly, seed):
    X, y, X_new, y_new = wiggly
    model = bb.KernelRidge(0.1, bandwidth=0.8, n_clusters=12, rank=10, random_state=seed).fit(X, y)
    system = bb.RidgeSystem(model.factorization_, 0.1)
    compressed = system.solve(y) / system.inverse_diagonal()
    assert model.local_share_[0] > 0.5
    assert np.mean((model.predict(X_new) - y_new) ** 2) < 0.8 * np.mean(compressed**2)


@pytest.mark.parametrize("settings", first_of([{"n_clusters": 12, "rank": 20}, {"n_clusters": 4, "rank": 40}]))
def test_leave_one_out_tells_the_error_at_new_points(wiggly, settings):
    X, y, X_new, y_new = wiggly
    told, found = [], []
    for seed in SEEDS:
        model = bb.KernelRidge([0.1, 1.0], bandwidth=0.8, random_state=seed, **settings).fit(X, y)
        told.append(-model.cv_results_["mean_test_score"].max())
        found.append(np.mean((model.predict(X_new) - y_new) ** 2))
    assert np.mean(told) == pytest.approx(np.mean(found), rel=0.2)


@pytest.mark.parametrize("kernel", [lambda A, B: 1 + A @ B.T, bb.Gaussian(20.0)])
def test_where_the_compression_leaves_nothing_out_the_regression_is_that_of_the_matrix(wiggly, kernel):
    X, y, X_new, _ = wiggly
    model = bb.KernelRidge(0.1, kernel=kernel, n_clusters=8, rank=12, random_state=0).fit(X, y)
    exact = kernel(X_new, X) @ np.linalg.solve(kernel(X, X) + 0.1 * np.eye(len(X)), y)
    assert model.local_share_[0] == 0
    np.testing.assert_allclose(model.predict(X_new), exact, atol=0.02)


def test_ridges_with_and_without_a_local_regression_stand_side_by_side(classes):
    """Of several ridges only the smaller may be below what the compression leaves out."""
    X, y, X_new, _ = classes
    model = bb.KernelRidgeClassifier(
        [1e-4, 1e3], bandwidth="per-class", bandwidths=[0.3, 3.0], n_clusters=4, rank=10, random_state=0
    ).fit(X, y)
    assert model.local_share_.shape == (3,)
    assert np.isfinite(model.decision_function(X_new)).all()


def test_a_tolerance_asks_for_the_regression_of_the_matrix_alone(wiggly):
    X, y, X_new, _ = wiggly
    model = bb.KernelRidge(0.1, bandwidth=3.0, tol=1e-6, random_state=0).fit(X, y)
    assert model.factorization_.n_clusters > 1
    assert model.local_share_[0] == 0
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=1 / 9).fit(X, y).predict(X_new)
    assert np.sqrt(np.mean((model.predict(X_new) - exact) ** 2)) < 0.01
