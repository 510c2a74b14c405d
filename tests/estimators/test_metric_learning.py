from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import linalg

import blockbasis as bb
from blockbasis.estimators._exact_ridge import leave_one_out
from blockbasis.estimators._metric_learning import (
    Grid,
    OutOfTime,
    Sample,
    metric_of_trees,
    regression,
    rounds,
    tuned,
    tuned_again,
    updated_metric,
)
from tests.repeating import first_of


def relevant(seed, n=700, d=10):
    """A function of the first two columns only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.05 * rng.normal(size=n)


def sample_of(X, y):
    return Sample(X, ((y - y.mean()) / y.std()).reshape(len(y), -1))


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 40)])
def test_leave_one_out_is_that_of_n_regressions(weights):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    K, ridges = bb.Laplacian(2.0)(X), np.full(40, 0.1) if weights is None else 0.1 / weights
    coefficients, left_out = leave_one_out(K, Y, weights, 0.1)
    np.testing.assert_allclose(coefficients, np.linalg.solve(K + np.diag(ridges), Y), rtol=1e-9)
    for i in range(40):
        others = np.arange(40) != i
        a = np.linalg.solve(K[np.ix_(others, others)] + np.diag(ridges[others]), Y[others])
        np.testing.assert_allclose(left_out[i], Y[i] - K[i, others] @ a, rtol=1e-8)


def test_a_matrix_that_is_not_definite_is_refused():
    with pytest.raises(linalg.LinAlgError, match="not definite"):
        leave_one_out(-np.eye(3), np.ones((3, 1)), None, 0.1)


def test_tuning_is_no_worse_than_a_grid():
    X, y = relevant(0, n=200, d=3)
    sample, family = sample_of(X, y), bb.Gaussian(1.0)
    best = tuned(sample, family, np.ones(3))
    unit = best.kernel.bandwidth / 2.0 ** best.place[0]
    errors = []
    for step in range(-3, 5):
        K = bb.Gaussian(unit * 2.0**step)(X)
        errors += [sample.losses(leave_one_out(K, sample.Y, None, 4.0**j)[1]).mean() for j in range(-8, 3)]
    assert best.error <= 1.02 * min(errors)


def test_ridges_and_a_bandwidth_that_are_given_are_kept_to():
    X, y = relevant(0, n=150, d=3)
    best = tuned(sample_of(X, y), bb.Gaussian(1.0), np.ones(3), grid=Grid((0.01, 0.5), 1.7))
    assert best.kernel.bandwidth == 1.7 and best.alpha in (0.01, 0.5)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@pytest.mark.parametrize("seed", first_of(range(4)))
def test_rounds_find_the_relevant_columns(kind, seed):
    X, y = relevant(seed)
    sample = sample_of(X, y)
    first = tuned(sample, bb.Laplacian(1.0), np.ones(10))
    *_, best = rounds(sample, first, kind, 4)
    squared = best.metric**2 if kind == "diagonal" else (best.metric**2).sum(axis=0)
    assert squared[:2].min() > 5 * squared[2:].max()
    assert best.error < 0.7 * first.error


@pytest.mark.parametrize("kind", first_of(["full", "diagonal"]))
@pytest.mark.parametrize("seed", first_of(range(5)))
def test_trees_begin_a_metric_where_an_isotropic_kernel_explains_little(kind, seed):
    sample = sample_of(*relevant(seed, 600, 100))
    first = tuned(sample, bb.Gaussian(1.0), np.ones(100))
    assert first.error > 0.9  # of the variance
    *_, best = rounds(sample, first, kind, 6)
    assert best.error < 0.05


def test_importances_of_trees_are_finite_for_awkward_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    X[:, 1] = 2.0  # a constant column has no importance
    metric = metric_of_trees(Sample(X, rng.normal(size=(30, 2)), rng.random(30) + 0.5))
    assert metric.shape == (3,) and metric.max() == pytest.approx(1.0) and metric[1] < 1e-2
    assert np.isfinite(metric_of_trees(Sample(np.ones((4, 1)), np.zeros((4, 1))))).all()


def test_a_full_metric_finds_a_direction():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 6))
    direction = np.array([1, -1, 0, 0, 1, 0]) / np.sqrt(3)
    sample = sample_of(X, np.sin(2 * X @ direction))
    *_, best = rounds(sample, tuned(sample, bb.Gaussian(1.0), np.ones(6)), "full", 4)
    assert abs(best.metric[-1] @ direction) / np.linalg.norm(best.metric[-1]) > 0.99


def test_a_constant_target_has_no_metric():
    X, _ = relevant(0, n=100)
    sample = Sample(X, np.zeros((100, 1)))
    assert updated_metric(sample, tuned(sample, bb.Gaussian(1.0), np.ones(10)), "full") is None


def test_many_columns_are_mapped_to_few():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 300))
    sample = sample_of(X, X[:, 0])
    metric = updated_metric(sample, tuned(sample, bb.Gaussian(1.0), np.ones(300)), "full")
    assert metric.shape == (128, 300)


def test_nothing_begins_after_the_deadline():
    X, y = relevant(0, n=50)
    with pytest.raises(OutOfTime):
        tuned(Sample(X, y[:, np.newaxis], None, time.perf_counter() - 1), bb.Gaussian(1.0), np.ones(10))


# --- in the estimators -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", first_of(["auto", "diagonal", "full"]))
def test_a_metric_improves_regression(metric):
    X, y = relevant(5, n=1200)
    X = X * np.r_[1e-3, 1e4, np.ones(8)]
    train, new = slice(700), slice(700, None)
    settings = {"alpha": 1e-2, "kernel": "laplacian", "random_state": 0, "fit_intercept": True}
    model = bb.KernelRidge(metric=metric, **settings).fit(X[train], y[train])
    scaled = bb.KernelRidge(bandwidth="median", **settings).fit(X[train] / X.std(axis=0), y[train])
    assert model.score(X[new], y[new]) > 0.97 > scaled.score(X[new] / X.std(axis=0), y[new])
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[:2].sum() > 0.9
    assert model.metric_.shape == (10, 10)
    mapped = X[train] @ model.metric_.T
    assert mapped.var(axis=0).sum() == pytest.approx(10, rel=0.1)  # of a sample of them it is 10


def test_a_metric_improves_classification():
    X, y = relevant(6, n=1500)
    labels = np.digitize(y, [0.0, 1.0])
    model = bb.KernelRidgeClassifier(1e-2, metric="full", random_state=0).fit(X[:1000], labels[:1000])
    plain = bb.KernelRidgeClassifier(1e-2, random_state=0).fit(X[:1000], labels[:1000])
    assert model.score(X[1000:], labels[1000:]) > plain.score(X[1000:], labels[1000:]) + 0.05
    assert model.feature_importances_[:2].sum() > 0.9


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_awkward_columns(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    X = np.hstack([x, np.full((300, 1), 7.0), x, 1e9 + rng.normal(size=(300, 1))])
    model = bb.KernelRidge(1e-3, metric=kind, random_state=0).fit(X, np.sin(x[:, 0]))
    assert model.score(X, np.sin(x[:, 0])) > 0.99
    assert model.feature_importances_[1] == 0
    assert np.isfinite(model.metric_).all()


@pytest.mark.parametrize("shape", [(300, 1), (3, 2), (2, 1), (60, 784)])
def test_awkward_shapes(shape):
    X = np.random.default_rng(0).normal(size=shape)
    model = bb.KernelRidge(0.1, metric="auto", random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


def test_all_columns_constant():
    model = bb.KernelRidge(0.1, metric="auto", fit_intercept=True).fit(np.ones((20, 2)), np.arange(20.0))
    np.testing.assert_allclose(model.predict([[1.0, 1.0]]), 9.5)
    np.testing.assert_array_equal(model.feature_importances_, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "square"}, "'metric' parameter of KernelRidge"),
        ({"metric": "full", "kernel": bb.Gaussian([1.0, 2.0, 3.0])}, "radial kernel of one bandwidth"),
        ({"metric": "full", "kernel": lambda X, Y: X @ Y.T}, "radial kernel of one bandwidth"),
        ({"gamma": 1.0, "bandwidth": 2.0}, "'gamma' parameter of KernelRidge"),
        ({"gamma": 1.0, "kernel": "laplacian"}, "'gamma' parameter of KernelRidge"),
    ],
)
def test_bad_parameters(regression, settings, message):
    X, y, _ = regression
    with pytest.raises(ValueError, match=message):
        bb.KernelRidge(**settings).fit(X, y)


# --- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "matern"])
@pytest.mark.parametrize("settings", [{}, {"n_clusters": 4, "rank": 30}, {"metric": "full"}, {"metric": "diagonal"}])
def test_gradients_are_those_of_the_prediction(regression, kernel, settings):
    X, y, X_new = regression
    X, X_new = X * [1.0, 10.0, 0.1], X_new * [1.0, 10.0, 0.1]
    Y = np.stack([y, -2 * y], axis=1)
    model = bb.KernelRidge(0.1, kernel=kernel, random_state=0, fit_intercept=True, **settings).fit(X, Y)
    slopes = model.gradient(X_new)
    assert slopes.shape == (50, 3, 2)
    for column, step in enumerate([1e-5, 1e-4, 1e-6]):
        moved = np.eye(3)[column] * step
        difference = (model.predict(X_new + moved) - model.predict(X_new - moved)) / (2 * step)
        size = np.abs(difference).max()
        near = np.abs(difference - slopes[:, column]).max(axis=1) < 1e-4 * size
        assert near.mean() > 0.95  # a step may cross a border of clusters
    np.testing.assert_allclose(bb.KernelRidge(0.1).fit(X, y).gradient(X_new).shape, (50, 3))


def test_gradients_of_decisions(classes):
    X, y, X_new, _ = classes
    model = bb.KernelRidgeClassifier(0.1, bandwidth="per-class", bandwidths=[0.5, 1.0]).fit(X, y)
    slopes, step = model.gradient(X_new), np.array([1e-6, 0.0])
    difference = (model.decision_function(X_new + step) - model.decision_function(X_new - step)) / 2e-6
    np.testing.assert_allclose(slopes[:, 0], difference, atol=1e-4 * np.abs(difference).max())
    two = bb.KernelRidgeClassifier(0.1).fit(X, y == "small")
    assert two.gradient(X_new).shape == X_new.shape


def test_a_function_without_derivative_has_no_gradient(regression):
    X, y, X_new = regression
    model = bb.KernelRidge(1.0, kernel=lambda X, Y: np.exp(-np.abs(X[:, :1] - Y[:, 0]))).fit(X, y)
    with pytest.raises(NotImplementedError, match="no gradient"):
        model.gradient(X_new)


def test_intercept(regression):
    X, y, X_new = regression
    centred = bb.KernelRidge(0.1).fit(X, y - y.mean())
    model = bb.KernelRidge(0.1, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(model.predict(X_new), centred.predict(X_new) + y.mean(), atol=1e-12)
    np.testing.assert_allclose(model.predict(np.full((1, 3), 1e6)), y.mean())


def test_gamma_is_that_of_scikit_learn(regression):
    X, y, X_new = regression
    ours = bb.KernelRidge(0.1, kernel="rbf", gamma=0.25).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X_new), bb.KernelRidge(0.1, bandwidth=2.0).fit(X, y).predict(X_new))


def test_a_regression_that_is_tuned_again_is_not_repeated():
    sample = sample_of(*relevant(0, n=100))
    best = tuned(sample, bb.Gaussian(1.0), np.ones(10))
    assert tuned_again(sample, best) is best
    start = regression(sample, bb.Gaussian(1.0), np.ones(10), (best.place[0] + 1, best.place[1]))
    assert tuned_again(sample, start).place == best.place
