from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators.base import candidate_bandwidths, make_kernel, median_distance
from blockbasis.estimators.expansion import Expansion


@pytest.mark.parametrize("basis", ["svd", "skeleton"])
def test_folded_weights_are_the_extension(regression, basis):
    X, _, X_new = regression
    A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=4, rank=15, basis=basis, diagonal=False, rng=0)
    coefficients = np.random.default_rng(0).normal(size=(400, 3))
    expansion = Expansion.of(A, coefficients)
    extended = A.extend(X_new)
    rows = extended.row_basis.expand(np.eye(extended.inner.shape[0]))
    variances = np.diagonal(rows @ A.inner.todense() @ rows.T)
    allowed = [max(1.0, A.diagonal()[A.partition.labels == i].max()) for i in range(4)]
    excess = variances / np.array(allowed)[extended.row_basis.partition.labels]
    assert basis == "skeleton" or excess.max() > 1.01  # some points are given more than their own variance
    expected = extended @ coefficients / np.sqrt(np.maximum(excess, 1))[:, np.newaxis]
    np.testing.assert_allclose(expansion(X_new, 1), expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_array_equal(expansion(X_new, 1), expansion(X_new, 2))
    assert expansion.n_outputs == 3


def test_no_prediction_goes_beyond_what_the_variance_of_a_point_allows(regression):
    """|f(x)|² is at most k(x, x), or what a point of the cluster has, times the squared norm of f."""
    X, _, X_new = regression
    for seed in range(3):
        A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=30, rank=10, basis="svd", diagonal=False, rng=seed)
        extended = A.extend(1.5 * X_new)
        rows = extended.row_basis.expand(np.eye(extended.inner.shape[0]))
        coefficients = A.basis.expand(rows.T)  # for each new point the function that it has most of
        norms = np.einsum("ij,ij->j", coefficients, A @ coefficients)
        allowed = max(1.0, A.diagonal().max())
        assert ((extended @ coefficients) ** 2 / norms).max() > 1.01 * allowed
        assert (Expansion.of(A, coefficients)(1.5 * X_new, 1) ** 2 / norms).max() <= allowed * (1 + 1e-9)


def test_an_uncompressed_matrix_is_the_exact_kernel(regression):
    X, _, X_new = regression
    kernel = bb.Laplacian(1.0)
    A = bb.factorize(X, kernel, n_clusters=1, rank=400, basis="skeleton", diagonal=False, rng=0)
    coefficients = np.random.default_rng(0).normal(size=(400, 1))
    np.testing.assert_allclose(Expansion.of(A, coefficients)(X_new, 1), kernel(X_new, X) @ coefficients, atol=1e-12)


def test_the_inner_matrix_is_semidefinite_as_it_comes(regression):
    X, _, _ = regression
    for h in (0.1, 1.0, 10.0):
        A = bb.factorize(X, bb.Gaussian(h), n_clusters=6, rank=20, basis="skeleton", diagonal=False, rng=0)
        values = np.linalg.eigvalsh(A.inner.todense())
        assert values[0] > -1e-12 * values[-1]


def test_median_distance_without_distances():
    rng = np.random.default_rng(0)
    assert median_distance(np.ones((5, 2)), rng) == 1.0
    assert median_distance(np.array([[0.0], [0.0], [0.0], [3.0]]), rng) == 3.0


def test_candidates_and_kernels(regression):
    X, _, _ = regression
    rng = np.random.default_rng(0)
    assert candidate_bandwidths([1.0, 2.0], "gaussian", X, rng, caller="f") == [1.0, 2.0]
    assert candidate_bandwidths(None, "gaussian", X, rng, caller="f") == [np.sqrt(3)]
    assert candidate_bandwidths(None, bb.Cauchy(0.7), X, rng, caller="f") == [0.7]
    assert candidate_bandwidths(None, bb.Gaussian(1.0).block, X, rng, caller="f") == [None]
    assert make_kernel("rational_quadratic", 2.0, caller="f") == bb.RationalQuadratic(2.0)
