from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._columns import standardized
from blockbasis.estimators._search import Task, search
from blockbasis.estimators._trials import Candidate, name_of, search_results


@pytest.fixture
def found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 2))
    Y = np.sin(X[:, :1])
    candidates = [Candidate(bb.Gaussian(1.0), "none"), Candidate(bb.Laplacian(1.0), "none")]
    return search(Task(X, Y - Y.mean(), None, (standardized(X, None),)), candidates, rng)


def test_results_rank_the_last_stage_first(found):
    results = search_results(found)
    first = results["rank_test_score"].argmin()
    assert results["iter"][first] == results["iter"].max()
    assert results["param_kernel"][first] == name_of(found.trial.candidate.family)
    assert results["param_alpha"][first] == found.alpha
    assert len({len(column) for column in results.values()}) == 1


def test_scores_are_shares_of_the_variance(found):
    results = search_results(found)
    np.testing.assert_array_equal(results["mean_test_score"], [1 - trial.error for trial in found.trials])
    assert found.score(found.trial) > 0.9
