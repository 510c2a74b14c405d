from __future__ import annotations

import numpy as np

from blockbasis.tables import Table, check_data, check_points, prepare_table


def findings(X, y, **choices):
    names = (*(f"x{i}" for i in range(X.shape[1])), "y")
    return check_data(prepare_table(Table(names, (*X.T, y)), "y", **choices))


def test_good_data_have_no_findings():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    assert findings(X, X.sum(axis=1)) == []


def test_a_column_that_holds_the_answer_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    assert "'x1' alone explains" in findings(X, np.exp(X[:, 1]))[0]
    classes = np.where(X[:, 0] > 0, "up", "down").astype(object)
    assert "'x0' alone explains" in findings(X, classes)[0]


def test_repeated_rows_and_constant_columns():
    X = np.repeat(np.random.default_rng(0).normal(size=(50, 2)), 2, axis=0)
    X[:, 1] = 3
    found = findings(X, np.random.default_rng(1).normal(size=100), test_size=0)
    assert found == ["Not used: x1, it is constant.", "50 of 100 training rows repeat the columns of another row."]


def test_few_rows_and_rare_classes_are_not_tried():
    X = np.arange(40.0)[:, np.newaxis]
    assert findings(X[:20], X[:20, 0]) == []
    rare = np.array(["a"] * 38 + ["b"] * 2, dtype=object)
    assert findings(X, rare) == []


def test_constant_columns_and_repeated_points_are_found():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert check_points(X) == []
    X[:, 1] = 2.0
    X[7] = X[3]
    X[8] = X[3]
    assert check_points(X) == ["Column 1 is constant: it makes no difference.", "2 of 50 points repeat another."]
