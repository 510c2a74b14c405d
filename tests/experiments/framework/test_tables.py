from __future__ import annotations

from blockbasis.experiments import EXPERIMENTS, Part, Result, Table
from blockbasis.experiments.framework.tables import pivot_table


def test_means_over_runs_by_two_columns():
    rows = [
        {"floats": 50, "error": 0.5},
        {"floats": 20, "error": 0.1},
        {"floats": 20, "error": 0.3},
        {"note": "no error"},
    ]
    parts = (
        Part({"method": "svd"}, 0.0, 1.0, tuple(rows)),
        Part({"method": "meka"}, 0.0, 1.0, ({"floats": 50, "error": None},)),
    )
    result = Result(EXPERIMENTS["error-vs-memory"], parts)
    found = pivot_table(
        result, "Errors", down="method", across="floats", value="error", names={"svd": "SVD", "meka": "M"}
    )
    expected = (("SVD", "0.2", "0.5"), ("M", "-", "overflow"))
    assert found == Table("Errors", ("method \\ floats", "20", "50"), expected)


def test_counts_have_all_their_digits():
    values = {1: 4177, 2: 2190.4, 3: 0.01234, 4: 1.31e27}
    parts = (Part({"h": 4.0}, 0.0, 1.0, tuple({"tol": tol, "rank": value} for tol, value in values.items())),)
    found = pivot_table(Result(EXPERIMENTS["rank-vs-bandwidth"], parts), "Ranks", down="h", across="tol", value="rank")
    assert found.rows == (("4", "4177", "2190", "0.0123", "1.31e+27"),)


def test_nothing_measured_has_no_tables():
    assert all(Result(experiment, ()).tables() == [] for experiment in EXPERIMENTS.values())
