from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.utils.class_weight import compute_sample_weight

import blockbasis as bb

COMPRESSED = {"n_clusters": 5, "rank": 25, "random_state": 0}


def test_values_are_those_of_one_regression_for_each_class(classes):
    X, y, X_new, y_new = classes
    model = bb.KernelRidgeClassifier(0.1, bandwidth=0.5, **COMPRESSED).fit(X, y)
    values = model.decision_function(X_new)
    for c, label in enumerate(model.classes_):
        target = np.where(y == label, 1.0, -1.0)
        regression = bb.KernelRidge(0.1, bandwidth=0.5, **COMPRESSED).fit(X, target - target.mean())
        np.testing.assert_allclose(values[:, c], regression.predict(X_new) + target.mean(), atol=1e-8)
    assert (model.predict(X_new) == model.classes_[values.argmax(axis=1)]).all()
    assert model.score(X_new, y_new) > 0.85


def test_two_classes_have_one_value(classes):
    X, y, X_new, _ = classes
    labels = y == "left"
    model = bb.KernelRidgeClassifier(0.1, bandwidth=0.5, **COMPRESSED).fit(X, labels)
    values = model.decision_function(X_new)
    assert values.shape == (100,) and model.dual_coef_.shape == (400,)
    np.testing.assert_array_equal(model.predict(X_new), values > 0)


def test_class_weights_are_sample_weights(classes):
    X, y, X_new, _ = classes
    weights = np.linspace(0.5, 2, len(y))
    balanced = bb.KernelRidgeClassifier(0.1, class_weight="balanced", **COMPRESSED).fit(X, y, weights)
    by_hand = bb.KernelRidgeClassifier(0.1, **COMPRESSED).fit(X, y, weights * compute_sample_weight("balanced", y))
    np.testing.assert_allclose(balanced.decision_function(X_new), by_hand.decision_function(X_new), atol=1e-12)


def left_out_values(X, y, alpha, bandwidth):
    """Values of each point from the regressions without it, one class after the other, densely."""
    K = bb.Gaussian(bandwidth)(X)
    columns = []
    for label in np.unique(y):
        target = np.where(y == label, 1.0, -1.0)
        inverse = np.linalg.inv(K + alpha * np.eye(len(y)))
        columns.append(target - inverse @ (target - target.mean()) / np.diagonal(inverse))
    return np.stack(columns, axis=1)


def test_one_bandwidth_is_chosen_by_leave_one_out_accuracy(classes):
    X, y, _, _ = classes
    bandwidths = [0.05, 0.4, 3.0]
    model = bb.KernelRidgeClassifier(0.1, bandwidth=bandwidths).fit(X, y)
    labels = np.unique(y)
    accuracies = [np.mean(labels[left_out_values(X, y, 0.1, h).argmax(axis=1)] == y) for h in bandwidths]
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], accuracies)
    assert model.bandwidth_ == bandwidths[int(np.argmax(accuracies))]


def test_no_class_has_a_better_bandwidth_beside_those_of_the_others(classes):
    X, y, X_new, _ = classes
    bandwidths = [0.1, 0.4, 3.0]
    model = bb.KernelRidgeClassifier(0.1, bandwidth="per-class", bandwidths=bandwidths).fit(X, y)
    left_out = {h: left_out_values(X, y, 0.1, h) for h in bandwidths}

    def f1(*of_classes):
        values = np.stack([left_out[h][:, c] for c, h in enumerate(of_classes)], axis=1)
        return f1_score(y, np.unique(y)[values.argmax(axis=1)], average=None)

    alike = np.array([f1(h, h, h) for h in bandwidths])
    np.testing.assert_allclose(model.cv_results_["class_scores"], alike, atol=1e-12)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], alike.mean(axis=1), atol=1e-12)
    reached = f1(*model.bandwidth_).mean()
    assert reached > alike.mean(axis=1).max() and len(set(model.bandwidth_)) > 1
    for c in range(3):
        for h in bandwidths:
            assert f1(*np.where(np.arange(3) == c, h, model.bandwidth_)).mean() <= reached
    # Every class's values are those of a classifier with its bandwidth alone.
    values = model.decision_function(X_new)
    for c, bandwidth in enumerate(model.bandwidth_):
        alone = bb.KernelRidgeClassifier(0.1, bandwidth=float(bandwidth)).fit(X, y)
        np.testing.assert_allclose(values[:, c], alone.decision_function(X_new)[:, c], atol=1e-8)


def test_classes_share_the_factorization_of_a_bandwidth(classes, monkeypatch):
    X, y, _, _ = classes
    made = []
    original = bb.KernelRidgeClassifier._factorize
    monkeypatch.setattr(bb.KernelRidgeClassifier, "_factorize", lambda *args: made.append(args) or original(*args))
    model = bb.KernelRidgeClassifier([0.1, 1.0], bandwidth="per-class", bandwidths=[0.2, 0.5], **COMPRESSED).fit(X, y)
    assert len(made) == 2
    assert sum(len(group) for group in model.groups_) == 3 and len(model.groups_) <= 2


def test_far_from_all_points_the_largest_class_wins(classes):
    X, y, _, _ = classes
    model = bb.KernelRidgeClassifier(**COMPRESSED).fit(X, y)
    labels, counts = np.unique(y, return_counts=True)
    assert model.predict([[1e4, -1e4]])[0] == labels[counts.argmax()]


def test_zero_weights_leave_points_out(classes):
    X, y, X_new, _ = classes
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    weighted = bb.KernelRidgeClassifier(0.1).fit(X, y, weights)
    removed = bb.KernelRidgeClassifier(0.1).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(weighted.decision_function(X_new), removed.decision_function(X_new), atol=1e-10)
    assert (weighted.dual_coef_[weights == 0] == 0).all() and len(weighted.dual_coef_) == len(y)


def test_bad_input(classes):
    X, y, X_new, _ = classes
    with pytest.raises(ValueError, match="at least two classes. Got one class"):
        bb.KernelRidgeClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="Unknown label type"):
        bb.KernelRidgeClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="goes with bandwidth='per-class' only"):
        bb.KernelRidgeClassifier(bandwidths=[1.0]).fit(X, y)
    with pytest.raises(ValueError, match="'class_weight' parameter of KernelRidgeClassifier must be positive"):
        bb.KernelRidgeClassifier(class_weight={"left": 0.0}).fit(X, y)
    with pytest.raises(NotFittedError):
        bb.KernelRidgeClassifier().decision_function(X_new)
