from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators import _intervals
from blockbasis.estimators._intervals import Residuals, some_residuals
from tests.repeating import first_of


def uneven(seed, n=3000):
    """A function of two columns, with noise that grows from one side to the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + np.exp(X[:, 0]) * 0.1 * rng.standard_t(4, size=n)


def share(model, X, y, coverage):
    lower, upper = model.predict_interval(X, coverage)
    return np.mean((lower <= y) & (y <= upper), axis=0)


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("settings", [{"memory": "2MB"}, {"n_clusters": 8, "rank": 30}, {"tol": 1e-3}])
def test_new_targets_are_covered(seed, settings):
    X, y = uneven(seed, n=4000)
    model = bb.KernelRidge(0.3, bandwidth=1.0, random_state=seed, n_jobs=1, **settings).fit(X[:1500], y[:1500])
    for coverage in (0.5, 0.8, 0.95):  # 2,500 new points: a standard error of at most 0.01, and that of the residuals
        assert abs(share(model, X[1500:], y[1500:], coverage) - coverage) < 0.04


def test_intervals_are_wider_where_the_noise_is():
    X, y = uneven(0)
    model = bb.KernelRidge(0.3, bandwidth=1.0, keep_points=False).fit(X, y)
    lower, upper = model.predict_interval([[-1.8, 0.0], [1.8, 0.0]])
    assert upper[1] - lower[1] > 4 * (upper[0] - lower[0])
    near = np.abs(X[:, 0] - 1.8) < 0.2
    assert share(model, X[near], y[near], 0.9) > 0.8


def test_every_target_has_its_own():
    X, y = uneven(1)
    Y = np.stack((y, 1000 * np.random.default_rng(0).normal(size=len(y))), axis=1)
    model = bb.KernelRidge(0.3, bandwidth=1.0).fit(X[:1500], Y[:1500])
    lower, upper = model.predict_interval(X[1500:])
    assert lower.shape == (1500, 2) and np.median(upper - lower, axis=0)[1] > 100
    np.testing.assert_allclose(share(model, X[1500:], Y[1500:], 0.9), 0.9, atol=0.04)


def test_saved_and_loaded(tmp_path):
    X, y = uneven(2, n=500)
    model = bb.KernelRidgeCV(kernel="laplacian", metric=None, keep_points=False, random_state=0).fit(X, y)
    bb.save(model, tmp_path / "model.bbf")
    np.testing.assert_array_equal(bb.load(tmp_path / "model.bbf").predict_interval(X), model.predict_interval(X))


def test_weights_count_residuals():
    rng = np.random.default_rng(0)
    points, left_out = rng.normal(size=(200, 1)), rng.normal(size=(200, 1))
    left_out[:100] *= 10
    plain, light, heavy = (
        some_residuals(points, left_out, weights, np.random.default_rng(0)).factors(0.9)
        * some_residuals(points, left_out, weights, np.random.default_rng(0)).deviations(np.zeros((1, 1)))
        for weights in (None, np.r_[np.full(100, 0.01), np.ones(100)], np.r_[np.full(100, 100.0), np.ones(100)])
    )
    assert light < 0.5 * plain < 0.5 * heavy


def test_the_residuals_kept_are_bounded():
    X, y = uneven(0, n=300)
    weights = np.linspace(1, 2, 300)
    kept = _intervals.some_residuals(X, y[:, np.newaxis], weights, np.random.default_rng(0), most=50)
    assert kept.points.shape == (50, 2)
    rows = [np.flatnonzero((point == X).all(axis=1))[0] for point in kept.points]
    np.testing.assert_array_equal(kept.sizes[:, 0], np.abs(y[rows]))
    np.testing.assert_array_equal(kept.weights, weights[rows])


def test_points_of_weight_zero_have_no_residual():
    X, y = uneven(0, n=300)
    model = bb.KernelRidge(0.3, bandwidth=1.0).fit(X, y, np.linspace(0, 2, 300))
    assert model.residuals_.points.shape == (299, 2) and (model.residuals_.weights > 0).all()


def test_a_quantile_counts_the_new_point():
    residuals = Residuals(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1))
    np.testing.assert_allclose(residuals.factors(0.4) * residuals.deviations(np.zeros((3, 1))), np.ones((3, 1)))
    far = Residuals(np.arange(9.0)[:, np.newaxis] * 1e6, np.zeros((9, 1)), np.ones(9))
    assert (far.factors(0.9) * far.deviations(np.zeros((1, 1))) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_points(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    lower, upper = bb.KernelRidge().fit(X, X[:, 0]).predict_interval(X)
    assert (lower <= upper).all() and np.isfinite(upper).all()


@pytest.mark.parametrize(("coverage", "error"), [(0.0, ValueError), (1.0, ValueError), ("most", TypeError)])
def test_bad_coverage(coverage, error):
    model = bb.KernelRidge().fit(np.eye(3), np.arange(3.0))
    with pytest.raises(error, match="'coverage' parameter of KernelRidge.predict_interval"):
        model.predict_interval(np.eye(3), coverage)
