from __future__ import annotations

import math

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._search import (
    Candidate,
    Task,
    column_scale,
    importances,
    name_of,
    sample_sizes,
    search,
    search_results,
)


def task(seed=0, n=250, **settings):
    """The second of four columns decides."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 5, 1, 20]
    y = np.sin(X[:, 1] / 3) + 0.05 * rng.normal(size=n)
    return Task(X, (y - y.mean())[:, np.newaxis], None, (column_scale(X, None),), **settings)


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


def test_results_rank_the_last_stage_first():
    found = search(
        task(), [Candidate(bb.Gaussian(1.0), "none"), Candidate(bb.Laplacian(1.0), "none")], np.random.default_rng(0)
    )
    results = search_results(found)
    first = results["rank_test_score"].argmin()
    assert results["iter"][first] == results["iter"].max()
    assert results["param_kernel"][first] == name_of(found.trial.candidate.family)
    assert results["param_alpha"][first] == found.alpha
    assert len({len(column) for column in results.values()}) == 1


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


def test_scales_make_columns_comparable_and_constant_ones_vanish():
    X = np.random.default_rng(0).normal(size=(300, 3)) * [1, 100, 0] + [0, 1e6, 7]
    scale = column_scale(X, None)
    np.testing.assert_allclose((X * scale).std(axis=0), [1, 1, 0], rtol=1e-9)
    assert scale[2] == 0
    np.testing.assert_array_equal(column_scale(np.ones((5, 2)), None), np.ones(2))
    repeated = np.repeat(np.arange(300), 2)
    np.testing.assert_allclose(column_scale(X, np.full(300, 2.0)), column_scale(X[repeated], None), rtol=1e-12)


def test_importances_sum_to_one():
    X = np.random.default_rng(0).normal(size=(100, 2)) * [1, 3]
    np.testing.assert_allclose(importances(np.array([3.0, 1.0]), X / X.std(axis=0)), [0.9, 0.1])
    np.testing.assert_allclose(importances(np.array([[1.0, 0.0], [1.0, 0.0]]), X), [1, 0])
    np.testing.assert_array_equal(importances(np.ones(2), np.ones((4, 2))), np.zeros(2))
