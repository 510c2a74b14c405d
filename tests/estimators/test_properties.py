"""Properties of the estimators that hold for any points and targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockbasis as bb

seeds = st.integers(0, 2**31 - 1)
#: Exact fits of few points, and fits on a compressed matrix.
FORMS = [{}, {"n_clusters": 3, "rank": 6}]


@st.composite
def problems(draw):
    """Points with duplicates among them, targets, new points."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(12, 60)), draw(st.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=d)
    if draw(st.booleans()):
        X = X[rng.integers(n // 2, size=n)]
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, y, np.concatenate((X[:3], 3 * rng.normal(size=(8, d))))


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(problem=problems(), alpha=st.floats(1e-3, 10.0), h=st.floats(0.1, 30.0), shift=st.floats(-5, 5), seed=seeds)
def test_ridge_predictions_move_and_scale_with_the_targets(form, problem, alpha, h, shift, seed):
    X, y, X_new = problem
    model = bb.KernelRidge(alpha, bandwidth=h, fit_intercept=True, random_state=seed, n_jobs=1, **form)
    of_y = model.fit(X, y).predict(X_new)
    assert np.isfinite(of_y).all()
    np.testing.assert_allclose(model.fit(X, shift + 4 * y).predict(X_new), shift + 4 * of_y, atol=1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(problem=problems(), h=st.floats(0.1, 30.0), coverage=st.floats(0.05, 0.95), seed=seeds)
@settings(max_examples=15)
def test_intervals_of_more_coverage_hold_those_of_less(form, problem, h, coverage, seed):
    X, y, X_new = problem
    model = bb.KernelRidge(0.1, bandwidth=h, random_state=seed, n_jobs=1, **form).fit(X, y)
    lower, upper = model.predict_interval(X_new, coverage)
    wider_lower, wider_upper = model.predict_interval(X_new, coverage + 0.04)
    assert (wider_lower <= lower).all() and (lower <= upper).all() and (upper <= wider_upper).all()


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(problem=problems(), h=st.floats(0.1, 30.0), n_classes=st.integers(2, 4), seed=seeds)
@settings(max_examples=15)
def test_probabilities_of_classes_sum_to_one_whatever_the_classes_are_called(form, problem, h, n_classes, seed):
    X, _, X_new = problem
    labels = np.arange(len(X)) % n_classes
    model = bb.KernelRidgeClassifier(bandwidth=h, random_state=seed, n_jobs=1, **form)
    shares = model.fit(X, labels).predict_proba(X_new)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    predicted = model.predict(X_new)
    assert set(predicted) <= set(range(n_classes))
    names = np.array(["a", "b", "c", "d"])
    np.testing.assert_array_equal(model.fit(X, names[labels]).predict(X_new), names[predicted])


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(problem=problems(), h=st.floats(0.1, 30.0), noise=st.floats(1e-2, 1.0), variance=st.floats(0.1, 10), seed=seeds)
def test_a_posterior_is_no_wider_than_its_prior(form, problem, h, noise, variance, seed):
    X, y, X_new = problem
    model = bb.GaussianProcessRegressor(
        bandwidth=h, signal_variance=variance, alpha=noise, mean=None, random_state=seed, n_jobs=1, **form
    ).fit(X, y)
    mean, std = model.predict(X_new, return_std=True, include_noise=False)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert (std <= np.sqrt(variance) * (1 + 1e-9)).all()


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(problem=problems(), h=st.floats(0.3, 30.0), seed=seeds)
def test_principal_components_are_centred_and_uncorrelated(form, problem, h, seed):
    X, _, X_new = problem
    model = bb.KernelPCA(n_components=2, bandwidth=h, random_state=seed, n_jobs=1, **form)
    scores = model.fit_transform(X)
    spread = np.linalg.norm(scores, axis=0)
    assert spread[0] >= spread[1]
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-6)
    assert abs(scores[:, 0] @ scores[:, 1]) <= 1e-6 * spread[0] ** 2
    assert np.isfinite(model.transform(X_new)).all()


@pytest.mark.parametrize("form", [{}, {"n_blocks": 3, "rank": 6}], ids=str)
@given(problem=problems(), h=st.floats(0.3, 30.0), k=st.integers(2, 4), seed=seeds)
@settings(max_examples=15)
def test_every_point_has_a_label_and_equal_points_have_equal_ones(form, problem, h, k, seed):
    X, _, _ = problem
    labels = bb.SpectralClustering(k, bandwidth=h, random_state=seed, n_jobs=1, **form).fit_predict(X)
    assert labels.shape == (len(X),)
    assert set(labels) <= set(range(k))
    _, places = np.unique(X, axis=0, return_inverse=True)
    assert len(set(zip(places.ravel(), labels, strict=True))) == places.max() + 1
