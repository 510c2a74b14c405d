from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import linalg as sla

import blockbasis as bb
from blockbasis.operators import exact
from blockbasis.operators.exact import _rounds


@pytest.fixture
def small_tiles(monkeypatch):
    """So many tiles and strips that 160 points need several rounds."""
    monkeypatch.setattr(exact, "_TILE", 11)
    monkeypatch.setattr(exact, "_STRIP", 30)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_products_are_dense_products(radial, points, rng, small_tiles):
    dense = radial.matrix(points, points, 0.4)
    K = bb.ExactKernel(points, radial.make(0.4))
    v, V = rng.standard_normal(160), rng.standard_normal((160, 5))
    np.testing.assert_allclose(K @ v, dense @ v, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K @ V, dense @ V, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K.todense(), dense, atol=1e-11)
    assert K.frobenius_norm() == pytest.approx(np.linalg.norm(dense), rel=1e-10)
    np.testing.assert_array_equal(K.diagonal(), np.ones(160))


@pytest.mark.parametrize("n", [1, 2, 3, 31, 512, 513, 1100])
def test_every_number_of_points(n, rng):
    X = rng.normal(size=(n, 2))
    K = bb.ExactKernel(X, bb.Cauchy(1.0))
    dense = bb.Cauchy(1.0)(X)
    np.testing.assert_allclose(K @ np.ones(n), dense @ np.ones(n), rtol=1e-12)
    np.testing.assert_allclose(K.todense(), dense, atol=1e-14)
    assert K.frobenius_norm() == pytest.approx(np.linalg.norm(dense), rel=1e-12)
    assert K.shape == (n, n)


def test_dense_form_is_exactly_symmetric(points, small_tiles):
    dense = bb.ExactKernel(points, bb.Laplacian(0.4)).todense()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(np.diagonal(dense), 1)


@pytest.mark.filterwarnings("ignore:Calling `matvec` on 'column vectors':FutureWarning")  # SciPy 1.18
def test_scipys_contract(points, rng):
    K = bb.ExactKernel(points, bb.Gaussian(0.4))
    dense = bb.Gaussian(0.4)(points)
    z = rng.standard_normal(160) + 1j * rng.standard_normal(160)
    assert isinstance(K, sla.LinearOperator)
    assert K.T is K
    assert K.H is K
    np.testing.assert_allclose(K @ z, dense @ z, rtol=1e-10)
    np.testing.assert_allclose(K.matvec(np.ones((160, 1))), dense @ np.ones((160, 1)), rtol=1e-12)
    assert K.matmat(np.empty((160, 0))).shape == (160, 0)
    assert bb.dot_test(K, rng=0) < 1e-14
    x, info = sla.cg(K + sla.aslinearoperator(np.eye(160)), np.ones(160), rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(dense @ x + x, np.ones(160), rtol=1e-8)


def test_products_leave_their_argument_alone(points):
    V = np.ones((160, 3))
    V.setflags(write=False)
    product = bb.ExactKernel(points, bb.Gaussian(0.4)) @ V
    np.testing.assert_array_equal(V, 1)
    assert not np.shares_memory(product, V)


def test_the_same_bits_for_every_number_of_threads(points, rng, small_tiles):
    V = rng.standard_normal((160, 3))
    products = [bb.ExactKernel(points, bb.Gaussian(0.4), n_jobs=n_jobs) @ V for n_jobs in (1, 2, 5)]
    np.testing.assert_array_equal(products[0], products[1])
    np.testing.assert_array_equal(products[0], products[2])


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_rounds_hold_every_pair_once_and_no_strip_twice(count):
    rounds = list(_rounds(count))
    pairs = [pair for round_ in rounds for pair in round_]
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i, count)]
    for round_ in rounds:
        taken = [strip for pair in round_ for strip in set(pair)]
        assert len(taken) == len(set(taken))


def test_half_the_entries_are_evaluated(counting):
    X = np.random.default_rng(0).normal(size=(5 * 512, 2))
    K = bb.ExactKernel(X, counting)
    before = counting.seen
    K @ np.ones(len(X))
    assert counting.seen - before == 15 * 512**2


def test_memory_is_linear():
    X = np.random.default_rng(0).normal(size=(6000, 3))
    K = bb.ExactKernel(X, bb.Gaussian(1.0), n_jobs=1)
    v = np.ones(6000)
    tracemalloc.start()
    try:
        K @ v
        K.frobenius_norm()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6000**2 * 8 / 10


def test_precision(points):
    single = bb.ExactKernel(points, bb.Gaussian(0.4), dtype=np.float32)
    assert single.dtype == (single @ np.ones(160)).dtype == single.todense().dtype == np.float32
    assert bb.ExactKernel(points.astype(np.float32), bb.Gaussian(0.4)).dtype == np.float32
    dense = bb.Gaussian(0.4)(points)
    assert np.linalg.norm(single.todense() - dense) < 1e-5 * np.linalg.norm(dense)
    assert single.frobenius_norm() == pytest.approx(np.linalg.norm(dense), rel=1e-5)


