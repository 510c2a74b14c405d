from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg

import blockbasis as bb
from blockbasis.estimators._attempt import Attempt, WithoutMetric, place_of, without_metric
from blockbasis.estimators._comparison import Comparison
from blockbasis.estimators._metric_learning import FREE, START, Grid, OutOfTime, Sample, regression, tuned
from blockbasis.estimators._trials import Candidate


def test_a_metric_that_rounds_lose_is_taken_up_again():
    """The gradients of a regression that has learnt nothing point nowhere; the metric of the stage before does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10))
    Y = np.sin(3 * X[:, :1])
    kernel, length = bb.Gaussian(1.0), np.r_[1.0, np.full(9, 1e-3)]
    sample = Sample(X, Y - Y.mean())
    flat = regression(sample, kernel, np.ones(10), (6, 3))
    before = tuned(sample, kernel, length)
    plain = WithoutMetric(flat, 0.0)
    attempt = Attempt(Candidate(kernel, "diagonal"), Comparison(sample), FREE, before, plain)
    assert flat.error > 10 * before.error
    assert attempt.trial(1).error <= 1.01 * before.error
    alone = replace(attempt, before=None, grid=Grid((64.0,))).trial(0)
    assert alone.error > 10 * before.error


def test_a_family_that_fails_fails_in_all_of_its_trials():
    rng = np.random.default_rng(0)
    sample = Sample(rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), deadline=0.0)
    late = without_metric(sample, bb.Gaussian(1.0), START, FREE)
    assert isinstance(late.outcome, OutOfTime) and place_of(late) == place_of(None) == START
    with pytest.raises(OutOfTime):
        late.regression()
    for outcome, reason in ((late.outcome, "no time"), (linalg.LinAlgError("not definite"), "not definite")):
        plain = WithoutMetric(outcome, 0.0)
        trial = Attempt(Candidate(bb.Gaussian(1.0), "full"), Comparison(sample), FREE, None, plain).trial(0)
        assert trial.regression is None and reason in trial.failure


def test_the_time_of_a_trial_without_a_metric_is_that_of_its_regression():
    rng = np.random.default_rng(0)
    sample = Sample(rng.normal(size=(30, 2)), rng.normal(size=(30, 1)))
    plain = replace(without_metric(sample, bb.Gaussian(1.0), START, FREE), seconds=100.0)
    attempt = Attempt(Candidate(bb.Gaussian(1.0), "none"), Comparison(sample), FREE, None, plain)
    trial = attempt.trial(0)
    assert trial.seconds >= 100 and trial.regression is plain.outcome and place_of(plain) == trial.regression.place
