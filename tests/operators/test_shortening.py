from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators.shortening import held_variance, largest_variances, shortened, variance_roots, within_variance


@pytest.fixture(params=[np.float64, np.float32])
def A(request, points):
    return bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=8, dtype=request.param, rng=0)


def test_roots_give_the_diagonal_blocks(A):
    for i, root in enumerate(variance_roots(A.inner)):
        block = A.inner.block(i, i).astype(np.float64)
        np.testing.assert_allclose(root @ root.T, block, atol=1e-5 * np.abs(block).max())
        assert np.linalg.matrix_rank(root) == len(root)


def test_largest_variances_are_those_of_the_points(A):
    expected = [np.diagonal(U @ A.inner.block(i, i) @ U.T).max() for i, U in enumerate(A.bases)]
    np.testing.assert_allclose(largest_variances(A.basis, A.inner), expected, rtol=1e-5)


def test_the_variance_that_coordinates_hold():
    rng = np.random.default_rng(0)
    u, root = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    np.testing.assert_allclose(held_variance(u, root), np.diagonal(u @ root @ root.T @ u.T))
    np.testing.assert_allclose(held_variance(u), (u**2).sum(axis=1))
    assert held_variance(np.array([[1e200, 1e200]]))[0] == np.inf
    assert held_variance(np.array([[np.inf, np.inf]]), np.array([[1.0], [-1.0]]))[0] == np.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_only_rows_that_hold_too_much_are_shortened(dtype):
    u = np.array([[3.0, 4.0], [0.3, 0.4], [7.0, 7.0]], dtype=dtype)
    result = shortened(u, np.array([25.0, 0.25, np.inf]), np.ones(3))
    assert result.dtype == dtype
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], rtol=1e-6)


def test_coordinates_within_the_allowed_variance_are_the_nearest():
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    values = np.array([2.0, 1.0, 0.1, 0.001])
    root, C = vectors * np.sqrt(values), (vectors * values) @ vectors.T
    c = 2 * rng.normal(size=(20, 4))
    c[0] *= 1e-3
    result = within_variance(c, root, np.full(20, 1.5))
    variance = np.einsum("ij,jk,ik->i", result, np.linalg.inv(C), result)
    assert (variance <= 1.5 * (1 + 1e-9)).all()
    np.testing.assert_allclose(result[0], c[0], atol=1e-12)
    inside = (rng.normal(size=(200, 4)) @ root.T) * 0.3
    inside = inside[np.einsum("ij,jk,ik->i", inside, np.linalg.inv(C), inside) <= 1.5]
    # The projection on a convex set is not farther than c from any point of the set.
    before = np.linalg.norm(c[:, np.newaxis] - inside, axis=2)
    assert (np.linalg.norm(result[:, np.newaxis] - inside, axis=2) <= before + 1e-9).all()
    np.testing.assert_array_equal(within_variance(c, np.zeros((4, 4)), np.ones(20)), 0)
