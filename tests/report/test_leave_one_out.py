from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.preprocessing import StandardScaler

from blockbasis.report.leave_one_out import search_scores


def test_scores_are_those_of_leave_one_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) * [1, 50]
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    found = search_scores(X, y, "regression")
    best = int(np.argmax(found["mean_test_score"]))
    h, ridge = found["param_bandwidth"][best], found["param_alpha"][best]
    model = KernelRidge(alpha=ridge, kernel="rbf", gamma=1 / h**2)
    scaled, centred = StandardScaler().fit_transform(X), y - y.mean()
    residuals = centred - cross_val_predict(model, scaled, centred, cv=LeaveOneOut())
    assert found["mean_test_score"][best] == pytest.approx(1 - np.mean(residuals**2) / np.var(y), rel=1e-8)


def test_classes_are_scored_by_accuracy():
    X = np.random.default_rng(0).normal(size=(200, 2))
    found = search_scores(X, np.where(X[:, 0] * X[:, 1] > 0, "a", "b"), "classification", most_rows=100)
    assert 0.85 < max(found["mean_test_score"]) <= 1
    assert len(found["param_alpha"]) == 66
