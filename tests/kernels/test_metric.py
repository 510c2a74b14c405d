from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb

L = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 0.5]])


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(50, 3))


def test_a_metric_maps_the_points(X):
    for kernel in (bb.Gaussian(2.0), bb.Laplacian([1.0, 3.0]), bb.Gaussian(1.0) + bb.Cauchy([2.0, 1.0])):
        np.testing.assert_allclose(kernel.with_metric(L)(X), kernel(X @ L.T), atol=1e-13)


def test_metrics_compose(X):
    M = np.random.default_rng(1).normal(size=(4, 2))
    twice = bb.Gaussian(2.0).with_metric(M).with_metric(L)
    np.testing.assert_allclose(twice(X), bb.Gaussian(2.0)(X @ L.T @ M.T), atol=1e-13)


def test_more_rows_than_columns_are_turned_into_as_many(X):
    tall = np.random.default_rng(2).normal(size=(9, 3))
    kernel = bb.Gaussian(2.0).with_metric(tall)
    assert kernel.coordinates(X).shape == (50, 3)
    np.testing.assert_allclose(kernel.core(kernel.coordinates(X)), bb.Gaussian(2.0)(X @ tall.T), atol=1e-13)


def test_rotations_are_seen_by_kernels_of_several_metrics(X):
    """A triangular factor of L gives the same Euclidean distances, and other ones to a kernel that has its own."""
    tall = np.random.default_rng(3).normal(size=(5, 3))
    inner = bb.Gaussian([1.0, 2.0, 3.0, 4.0, 5.0]) + bb.Laplacian([5.0, 4.0, 3.0, 2.0, 1.0])
    kernel = inner.with_metric(tall)
    np.testing.assert_allclose(kernel(X), inner(X @ tall.T), atol=1e-12)
    np.testing.assert_allclose(kernel.core(kernel.coordinates(X)), inner(X @ tall.T), atol=1e-12)


def test_a_function_of_mapped_points(X):
    kernel = bb.kernels.CallableKernel(lambda A, B: A @ B.T).with_metric(L)
    np.testing.assert_allclose(kernel(X), X @ L.T @ L @ X.T, atol=1e-12)


def test_the_identity_is_no_map(X):
    kernel = bb.Gaussian(1.0).with_metric(np.eye(3))
    assert kernel.map is None and kernel.coordinates(X) is X


def test_a_metric_is_a_value():
    kernel = bb.Gaussian(1.0).with_metric(L)
    assert kernel == bb.Gaussian(1.0).with_metric(L.copy()) and hash(kernel) == hash(
        bb.Gaussian(1.0).with_metric(L.tolist())
    )
    assert kernel != bb.Gaussian(1.0).with_metric(2 * L) and kernel != bb.Gaussian(2.0).with_metric(L)
    assert repr(kernel) == "Gaussian(bandwidth=1.0).with_metric([[1, 2, 0], [0, -1, 0.5]])"
    assert "<array of shape (20, 20)>" in repr(bb.Gaussian(1.0).with_metric(np.eye(20)))
    with pytest.raises(ValueError, match="read-only"):
        kernel.metric.array[0, 0] = 3


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones(3), r"two-dimensional, of shape \(m, n_columns\)\. Got shape \(3,\) instead"),
        (np.ones((0, 3)), "two-dimensional"),
        (np.ones((2, 2, 2)), "two-dimensional"),
        ([[1.0, np.nan]], "free of NaN and infinity. Got one in row 0 instead"),
        ([[1.0], [np.inf]], "free of NaN and infinity. Got one in row 1 instead"),
        ([["a"]], "array of numbers"),
        (1j * np.eye(2), "real"),
    ],
)
def test_bad_metrics(bad, message):
    with pytest.raises((TypeError, ValueError), match=r"'L' parameter of Gaussian\.with_metric must be .*" + message):
        bb.Gaussian(1.0).with_metric(bad)


def test_a_metric_has_a_row_for_each_length():
    with pytest.raises(ValueError, match=r"of 4 rows, one for each length of the kernel\. Got shape \(2, 3\)"):
        bb.Gaussian([1.0, 2.0, 3.0, 4.0]).with_metric(L)


def test_a_metric_that_overflows(X):
    with pytest.raises(ValueError, match="must map the points to squared distances that float64 can hold"):
        bb.Gaussian(1.0).with_metric(1e200 * L)(X)
