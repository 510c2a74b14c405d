from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines.protocol import LowRank, check_problem, largest_within_budget


def test_a_factor_is_read_only():
    A = LowRank("some", np.ones((4, 2)))
    with pytest.raises(ValueError, match="read-only"):
        A.factor[0, 0] = 2
    np.testing.assert_array_equal(A.todense(), np.full((4, 4), 2.0))
    assert repr(A) == "LowRank(some, 4 x 4, 2.0 floats per point, float64)"


def test_a_problem_is_in_double_precision(points):
    problem = check_problem(points.astype(np.float32), bb.Gaussian(1.0), None, 5, 0, caller="test")
    assert problem.matrix.dtype == np.float64
    assert problem.dtype == np.float32
    assert problem.budget_rank == problem.rank_limit == 5


def test_columns_within_a_budget(points):
    problem = check_problem(points, bb.Gaussian(1.0), 160 * 200 + 159, None, 0, caller="test")
    assert problem.budget_rank == 200
    assert problem.rank_limit == 160


@pytest.mark.parametrize("memory", [480, 1000, 5000])
def test_the_largest_number_within_a_budget(points, memory):
    problem = check_problem(points, bb.Gaussian(1.0), memory, None, 0, caller="test")
    found = largest_within_budget(lambda m: m * m, problem, 60, "test")
    assert found == min(60, int(memory**0.5))
