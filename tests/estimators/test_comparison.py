from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._calibration import calibrated
from blockbasis.estimators._comparison import Comparison, no_worse
from blockbasis.estimators._metric_learning import Sample, tuned


def halves(classes=None, n=200, weights=None):
    """Two samples of the same problem: of a function, or of one column for each class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.3 * rng.normal(size=n)
    if classes is None:
        Y = f[:, np.newaxis]
    elif classes == 2:
        Y = np.where(f[:, np.newaxis] > 0, 1.5, -0.5)
    else:
        Y = np.where(np.digitize(f, [-0.5, 0.5])[:, np.newaxis] == np.arange(3), 2.0, -1.0)
    weights = (None, None) if weights is None else (weights[: n // 2], weights[n // 2 :])
    return Sample(X[: n // 2], Y[: n // 2], weights[0]), Sample(X[n // 2 :], Y[n // 2 :], weights[1])


def values_of(Y):
    return np.stack((Y.min(axis=0), Y.max(axis=0)))


def test_squared_residuals_of_targets():
    sample, others = halves()
    fitted = tuned(sample, bb.Gaussian(1.0), np.ones(2))
    left_out, elsewhere = Comparison(sample, others).losses(fitted, [fitted])
    np.testing.assert_array_equal(left_out, fitted.losses)
    values = fitted.whole_kernel()(others.X, sample.X) @ fitted.coefficients
    np.testing.assert_allclose(elsewhere, (values - others.Y)[:, 0] ** 2)
    assert Comparison(sample).losses(fitted, [fitted])[1] is None


@pytest.mark.parametrize("classes", [2, 3])
def test_log_losses_of_classes(classes):
    """Decision values are in units in which targets are 1 and -1."""
    sample, others = halves(classes)
    fitted = tuned(sample, bb.Gaussian(1.0), np.ones(2))
    comparison = Comparison(sample, others, values_of(sample.Y))
    left_out, elsewhere = comparison.losses(fitted, [fitted, fitted])
    low, high = values_of(sample.Y)
    scaled = 2 * (sample.Y - fitted.left_out - low) / (high - low) - 1
    labels = (sample.Y[:, 0] > 0).astype(int) if classes == 2 else sample.Y.argmax(axis=1)
    np.testing.assert_allclose(left_out, calibrated(scaled, labels, None).losses(scaled, labels), rtol=1e-5)
    assert left_out.mean() < np.log(classes) and elsewhere.mean() < np.log(classes)
    np.testing.assert_array_equal(Comparison(sample, None, values_of(sample.Y)).losses(fitted, [fitted])[0], left_out)


@pytest.mark.parametrize("classes", [None, 3])
def test_weights_are_counts(classes):
    sample, others = halves(classes, weights=np.full(200, 3.0))
    plain, other = halves(classes)
    values = None if classes is None else values_of(plain.Y)
    fitted = tuned(plain, bb.Gaussian(1.0), np.ones(2))
    weighed = Comparison(sample, others, values).losses(fitted, [fitted])
    for own, each in zip(Comparison(plain, other, values).losses(fitted, [fitted]), weighed, strict=True):
        np.testing.assert_allclose(each, own, rtol=1e-5)


def test_no_worse_is_within_a_standard_error():
    losses = np.random.default_rng(0).uniform(size=100)
    assert no_worse(losses, losses)
    assert no_worse(losses - 1, losses)
    assert not no_worse(losses + 0.1, losses)
    assert no_worse(losses + np.random.default_rng(1).normal(size=100), losses + 0.05)
