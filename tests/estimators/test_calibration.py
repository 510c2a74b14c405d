from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import blockbasis as bb
from blockbasis.estimators._calibration import Calibration, calibrated, class_targets
from tests.repeating import first_of


def noisy_classes(seed, n=3000, n_classes=3):
    """Points of classes that overlap, and the true probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    slopes = rng.normal(size=(2, n_classes)) * 1.5
    P = softmax(X @ slopes, axis=1)
    return X, (P.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1), P


def calibration_error(P, y, bins=10):
    """Expected difference between the largest probability and the share of hits, in bins of it."""
    largest, right = P.max(axis=1), P.argmax(axis=1) == y
    of = np.minimum((largest * bins).astype(int), bins - 1)
    return sum(abs(right[of == b].mean() - largest[of == b].mean()) * np.mean(of == b) for b in np.unique(of))


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_those_of_the_classes(seed, n_classes):
    X, y, P = noisy_classes(seed, n_classes=n_classes)
    model = bb.KernelRidgeClassifier(1.0, bandwidth=2.0, random_state=seed, n_jobs=1).fit(X[:1500], y[:1500])
    guessed = model.predict_proba(X[1500:])
    np.testing.assert_allclose(guessed.sum(axis=1), 1)
    np.testing.assert_array_equal(guessed.argmax(axis=1), model.predict(X[1500:]))
    assert np.abs(guessed - P[1500:]).mean() < 0.06
    assert calibration_error(guessed, y[1500:]) < 0.05
    chance = np.bincount(y[:1500]) / 1500
    rows = np.arange(1500)
    assert -np.log(guessed[rows, y[1500:]]).mean() < -np.log(chance[y[1500:]]).mean()


@pytest.mark.parametrize("settings", [{"bandwidth": "per-class", "bandwidths": [0.5, 2.0]}, {"keep_points": False}])
def test_saved_and_loaded(tmp_path, settings):
    X, y, _ = noisy_classes(0, n=400)
    model = bb.KernelRidgeClassifier(1.0, **settings).fit(X, np.array(["a", "b", "c"])[y])
    bb.save(model, tmp_path / "model.bbf")
    np.testing.assert_array_equal(bb.load(tmp_path / "model.bbf").predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_weights_are_those_of_points_given_twice():
    X, y, _ = noisy_classes(1, n=300)
    values = np.random.default_rng(0).normal(size=(300, 3))
    weights = np.where(np.arange(300) < 100, 2.0, 1.0)
    twice = np.r_[np.arange(300), np.arange(100)]
    weighted, repeated = calibrated(values, y, weights), calibrated(values[twice], y[twice], None)
    np.testing.assert_allclose(
        weighted.log_probabilities(values), repeated.log_probabilities(values), rtol=1e-4, atol=1e-6
    )


def test_classes_that_are_never_confused():
    labels = np.tile([0, 1], 20)
    made = calibrated(np.where(labels, 1.0, -1.0)[:, np.newaxis], labels, None)
    P = np.exp(made.log_probabilities(np.array([[-1.0], [0.0], [1.0]])))
    np.testing.assert_allclose(P[1], 0.5)
    assert P[0, 0] > 0.999 and P[2, 1] > 0.999


def test_values_far_out_are_finite():
    made = Calibration(100.0, 100.0)
    assert np.isfinite(made.log_probabilities(np.array([[-1e6, 0.0, 1e6]]))).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [None, 1e-3, 1e3])
def test_a_few_points_without_an_error_do_not_make_certain(n_classes, scale):
    """The next point may be the first error: with 30 points, its probability must not be one in a million."""
    labels = np.arange(30) % n_classes
    values = 0.5 * class_targets(labels, n_classes)
    found = calibrated(values, labels, None if scale is None else np.full(30, scale), cautious=True)
    wrong = np.sort(np.exp(found.log_probabilities(values)), axis=1)[:, :-1].sum(axis=1)
    assert wrong == pytest.approx(np.full(30, 1 / 32), rel=0.05)


@pytest.mark.parametrize("seed", first_of(range(6), 6))
def test_the_log_loss_of_few_points_is_not_that_of_a_certain_classifier(seed):
    X, y = load_iris(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.33, random_state=seed, stratify=y)
    model = bb.KernelRidgeClassifierCV(random_state=seed).fit(X, y)
    assert log_loss(y_test, model.predict_proba(X_test)) < 0.6