def test_a_users_function(points, small_tiles):
    K = bb.ExactKernel(points, lambda X, Y: X @ Y.T)
    np.testing.assert_allclose(K.todense(), points @ points.T, atol=1e-13)
    np.testing.assert_allclose(K.diagonal(), np.einsum("ij,ij->i", points, points))


def test_a_function_that_is_not_symmetric_is_refused(points):
    with pytest.raises(ValueError, match="must be symmetric"):
        bb.ExactKernel(points, lambda X, Y: X[:, :1] + 2 * Y[:, 0])


def test_repr():
    assert repr(bb.ExactKernel([[0.0], [1.0]], bb.Gaussian(2))) == (
        "ExactKernel(2 x 2, Gaussian(bandwidth=2.0), float64)"
    )


@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"X": np.full((4, 2), np.inf)}, ValueError, ["'X'", "free of NaN"]),
        ({"X": np.zeros(4)}, ValueError, ["'X'", "two-dimensional"]),
        ({"kernel": 3}, TypeError, ["'kernel'", "Got 3"]),
        ({"dtype": np.int64}, ValueError, ["'dtype'", "float32"]),
        ({"n_jobs": 0}, ValueError, ["'n_jobs'", "Got 0"]),
    ],
)
def test_bad_arguments(points, settings, error, parts):
    with pytest.raises(error) as caught:
        bb.ExactKernel(**{"X": points, "kernel": bb.Gaussian(1.0), **settings})
    for part in ["parameter of ExactKernel must be", *parts]:
        assert part in str(caught.value)


# --- two sets of points ----------------------------------------------------------------------------------------------


@pytest.fixture
def others(rng):
    return rng.uniform(size=(70, 3))


def test_cross_products_are_dense_products(radial, points, others, rng, small_tiles):
    dense = radial.matrix(others, points, 0.4)
    K = bb.ExactCrossKernel(others, points, radial.make(0.4))
    V, W = rng.standard_normal((160, 5)), rng.standard_normal((70, 2))
    np.testing.assert_allclose(K @ V, dense @ V, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K @ V[:, 0], dense @ V[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K.T @ W, dense.T @ W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(K.todense(), dense, atol=1e-11)
    assert K.T.shape == K.shape[::-1] == (160, 70)
    assert K.matmat(np.empty((160, 0))).shape == (70, 0)
    assert bb.dot_test(K, rng=0) < 1e-14


def test_a_cross_function_keeps_the_order_of_its_arguments(points, others, small_tiles):
    K = bb.ExactCrossKernel(others, points, lambda X, Y: X[:, :1] + 2 * Y[:, 0])
    dense = others[:, :1] + 2 * points[:, 0]
    np.testing.assert_allclose(K @ np.ones(160), dense.sum(axis=1))
    np.testing.assert_allclose(K.T @ np.ones(70), dense.sum(axis=0))


def test_cross_products_have_the_same_bits_for_every_number_of_threads(points, others, rng, small_tiles):
    V = rng.standard_normal((160, 3))
    one, two, five = (bb.ExactCrossKernel(others, points, bb.Gaussian(0.4), n_jobs=jobs) @ V for jobs in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


def test_cross_memory_is_linear():
    X, Y = np.random.default_rng(0).normal(size=(2, 5000, 3))
    K = bb.ExactCrossKernel(Y, X, bb.Gaussian(1.0), n_jobs=1)
    tracemalloc.start()
    try:
        K @ np.ones(5000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5000**2 * 8 / 10


def test_cross_precision_and_repr(points, others):
    K = bb.ExactCrossKernel(others, points.astype(np.float32), bb.Gaussian(2))
    assert K.dtype == (K @ np.ones(160)).dtype == np.float32
    assert bb.ExactCrossKernel(others, points, bb.Gaussian(2), dtype=np.float32).dtype == np.float32
    assert repr(K) == "ExactCrossKernel(70 x 160, Gaussian(bandwidth=2.0), float32)"


@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"Y": np.zeros((4, 2))}, ValueError, ["'Y'", "of 3 columns"]),
        ({"Y": np.full((4, 3), np.nan)}, ValueError, ["'Y'", "free of NaN"]),
        ({"X": np.zeros(4)}, ValueError, ["'X'", "two-dimensional"]),
        ({"kernel": 3}, TypeError, ["'kernel'", "Got 3"]),
        ({"dtype": np.int64}, ValueError, ["'dtype'", "float32"]),
        ({"n_jobs": 0}, ValueError, ["'n_jobs'", "Got 0"]),
    ],
)
def test_bad_arguments_of_the_cross_kernel(points, others, settings, error, parts):
    with pytest.raises(error) as caught:
        bb.ExactCrossKernel(**{"Y": others, "X": points, "kernel": bb.Gaussian(1.0), **settings})
    for part in ["parameter of ExactCrossKernel must be", *parts]:
        assert part in str(caught.value)
