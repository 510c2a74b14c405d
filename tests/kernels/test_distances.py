"""Squared distances, and the entries of radial kernels that are made of them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import blockbasis as bb
from blockbasis.kernels import RADIAL_KERNELS, radial, squared_distances
from blockbasis.kernels.distances import ENTRY_ERROR
from blockbasis.kernels.evaluator import KernelMatrix

KERNELS = [*RADIAL_KERNELS.values(), lambda h: bb.Matern(h, nu=0.5), lambda h: bb.Matern(h, nu=2.5)]


def entries_by_differences(kernel, X, Y):
    """Entries of a radial kernel in units of its bandwidth, in float64, without any cancellation."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = (X.astype(np.float64)[:, None] - Y.astype(np.float64)) / kernel.bandwidth
        squared = (scaled * scaled).sum(axis=2)
    return type(kernel)(1.0, **({"nu": kernel.nu} if isinstance(kernel, bb.Matern) else {})).profile(squared)


def assert_right(kernel, X, Y):
    error = np.abs(kernel.block(X, Y) - entries_by_differences(kernel, X, Y)).max()
    assert error <= ENTRY_ERROR[X.dtype], (kernel, error)


def normal_points(shape, dtype=np.float64):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_outlier_leaves_all_entries_right(make, dtype):
    X = normal_points((100, 3), dtype)
    for far in (1e3, 1e6, 1e9, 1e10, 1e14):
        X[17] = far
        assert_right(make(1.0), X, X)


@pytest.mark.parametrize("make", KERNELS)
def test_two_groups_far_apart(make):
    for apart in (1e2, 1e4, 1e6):
        X = normal_points((150, 4))
        X[::2] += apart
        assert_right(make(1.0), X, X)


@pytest.mark.parametrize("make", KERNELS)
def test_outliers_in_a_block_of_many_tiles(make):
    X = normal_points((700, 2))
    X[[3, 400]] = [[1e9, -1e9], [3e11, 0]]
    assert_right(make(0.5), X, np.concatenate((X, X[:60] + 1e-7)))


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 1e-162), (np.float64, 1e-150), (np.float32, 1e-22)])
def test_tiny_scales_do_not_underflow(make, dtype, scale):
    X = (scale * normal_points((60, 3))).astype(dtype)
    assert_right(make(scale), X, X)


@pytest.mark.parametrize("make", KERNELS)
def test_points_of_all_scales_and_a_tiny_bandwidth(make):
    X = np.outer(10.0 ** np.arange(-162, 140, 20), [1.0, -2.0])
    assert_right(make(1e-162), X, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=100)
@given(
    make=st.sampled_from(KERNELS),
    seed=st.integers(0, 2**32),
    exponents=st.tuples(st.floats(-6, 6), st.floats(-6, 6)),
    d=st.integers(1, 60),
)
def test_entries_of_any_points(make, dtype, seed, exponents, d):
    rng = np.random.default_rng(seed)
    spread, bandwidth = 10.0 ** np.array(exponents)
    X = spread * rng.standard_t(1, size=(30, d))
    X = np.concatenate((X, X[:10] + bandwidth * rng.normal(size=(10, d)))).astype(dtype)
    assert_right(make(float(bandwidth)), X, X[::2])


def test_close_points_of_a_kinked_kernel():
    X = normal_points((100, 5))
    assert_right(bb.Laplacian(1.0), X, X + 1e-9)


def test_kernel_matrices_and_their_errors_see_the_right_entries():
    X = normal_points((200, 3))
    X[0] = 1e10
    kernel = bb.Gaussian(1.0)
    K = entries_by_differences(kernel, X, X)
    np.testing.assert_allclose(KernelMatrix(kernel, X).symmetric_dense(), K, atol=1e-10)
    A = bb.factorize(X, kernel, n_clusters=4, rank=10, rng=0)
    true = np.linalg.norm(A.todense() - K) / np.linalg.norm(K)
    assert bb.relative_error(A, X, kernel).value == pytest.approx(true, rel=1e-6)


def test_squared_distances_of_decimals():
    X, Y = np.array([[1e8, 3.0]]), np.array([[1e8 + 2**-20, 3.0 - 2**-30]])
    exact = sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(X[0], Y[0], strict=True))
    assert squared_distances(X, Y, np.zeros(2))[0, 0] == pytest.approx(float(exact), rel=1e-15)


def test_ordinary_points_are_not_computed_twice(monkeypatch):
    def refused(*args):
        raise AssertionError("differences were taken")

    monkeypatch.setattr("blockbasis.kernels.distances.squares_of_differences", refused)
    for dtype in (np.float32, np.float64):
        X = normal_points((300, 8), dtype)
        squared = squared_distances(X, X[:50], X.mean(axis=0), error=ENTRY_ERROR[X.dtype] * 8)
        assert squared.dtype == dtype
        np.testing.assert_allclose(squared, cdist(X, X[:50], "sqeuclidean"), atol=8 * ENTRY_ERROR[X.dtype])


@pytest.mark.parametrize("kernel", [bb.Gaussian(1.0), bb.Laplacian(1.0), bb.Matern(1.0, nu=2.5)], ids=repr)
def test_blocks_of_many_columns_are_those_of_few(kernel):
    X, Y = normal_points((7, 3)), np.random.default_rng(1).normal(size=(9000, 3))
    pieces = [kernel.block(X, Y[start : start + 3000]) for start in range(0, 9000, 3000)]
    np.testing.assert_allclose(kernel.block(X, Y), np.concatenate(pieces, axis=1), atol=1e-14)


def test_a_large_matrix_of_a_kernel_is_symmetric():
    K = bb.Gaussian(1.0)(normal_points((2100, 3)))
    np.testing.assert_array_equal(K, K.T)
    assert (np.diagonal(K) == 1).all()


def test_bounds_of_tiny_bandwidths_do_not_overflow():
    for bandwidth in (1e-204, 1e-285):
        np.testing.assert_array_equal(bb.Gaussian(bandwidth).bound(np.array([0.0, 1e-3])), [1.0, 0.0])


def no_distances(*arguments, **settings):
    raise AssertionError("the distances are computed twice")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [bb.Laplacian, lambda h: bb.Matern(h, nu=0.5)])
def test_only_the_nearest_points_of_a_kinked_kernel_are_compared_by_differences(make, dtype, monkeypatch):
    X = normal_points((300, 6), dtype)
    monkeypatch.setattr(radial, "squared_distances", no_distances)
    assert_right(make(5.0), X, np.concatenate((X[:40], X + dtype(0.1))))
    assert (np.diagonal(make(5.0).block(X, X)) == 1).all()


def test_many_near_points_of_a_kinked_kernel_take_products_in_float64():
    X = (1e-3 * normal_points((200, 6)) + 1).astype(np.float32)
    assert_right(bb.Laplacian(1.0), np.concatenate((X, -X)), X)
