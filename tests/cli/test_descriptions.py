from __future__ import annotations

import pytest

import blockbasis as bb
from blockbasis.cli import descriptions
from blockbasis.tables.scorecard import Score, Scorecard


@pytest.fixture(scope="module")
def A(points):
    return bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, tol=0.1, rng=0)


def test_the_numbers_of_a_factorization_are_its_own(A):
    facts = descriptions.factorization_facts(A)
    assert facts["points"] == 160
    assert facts["clusters"] == 4
    assert facts["bytes"] == A.nbytes
    assert facts["dense_bytes"] == 8 * 160**2
    assert facts["error"] == A.error_estimate.value


def test_lines_of_a_factorization_begin_with_its_error(A):
    lines = descriptions.factorization_lines(descriptions.factorization_facts(A))
    assert lines[0].startswith(f"  relative error  {A.error_estimate.value:.2e}")


def test_lines_of_a_factorization_without_an_estimate_have_no_error(points):
    facts = descriptions.factorization_facts(bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=5, rng=0))
    assert facts["error"] is None
    assert not any("relative error" in line for line in descriptions.factorization_lines(facts))


def test_the_best_model_of_a_scorecard_is_bold():
    card = Scorecard("RMSE", 10, (Score("ours", 1.0, 0.1), Score("mean", 2.0, 0.1)), None, "")
    ours, mean = descriptions.scorecard_table(card).columns[1].cells
    assert ours.startswith("[bold]")
    assert not mean.startswith("[bold]")


def test_large_factors_are_written_out():
    facts = {"clusters": 2, "ranks": [1, 2], "bytes": 10, "dense_bytes": 15_990, "floats_per_point": 1.0}
    lines = descriptions.factorization_lines({**facts, "points": 9, "entries": 1, "error": None})
    assert lines[2].endswith("16 kB, 1,599 times as much")
    assert descriptions.rounded("Matern(bandwidth=0.1234567891e-7, nu=1.5)") == "Matern(bandwidth=1.23457e-08, nu=1.5)"
