from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import approximate
from blockbasis.experiments.framework import curves
from blockbasis.experiments.framework.curves import best_ranks, error_rows


def test_the_best_of_all_budgets_come_from_one_decomposition(points, relative):
    kernel = bb.Gaussian(0.3)
    values = np.linalg.eigvalsh(kernel(points))[::-1]
    best = best_ranks(points, kernel, 30, np.random.default_rng(0))
    for floats in (5, 12, 30):
        A = best(floats)
        assert (A.rank, A.stored) == (floats, floats * len(points))
        left = np.linalg.norm(values[floats:]) / np.linalg.norm(values)
        assert relative(A, kernel(points)) == pytest.approx(left, rel=1e-6)


def test_errors_of_every_budget_and_run(points):
    kernel, rng = bb.Gaussian(0.3), np.random.default_rng
    values = np.linalg.eigvalsh(kernel(points))[::-1]
    rows = error_rows(points, kernel, "svd", [10, 20], runs=3, rng=rng(0))
    assert [(row["floats"], row["run"]) for row in rows] == [(10, 0), (20, 0)]  # no seed changes it
    for row in rows:
        left = np.linalg.norm(values[row["floats"] :]) / np.linalg.norm(values)
        assert row["error"] == pytest.approx(left, rel=1e-6)
        assert row["stored"] == row["floats"]
    others = error_rows(points, kernel, "nystrom", [10, 20], runs=2, rng=rng(0))
    assert [(row["floats"], row["run"]) for row in others] == [(10, 0), (10, 1), (20, 0), (20, 1)]
    assert others[0]["error"] != others[1]["error"]
    assert min(row["error"] for row in others if row["floats"] == 20) > rows[1]["error"]


def test_errors_of_many_points_are_estimated(points):
    kernel, rng = bb.Gaussian(0.3), np.random.default_rng(0)
    A = approximate(points, kernel, "rpcholesky", rank=10, rng=rng)
    exact = curves._error_measure(points, kernel)(A, rng)
    estimate = curves._error_measure(points, kernel, exact_points=100, n_rows=80)(A, rng)
    assert exact == pytest.approx(bb.relative_error(A, points, kernel).value, rel=1e-10)
    assert estimate != exact
    assert estimate == pytest.approx(exact, rel=0.2)
