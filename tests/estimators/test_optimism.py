from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._metric_learning import Sample, regression, rounds, tuned
from blockbasis.estimators._optimism import optimism
from blockbasis.estimators._trials import Candidate, Trial
from tests.repeating import first_of

FAMILY = bb.Gaussian(1.0)


def few_of_many(n, d, seed):
    """A smooth function of three of many columns, and some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def trial_of(sample, metric):
    best = tuned(sample, FAMILY, np.ones(sample.X.shape[1]))
    if metric != "none":
        for better in rounds(sample, best, metric, 6):
            best = better
    return Trial(Candidate(FAMILY, metric), 0, len(sample.X), 0.0, best)


@pytest.mark.slow
def test_intervals_cover_new_targets_where_a_metric_of_many_columns_was_learned():
    """On average over samples: the coverage of one sample differs from this by some hundredths."""
    covered = np.zeros((4, 2))
    for seed in range(4):
        X, y = few_of_many(1500, 100, seed)
        model = bb.KernelRidgeCV(random_state=seed).fit(X[:1000], y[:1000])
        for place, coverage in enumerate((0.8, 0.95)):
            lower, upper = model.predict_interval(X[1000:], coverage=coverage)
            covered[seed, place] = np.mean((lower <= y[1000:]) & (y[1000:] <= upper))
    np.testing.assert_allclose(covered.mean(axis=0), [0.8, 0.95], atol=0.03)


@pytest.mark.parametrize("seed", first_of(range(5), 2))
def test_scaled_residuals_are_nearer_to_those_at_new_points(seed):
    """Not equal: where a metric fits the targets of a small sample by chance, the factor is too small."""
    X, y = few_of_many(1600, 60, seed)
    y = y - y[:600].mean()
    sample = Sample(X[:600], y[:600, np.newaxis])
    trial = trial_of(sample, "full")
    fitted = trial.regression
    missed = y[600:] - fitted.whole_kernel()(X[600:], X[:600]) @ fitted.coefficients[:, 0]
    ratio = np.sqrt(np.mean(missed**2) / fitted.error)
    assert ratio > 1.15
    assert abs(np.log(optimism(trial, sample) / ratio)) < np.log(ratio)


def test_residuals_without_a_metric_are_not_scaled():
    X, y = few_of_many(200, 5, 0)
    sample = Sample(X, (y - y.mean())[:, np.newaxis])
    assert optimism(trial_of(sample, "none"), sample) == 1.0


def test_residuals_are_not_scaled_where_there_is_no_time_or_no_regression():
    X, y = few_of_many(200, 5, 0)
    sample = Sample(X, (y - y.mean())[:, np.newaxis])
    trial = trial_of(sample, "diagonal")
    assert optimism(trial, Sample(sample.X, sample.Y, deadline=0.0)) == 1.0
    assert optimism(Trial(trial.candidate, 0, 200, 0.0, None), sample) == 1.0


def test_a_constant_target_and_weights_give_a_finite_factor():
    X, y = few_of_many(150, 4, 0)
    weights = np.linspace(0.5, 2.0, 150)
    sample = Sample(X, (y - y.mean())[:, np.newaxis], weights)
    assert 1.0 <= optimism(trial_of(sample, "full"), sample) < 3.0
    exact = Sample(X, np.zeros((150, 1)))
    place = trial_of(sample, "full").regression
    nothing = regression(exact, FAMILY, place.metric, place.place)
    assert optimism(Trial(Candidate(FAMILY, "full"), 0, 150, 0.0, nothing), exact) == 1.0
