from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators import _search
from blockbasis.estimators._attempt import Attempt
from blockbasis.estimators._columns import as_they_are, heavy_tails, standardized
from blockbasis.estimators._search import Task, importances, sample_sizes, search
from blockbasis.estimators._trials import Candidate


def task(seed=0, n=250, **settings):
    """The second of four columns decides."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 5, 1, 20]
    y = np.sin(X[:, 1] / 3) + 0.05 * rng.normal(size=n)
    return Task(X, (y - y.mean())[:, np.newaxis], None, (standardized(X, None),), **settings)


@pytest.mark.parametrize("seed", range(3))
def test_the_metric_that_sees_the_column_that_decides_wins(seed):
    given = task(seed)
    found = search(
        given, [Candidate(bb.Gaussian(1.0), kind) for kind in ("none", "diagonal")], np.random.default_rng(0)
    )
    assert found.trial.candidate.metric == "diagonal"
    assert importances(found.metric, given.X).argmax() == 1
    best = min(trial.error for trial in found.trials if trial.stage == found.trial.stage)
    assert found.trial.error == best


def test_a_search_by_several_threads_finds_the_same():
    """Trials and their order do not depend on the number of threads."""
    candidates = [Candidate(family(1.0), kind) for family in (bb.Gaussian, bb.Laplacian) for kind in ("none", "full")]
    one, several = (search(task(sums=True, n_jobs=n), candidates, np.random.default_rng(0)) for n in (1, 3))
    assert [trial.candidate for trial in one.trials] == [trial.candidate for trial in several.trials]
    for trial, other in zip(one.trials, several.trials, strict=True):
        np.testing.assert_array_equal(trial.losses, other.losses)
    np.testing.assert_array_equal(one.metric, several.metric)


def test_samples_grow_up_to_a_largest_and_shrink_with_the_time():
    assert sample_sizes(100) == [100]
    sizes = sample_sizes(10**6)
    assert sizes == sorted(sizes) and len(sizes) == 3
    assert sample_sizes(10**7) == sizes
    assert sample_sizes(10**6, 1.0, 6)[-1] < sizes[-1]
    assert sample_sizes(10**6, 1e-9, 6) == [200]  # fewer rows tell nothing


def test_time_that_has_run_out_leaves_a_result():
    found = search(
        task(seconds=1e-9),
        [Candidate(bb.Gaussian(1.0), "none"), Candidate(bb.Gaussian(1.0), "full")],
        np.random.default_rng(0),
    )
    assert math.isfinite(found.trial.error)
    assert any("no time" in trial.failure for trial in found.trials[1:])


def test_importances_sum_to_one():
    X = np.random.default_rng(0).normal(size=(100, 2)) * [1, 3]
    np.testing.assert_allclose(importances(np.array([3.0, 1.0]), X / X.std(axis=0)), [0.9, 0.1])
    np.testing.assert_allclose(importances(np.array([[1.0, 0.0], [1.0, 0.0]]), X), [1, 0])
    np.testing.assert_array_equal(importances(np.ones(2), np.ones((4, 2))), np.zeros(2))


def heavy_task(function, n=400):
    """Two columns, the first with a few values far out."""
    rng = np.random.default_rng(0)
    X = np.stack([np.exp(3 * rng.normal(size=n)), rng.normal(size=n)], axis=1)
    Y = function(X)[:, np.newaxis]
    views = (standardized(X, None), as_they_are(X, None), standardized(X, None, heavy_tails(X)))
    return Task(X, (Y - Y.mean()) / Y.std(), None, views)


@pytest.mark.parametrize("kinds", [("none",), ("none", "diagonal"), ("full",)])
def test_columns_are_seen_as_leave_one_out_tells(kinds):
    candidates = [Candidate(bb.Gaussian(1.0), kind) for kind in kinds]
    drawn_in = heavy_task(lambda X: np.sin(2 * np.log(X[:, 0])) + X[:, 1])
    assert search(drawn_in, candidates, np.random.default_rng(0)).view is drawn_in.views[2]
    alike = heavy_task(lambda X: X[:, 1])
    found = search(alike, candidates, np.random.default_rng(0))
    if kinds != ("none",):  # a metric forgets the first column, however it is seen
        assert found.view is alike.views[0]


def test_no_view_that_can_be_fitted_leaves_the_first():
    given = heavy_task(lambda X: X[:, 1])
    found = search(replace(given, seconds=1e-9), [Candidate(bb.Gaussian(1.0), "none")], np.random.default_rng(0))
    assert found.view is given.views[0]


def test_classes_are_compared_by_the_log_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    Y = np.where(X[:, :1] > 0, 1.0, -1.0)
    given = Task(X, Y - Y.mean(), None, (standardized(X, None),), classes=True)
    found = search(given, [Candidate(bb.Gaussian(1.0), "diagonal")], np.random.default_rng(0))
    assert found.trial.error < math.log(2) / 2
    assert found.score(found.trial) == -found.trial.error


def test_the_comparison_of_views_is_the_first_stage_of_its_candidates(monkeypatch):
    attempts = []

    def counting(candidate, comparison, *others):
        attempts.append((candidate, len(comparison.sample.X)))
        return Attempt(candidate, comparison, *others)

    monkeypatch.setattr(_search, "Attempt", counting)
    candidates = [Candidate(bb.Gaussian(1.0), kind) for kind in ("none", "diagonal", "full")]
    given = heavy_task(lambda X: X[:, 1])
    found = search(given, candidates, np.random.default_rng(0))
    smallest = min(size for _, size in attempts)
    first = [candidate.metric for candidate, size in attempts if size == smallest]
    assert sorted(first) == ["diagonal"] * 3 + ["full"] + ["none"] * 3  # once for each of the three views, and "full"
    apart = search(replace(given, views=(found.view,)), candidates, np.random.default_rng(0))
    assert [trial.error for trial in apart.trials] == [trial.error for trial in found.trials]
