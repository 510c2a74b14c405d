from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

import blockbasis as bb
from blockbasis.datasets import alternating_clusters, circles_in_circle
from blockbasis.experiments.framework.classification import accuracies, f1_by_class, machine

BANDWIDTHS = [0.01, 0.1, 1.0, 10.0]


def of_scikit_learn(h):
    return SVC(C=1.0, gamma=1 / h**2)


def test_accuracies_are_those_of_scikit_learns_machine():
    X, y = alternating_clusters(300, 9, rng=np.random.default_rng(0))
    X_test, y_test = alternating_clusters(500, 9, rng=np.random.default_rng(1))
    found = accuracies(X + 100, y, X_test + 100, y_test, BANDWIDTHS)  # far from the origin
    assert found == pytest.approx([of_scikit_learn(h).fit(X, y).score(X_test, y_test) for h in BANDWIDTHS], abs=2e-3)
    assert np.ptp(found) > 0.2


def test_predictions_are_those_of_the_paper_kernel():
    X, y = circles_in_circle(300, rng=np.random.default_rng(0))
    for h in BANDWIDTHS:
        exact = SVC(C=1.0, kernel=bb.Gaussian(h)).fit(X, y)
        assert np.mean(machine(h).fit(X, y).predict(X) == exact.predict(X)) > 0.995


def test_scores_by_class_are_of_points_left_out():
    X, y = circles_in_circle(300, rng=np.random.default_rng(0))
    rows = f1_by_class(X, y, BANDWIDTHS, np.random.default_rng(3))
    folds = StratifiedKFold(5, shuffle=True, random_state=int(np.random.default_rng(3).integers(2**31)))
    for h in BANDWIDTHS:
        exact = np.mean(cross_val_predict(of_scikit_learn(h), X, y, cv=folds) == y)
        of_h = [row for row in rows if row["h"] == h]
        assert [row["class"] for row in of_h] == np.unique(y).tolist()
        assert of_h[0]["accuracy"] == pytest.approx(exact, abs=5e-3)
