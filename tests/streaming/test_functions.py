from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.streaming.functions import BasisFunctions


@pytest.fixture(scope="module")
def factorization():
    X = np.random.default_rng(0).normal(size=(1500, 2))
    return X, bb.factorize(X, bb.Gaussian(1.5), n_clusters=5, rank=40, diagonal=False, rng=0)


def features(functions, X, n_jobs=1):
    U = np.zeros((len(X), functions.inner.shape[0]))
    starts = np.concatenate([[0], np.cumsum(functions.ranks)])
    for each in functions.at(X, n_jobs):
        U[np.ix_(each.rows, np.arange(starts[each.cluster], starts[each.cluster + 1]))] = each.values
    return U


def test_the_functions_at_the_points_of_the_sample_are_its_basis(factorization):
    X, A = factorization
    functions = BasisFunctions.of(A)
    U = features(functions, X)
    np.testing.assert_allclose(U @ functions.inner.todense() @ U.T, A.todense(), atol=1e-6)


def test_the_functions_do_not_depend_on_the_other_points(factorization):
    X, A = factorization
    functions = BasisFunctions.of(A)
    together, alone = features(functions, X, 2), np.concatenate([features(functions, part) for part in np.split(X, 5)])
    np.testing.assert_allclose(together, alone, atol=1e-10 * np.abs(together).max())


def test_the_lost_variance_is_what_the_functions_do_not_hold(factorization):
    X, A = factorization
    functions = BasisFunctions.of(A)
    X_new = np.random.default_rng(1).normal(size=(200, 2)) * 2
    U, lost = features(functions, X_new), np.empty(200)
    for each in functions.at(X_new, 1):
        lost[each.rows] = each.lost
    held = np.einsum("ij,ij->i", U @ functions.inner.todense(), U)
    np.testing.assert_allclose(lost, np.maximum(1 - held, 0), atol=1e-8)
    assert (lost >= 0).all()


def test_lean_functions_have_the_same_values(factorization):
    X, A = factorization
    functions = BasisFunctions.of(A)
    np.testing.assert_array_equal(features(functions.lean(), X), features(functions, X))
    assert functions.lean().inner.nbytes < functions.inner.nbytes / 2


def test_far_points_are_outside_the_sample(factorization):
    X, A = factorization
    functions = BasisFunctions.of(A)
    assert not functions.far(X).any()
    assert functions.far(X + 100).all()
    assert all(each.far.all() for each in functions.at(X[:10] + 100, 1))


def test_two_sets_of_clusters_approximate_the_kernel_between_them(factorization):
    X, A = factorization
    rng = np.random.default_rng(2)
    other = rng.normal(size=(800, 2)) + [3.0, 0.0]
    B = bb.factorize(other, bb.Gaussian(1.5), n_clusters=3, rank=40, diagonal=False, rng=1)
    both = BasisFunctions.of(A).plus(BasisFunctions.of(B))
    points = np.concatenate([X[:300], other[:300]])
    U = features(both, points)
    exact = bb.Gaussian(1.5)(points)
    assert np.linalg.norm(U @ both.inner.todense() @ U.T - exact) < 0.02 * np.linalg.norm(exact)
    assert np.linalg.eigvalsh(both.inner.todense()).min() > -1e-8
    assert both.n_clusters == 8 and len(both.extensions) == 8
