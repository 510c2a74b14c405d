from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.experiments import Part, Result, compare


def test_errors_are_those_of_the_methods(points, relative):
    result = compare(points, bb.Gaussian(0.3), methods=["svd", "nystrom"], budgets=[10], runs=2)
    (svd,) = result.where(method="svd")
    values = np.linalg.eigvalsh(bb.Gaussian(0.3)(points))[::-1]
    best = np.linalg.norm(values[10:]) / np.linalg.norm(values)
    assert svd["error"] == pytest.approx(best, rel=1e-6)
    assert len(result.where(method="nystrom")) == 2
    assert all(row["error"] > best and row["stored"] <= 10 for row in result.where(method="nystrom"))


def test_the_seed_alone_decides(points):
    choices = {"methods": ["bbf", "meka"], "budgets": [20], "runs": 2}
    first, again, other = (
        [row["error"] for row in compare(points, bb.Gaussian(0.3), seed=seed, **choices).rows] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_a_run_does_not_depend_on_what_else_is_compared(points):
    alone = compare(points, bb.Gaussian(0.3), methods=["meka"], budgets=[20], runs=1)
    beside = compare(points, bb.Gaussian(0.3), methods=["nystrom", "meka"], budgets=[10, 20], runs=3)
    assert alone.rows[0]["error"] == beside.where(method="meka", floats=20, run=0)[0]["error"]


def test_the_result_says_what_it_is_of(points):
    (row,) = compare(points, bb.Gaussian(0.3), methods=["svd"], budgets=[10]).rows
    assert (row["points"], row["columns"], row["kernel"]) == (*points.shape, "Gaussian(bandwidth=0.3)")
    (row,) = compare(points, lambda X, Y: np.ones((len(X), len(Y))), methods=["svd"], budgets=[10]).rows
    assert row["kernel"] == "CallableKernel"  # no address, which would change the random numbers


def test_what_a_method_cannot_do_is_noted(points):
    def kernel(X, Y):
        return bb.Gaussian(0.3)(X, Y)

    result = compare(points, kernel, methods=["bbf", "random-features"], budgets=[10], runs=1)
    (row,) = result.where(method="random-features")
    assert "random-features, 10 floats per point" in row["note"]
    assert "error" not in row
    assert result.verdict().holds


def test_the_verdict_names_who_is_better(points):
    result = compare(points, bb.Gaussian(0.3), methods=["svd", "nystrom"], budgets=[10], runs=1)
    assert result.verdict().sentence == "at 10 floats per point SVD is best."
    assert not result.verdict().holds


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"methods": ["ifgt"]}, "'methods' parameter of compare must be one of"),
        ({"budgets": [2]}, "'budgets' parameter of compare must be an integer of at least 3"),
        ({"runs": 0}, "'runs' parameter of compare"),
        ({"seed": -1}, "'seed' parameter of compare"),
    ],
)
def test_arguments_are_checked(points, choices, message):
    with pytest.raises(ValueError, match=message):
        compare(points, bb.Gaussian(0.3), **choices)


def test_points_are_checked():
    with pytest.raises(ValueError, match="free of NaN"):
        compare([[0.0, np.nan], [1.0, 2.0]], bb.Gaussian(0.3))


def test_nothing_measured_is_no_victory(points):
    result = compare(points, lambda X, Y: bb.Gaussian(0.3)(X, Y), methods=["random-features"], budgets=[10], runs=1)
    assert not result.verdict().holds
    assert result.verdict().sentence == "Nothing was measured."


def test_a_budget_that_nothing_was_measured_at_is_not_won(points):
    measured = compare(points, bb.Gaussian(0.3), methods=["bbf"], budgets=[40], runs=1)
    refused = Part({"method": "bbf", "floats": 3}, 0.0, 1.0, ({"note": "too little"},))
    assert measured.verdict().sentence == "BBF (default) is best at every budget."
    result = Result(measured.experiment, (refused, *measured.parts))
    assert result.verdict().sentence == "BBF (default) is best at 40 floats per point."
