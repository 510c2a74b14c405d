from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.streaming import ArrayRows

SETTINGS = {"bandwidth": 0.5, "n_clusters": 4, "rank": 30, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def labelled():
    """4,000 points in three classes."""
    X = np.random.default_rng(1).uniform(-1, 1, size=(4000, 2))
    return X, np.where(np.hypot(*(X - 0.3).T) < 0.4, "c", np.where(X[:, 0] > 0, "b", "a"))


def learnt(X, y, **settings):
    model = bb.KernelRidgeClassifier(0.1, **(SETTINGS | settings))
    for rows in np.array_split(np.arange(len(X)), 10):
        model.partial_fit(X[rows], y[rows], classes=["a", "b", "c"])
    return model


def test_a_classifier_learns_from_chunks(labelled):
    X, y = labelled
    model = learnt(X, y)
    assert model.score(X, y) > 0.96 and model.classes_.tolist() == ["a", "b", "c"]
    probabilities = model.predict_proba(ArrayRows(X))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(probabilities.max(axis=1)) == pytest.approx(model.score(X, y), abs=0.05)
    assert model.predict(ArrayRows(X)).tolist() == model.predict(X).tolist()


def test_a_classifier_of_rows_on_disk_is_that_of_its_chunks(labelled):
    X, y = labelled
    model = bb.KernelRidgeClassifier(0.1, **SETTINGS).fit(ArrayRows(X), y)
    again = bb.KernelRidgeClassifier(0.1, **SETTINGS).partial_fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-9)


def test_two_classes_and_weights(labelled):
    X, _ = labelled
    y = X[:, 0] > 0
    model = bb.KernelRidgeClassifier(0.1, class_weight={False: 1.0, True: 5.0}, **SETTINGS)
    model.partial_fit(X, y, sample_weight=np.ones(len(X)))
    assert model.decision_function(X).shape == (4000,) and model.score(X, y) > 0.95


def test_partial_fit_goes_on_after_a_fit(labelled):
    X, y = labelled
    model = bb.KernelRidgeClassifier(0.1, **SETTINGS).fit(X[:2000], y[:2000])
    model.partial_fit(X[2000:], y[2000:])
    assert model.stream_.sums.n_rows == 4000 and model.score(X, y) > 0.96


def test_kernels_of_each_class_cannot_go_on(labelled):
    X, y = labelled
    model = bb.KernelRidgeClassifier(0.1, bandwidth="per-class", bandwidths=[0.2, 2.0], random_state=0, n_jobs=1)
    model.fit(X[:500], y[:500])
    model.expansions_ = [model.expansions_[0], bb.KernelRidge(0.1, bandwidth=3.0).fit(X[:50], X[:50, 0]).expansion_]
    with pytest.raises(ValueError, match="takes one kernel for all classes. Got 2 kernels"):
        model.partial_fit(X, y)


def test_classes_of_later_chunks_must_be_named(labelled):
    X, y = labelled
    model = bb.KernelRidgeClassifier(0.1, **SETTINGS).partial_fit(X[y != "c"], y[y != "c"])
    with pytest.raises(ValueError, match="must have the classes of the first call. Got c instead"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="at least two classes. Got one class"):
        bb.KernelRidgeClassifier(0.1).partial_fit(X[y == "a"], y[y == "a"])
    with pytest.raises(ValueError, match="'class_weight' parameter of KernelRidgeClassifier must be a dict"):
        bb.KernelRidgeClassifier(0.1, class_weight="balanced").partial_fit(X, y)


def test_a_regression_keeps_its_number_of_targets():
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = bb.KernelRidge(np.array([0.1, 1.0]), **SETTINGS).partial_fit(X, X)
    assert model.predict(X).shape == (300, 2) and model.alpha_.tolist() == [0.1, 1.0]
    with pytest.raises(ValueError, match="must have 2 targets, as in the first call. Got 1 instead"):
        model.partial_fit(X, X[:, 0])


def test_weights_count_as_repeated_points():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    counts = rng.integers(0, 3, 400)
    first = bb.KernelRidge(0.1, **SETTINGS).partial_fit(X, y).partial_fit(X, y, sample_weight=counts)
    second = bb.KernelRidge(0.1, **SETTINGS).partial_fit(X, y)
    second.partial_fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(first.predict(X), second.predict(X), atol=1e-8)
