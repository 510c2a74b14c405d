from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._ridge_path import Record, RidgePath, check_alphas, cv_results


@pytest.fixture(scope="module")
def A(points):
    return bb.factorize(points, bb.Gaussian(0.5), n_clusters=3, rank=10, diagonal=False, rng=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_and_residuals_are_those_of_dense_systems(A, weighted):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(160, 3))
    weights = rng.uniform(0.5, 2, size=160) if weighted else None
    path = RidgePath(A, Y, weights)
    for alpha in (np.array([0.1, 1.0, 0.1]), np.full(3, 0.01), np.array([5.0, 0.1, 0.01])):
        coefficients, left_out = path.solve(alpha)
        for target, ridge in enumerate(alpha):
            inverse = np.linalg.inv(A.todense() + np.diag(ridge / (np.ones(160) if weights is None else weights)))
            np.testing.assert_allclose(coefficients[:, target], inverse @ Y[:, target], rtol=1e-6, atol=1e-7)
            expected = inverse @ Y[:, target] / np.diagonal(inverse)
            np.testing.assert_allclose(left_out[:, target], expected, rtol=1e-6, atol=1e-8)


def test_alphas_are_candidates_or_one_for_each_target():
    assert [each.tolist() for each in check_alphas([0.1, 2], 2, caller="f")] == [[0.1, 0.1], [2, 2]]
    assert [each.tolist() for each in check_alphas(np.array([0.1, 2]), 2, caller="f")] == [[0.1, 2]]
    assert [each.tolist() for each in check_alphas(0.5, 3, caller="f")] == [[0.5] * 3]
    assert [each.tolist() for each in check_alphas(np.array(0.5), 1, caller="f")] == [[0.5]]


@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        ([], ValueError, "must be a list of at least one"),
        (np.ones(3), ValueError, r"must be an array of shape \(2,\), one ridge for each target.* shape \(3,\)"),
        (np.array([1.0, -1.0]), ValueError, "must be a positive"),
        ([1.0, "a"], TypeError, "must be a positive"),
        (0.0, ValueError, "must be a positive"),
    ],
)
def test_bad_alphas(alpha, error, message):
    with pytest.raises(error, match=f"The 'alpha' parameter of f {message}"):
        check_alphas(alpha, 2, caller="f")


def test_records_are_shown_as_scikit_learn_shows_them():
    records = [
        Record(None, np.array([1.0, 2.0]), -0.5),
        Record(0.5, np.array([1.0, 1.0]), -0.1),
        Record(2.0, np.array([3.0, 3.0]), -0.5),
    ]
    found = cv_results(records)
    np.testing.assert_array_equal(found["param_bandwidth"], [np.nan, 0.5, 2.0])
    np.testing.assert_array_equal(found["param_alpha"], [np.nan, 1.0, 3.0])
    np.testing.assert_array_equal(found["rank_test_score"], [2, 1, 2])
