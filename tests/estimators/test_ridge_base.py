"""What regression and classification share; both are tested with their own modules."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._ridge_base import in_units


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_targets_are_divided_by_their_root_mean_square(scale):
    Y = np.random.default_rng(0).normal(size=(100, 3)) * [1, 50, 0] * scale
    found = in_units(Y, None)
    np.testing.assert_allclose((found**2).mean(axis=0), [1, 1, 0])
    np.testing.assert_allclose(found[:, 0] * np.sqrt(((Y[:, 0] / scale) ** 2).mean()), Y[:, 0] / scale)


def test_weights_count_as_repetitions():
    Y = np.random.default_rng(0).normal(size=(30, 1))
    weights = np.arange(30) % 3 + 1
    np.testing.assert_allclose(
        np.repeat(in_units(Y, weights.astype(float)), weights, axis=0), in_units(np.repeat(Y, weights, axis=0), None)
    )


@pytest.mark.parametrize("cls", [bb.KernelRidge, bb.KernelRidgeClassifier])
def test_at_least_one_weight_is_positive(cls):
    X, y = np.arange(6.0)[:, np.newaxis], [0, 1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="at least one"):  # by scikit-learn's own words in its newer versions
        cls().fit(X, y, np.zeros(6))


@pytest.mark.parametrize("cls", [bb.KernelRidge, bb.KernelRidgeClassifier])
@pytest.mark.parametrize("settings", [{"bandwidth": 1.0}, {"kernel": "laplacian"}], ids=str)
def test_gamma_is_the_bandwidth_of_a_gaussian(cls, settings):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    of_gamma, of_bandwidth = (cls(1.0, **each).fit(X, y) for each in ({"gamma": 4.0}, {"bandwidth": 0.5}))
    np.testing.assert_allclose(of_gamma.dual_coef_, of_bandwidth.dual_coef_)
    with pytest.raises(ValueError, match="'gamma' parameter of .* goes with kernel='rbf' and without a bandwidth"):
        cls(1.0, gamma=4.0, **settings).fit(X, y)


def test_a_second_fit_forgets_what_only_the_first_had():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40.0)
    model = bb.KernelRidge([0.1, 1.0], metric="diagonal", random_state=0).fit(X, y)
    assert hasattr(model, "cv_results_") and hasattr(model, "metric_")
    model.set_params(alpha=1.0, metric=None, keep_points=False).fit(X, y)
    assert not any(hasattr(model, name) for name in ("cv_results_", "metric_", "dual_coef_", "X_fit_"))
