from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.streaming.functions import BasisFunctions


@pytest.fixture(scope="module")
def problem():
    """Points, targets, weights, basis functions, and the dense matrix of the functions at the points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    functions = BasisFunctions.of(bb.factorize(X, bb.Gaussian(2.0), n_clusters=4, rank=12, diagonal=False, rng=0))
    U, starts = np.zeros((600, 48)), 12 * np.arange(4)
    for each in functions.at(X, 1):
        U[np.ix_(each.rows, starts[each.cluster] + np.arange(12))] = each.values
    return X, rng.normal(size=(600, 2)) + 1.0, rng.uniform(0.1, 2.0, 600), functions, U


def dense_weights(U, C, Y, weights, alpha):
    """The minimum of the sum of squares plus alpha wᵀ C⁻¹ w, in the form that needs no inverse of C."""
    K = U @ C @ U.T + np.diag(alpha / weights)
    return C @ U.T @ np.linalg.solve(K, Y)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_solution_is_that_of_the_dense_problem(weighted, problem):
    X, Y, weights, functions, U = problem
    sums = RidgeSums.of(functions, X, Y, weights if weighted else None, 1)
    own = weights if weighted else np.ones(600)
    center = np.average(Y, axis=0, weights=own)
    np.testing.assert_allclose(sums.mean(), center, atol=1e-12)
    found = np.concatenate(sums.solve(functions.inner, np.array([0.1, 3.0]), center))
    for column, alpha in enumerate([0.1, 3.0]):
        expected = dense_weights(U, functions.inner.todense(), Y - center, own, alpha)[:, column]
        np.testing.assert_allclose(U @ found[:, column], U @ expected, atol=1e-8)


def test_parts_are_added_and_subtracted(problem):
    X, Y, weights, functions, _ = problem
    whole = RidgeSums.of(functions, X, Y, weights, 1)
    first, second = (
        RidgeSums.of(functions, X[part], Y[part], weights[part], 2) for part in np.split(np.arange(600), 2)
    )
    for added in (first.plus(second), whole.plus(second, -1).plus(second)):
        for name in ("grams", "moments", "totals"):
            for one, other in zip(getattr(added, name), getattr(whole, name), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        assert added.n_rows == 600 and added.weight == pytest.approx(whole.weight)


def test_few_points_give_a_singular_but_solvable_sum(problem):
    X, Y, _, functions, U = problem
    sums = RidgeSums.of(functions, X[:5], Y[:5], None, 1)
    found = np.concatenate(sums.solve(functions.inner, np.full(2, 0.1), np.zeros(2)))
    expected = dense_weights(U[:5], functions.inner.todense(), Y[:5], np.ones(5), 0.1)
    np.testing.assert_allclose(U[:5] @ found, U[:5] @ expected, atol=1e-8)


def test_what_the_points_explain_is_that_of_the_dense_prior(problem):
    X, Y, _, functions, U = problem
    C = functions.inner.todense()
    sums = RidgeSums.of(functions, X, Y, None, 1, noise=0.2)
    lost = np.maximum(1 - np.einsum("ij,ij->i", U @ C, U), 0)
    K = U @ C @ U.T + np.diag(0.2 + lost)
    expected = U @ C @ U.T @ np.linalg.solve(K, U @ C @ U.T)
    np.testing.assert_allclose(U @ sums.explained(functions.inner) @ U.T, expected, atol=1e-7)


def test_padded_sums_have_zeros_for_new_clusters(problem):
    X, Y, _, functions, _ = problem
    other = BasisFunctions.of(bb.factorize(X + 50, bb.Gaussian(2.0), n_clusters=2, rank=5, diagonal=False, rng=0))
    padded = RidgeSums.of(functions, X, Y, None, 1).padded(functions.plus(other))
    assert [len(gram) for gram in padded.grams] == [12] * 4 + [5] * 2
    assert not any(gram.any() for gram in padded.grams[4:]) and padded.n_rows == 600


def test_far_points_are_counted(problem):
    X, Y, _, functions, _ = problem
    assert RidgeSums.of(functions, X, Y, None, 1).n_far == 0
    assert RidgeSums.of(functions, np.concatenate([X, X[:7] + 100]), Y[np.r_[:600, :7]], None, 1).n_far == 7
