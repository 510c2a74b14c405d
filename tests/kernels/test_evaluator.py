from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import blockbasis as bb
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import CachedKernelMatrix, Counter, KernelMatrix, coincidences, indices

INDEX = {
    "slice": slice(5, 25),
    "all": slice(0, 40),
    "sorted": np.array([0, 3, 6, 24, 39]),
    "shuffled": np.array([39, 3, 24, 0]),
    "empty": np.empty(0, dtype=np.intp),
}


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(30, 3)) + 0.5


def check_block(matrix, whole, rows, columns):
    block = matrix.block(rows, columns)
    np.testing.assert_allclose(block, whole[rows][:, columns], atol=1e-13)
    np.testing.assert_array_equal(block[indices(rows)[:, np.newaxis] == indices(columns)], 1)


@pytest.mark.parametrize("rows", [name for name in INDEX if name != "empty"])
@pytest.mark.parametrize("columns", INDEX)
def test_blocks_are_those_of_the_whole(X, rows, columns):
    whole = np.exp(-cdist(X, X) / 0.4)
    check_block(KernelMatrix(bb.Laplacian(0.4), X), whole, INDEX[rows], INDEX[columns])


def test_blocks_of_every_kernel_are_those_of_the_whole(radial, X):
    matrix = KernelMatrix(radial.make(0.4), X)
    for rows, columns in (("slice", "shuffled"), ("sorted", "all")):
        check_block(matrix, radial.matrix(X, X, 0.4), INDEX[rows], INDEX[columns])


def test_counts_what_it_evaluates(X, Y):
    matrix = KernelMatrix(bb.Gaussian(1.0), X, Y)
    assert matrix.shape == (40, 30)
    assert matrix.entries == 0
    matrix.block(slice(0, 7), slice(0, 5))
    matrix.block(np.array([1, 2, 3]), slice(0, 30))
    assert matrix.entries == 7 * 5 + 3 * 30
    matrix.T.block(slice(0, 4), slice(0, 40))
    assert matrix.entries == 7 * 5 + 3 * 30 + 4 * 40
    assert matrix.T.entries == matrix.entries


def test_counter_equals_what_the_callable_sees(X, counting):
    matrix = KernelMatrix(as_kernel(counting, caller="f"), X)
    matrix.block(slice(0, 9), np.array([3, 8]))
    matrix.diagonal(slice(0, 40))
    assert matrix.entries == counting.seen > 18


def test_threads_lose_no_count(X):
    matrix = KernelMatrix(bb.Gaussian(1.0), X)
    threads = [
        threading.Thread(target=lambda: [matrix.block(slice(0, 2), slice(0, 3)) for _ in range(300)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert matrix.entries == 4 * 300 * 6


def test_transpose(X, Y):
    def own(A, B):  # not symmetric: the order of the arguments must survive the transpose
        return A[:, :1] + 2 * B[:, 0]

    matrix = KernelMatrix(as_kernel(own, caller="f"), X, Y)
    rows, columns = np.array([4, 2, 9]), slice(3, 8)
    expected = own(X[rows], Y[columns])
    np.testing.assert_array_equal(matrix.block(rows, columns), expected)
    np.testing.assert_array_equal(matrix.T.block(columns, rows), expected.T)
    np.testing.assert_array_equal(matrix.T.T.block(rows, columns), expected)
    assert matrix.T.shape == (30, 40)


def test_symmetric_matrix_is_its_own_transpose(X):
    matrix = KernelMatrix(bb.Gaussian(1.0), X)
    assert matrix.T is matrix


def test_equal_points_on_both_sides_are_no_diagonal(X):
    """K(X, X) given as a cross matrix is evaluated as such: nothing is set to one by position."""
    shifted = KernelMatrix(bb.Laplacian(1.0), X, X + 1.0).block(slice(0, 40), slice(0, 40))
    assert np.diagonal(shifted).max() < 0.2


def test_diagonal(X):
    np.testing.assert_array_equal(KernelMatrix(bb.Laplacian(0.1), X).diagonal(slice(5, 25)), np.ones(20))
    linear = KernelMatrix(as_kernel(lambda A, B: A @ B.T, caller="f"), X)
    np.testing.assert_allclose(linear.diagonal(slice(3, 40)), (X[3:] ** 2).sum(axis=1))
    assert linear.entries < 37 * 37  # not the whole block for its diagonal


def test_the_diagonal_of_a_function_is_evaluated_once(X, counting):
    matrix = KernelMatrix(as_kernel(counting, caller="f"), X)
    threads = [threading.Thread(target=matrix.diagonal, args=(slice(0, 40),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once = counting.seen
    assert matrix.entries == once <= 16 * 40
    values = matrix.diagonal(slice(0, 40))
    assert not values.flags.writeable
    assert matrix.entries == counting.seen == once
    np.testing.assert_array_equal(matrix.diagonal(slice(8, 20)), values[8:20])  # another range: evaluated, not mistaken
    assert matrix.entries == counting.seen > once


def test_dtype_is_that_of_the_points(X):
    matrix = KernelMatrix(bb.Gaussian(1.0), X.astype(np.float32))
    assert matrix.dtype == np.float32
    assert matrix.block(slice(0, 2), slice(0, 2)).dtype == np.float32


def test_double_shares_points_and_count(X, Y):
    def own(A, B):  # not symmetric: the order of the arguments must survive
        return A[:, :1] + 2 * B[:, 0]

    matrix = KernelMatrix(as_kernel(own, caller="f"), X.astype(np.float32), Y.astype(np.float32)).T
    block = matrix.double.block(slice(0, 5), slice(0, 4))
    assert block.dtype == np.float64
    np.testing.assert_array_equal(block, own(*(P.astype(np.float32).astype(np.float64) for P in (X[:4], Y[:5]))).T)
    assert matrix.entries == matrix.double.entries == 20
    wide = KernelMatrix(bb.Gaussian(1.0), X)
    assert wide.double is wide
    assert KernelMatrix(bb.Gaussian(1.0), X.astype(np.float32)).double.symmetric


@pytest.mark.parametrize("rows", INDEX)
@pytest.mark.parametrize("columns", INDEX)
def test_coincidences(rows, columns):
    at_row, at_column = coincidences(INDEX[rows], INDEX[columns])
    same = indices(INDEX[rows])[:, np.newaxis] == indices(INDEX[columns])
    found = np.zeros_like(same)
    found[at_row, at_column] = True
    np.testing.assert_array_equal(found, same)
    assert len(at_row) == len(at_column) == same.sum()


# --- all entries of few points ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 300])
def test_all_entries_are_evaluated_on_one_side(radial, n):
    """More than one tile of 256 rows among them; those of a tile's own square count on one side, too."""
    X = np.random.default_rng(2).normal(size=(n, 3))
    matrix = KernelMatrix(radial.make(0.4), X)
    dense = matrix.symmetric_dense()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(dense, radial.matrix(X, X, 0.4), atol=1e-13)
    np.testing.assert_array_equal(np.diagonal(dense), 1)
    assert matrix.entries == n * (n + 1) // 2


def test_all_entries_of_a_function_are_made_symmetric(X):
    def nearly(A, B):  # as functions are that sum in another order
        return A @ B.T + 1e-15 * A[:, :1]

    dense = KernelMatrix(as_kernel(nearly, caller="f"), X).symmetric_dense()
    np.testing.assert_array_equal(dense, dense.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cached_matrix_copies_what_is_known(X, dtype):
    X = X.astype(dtype)
    order = np.random.default_rng(0).permutation(40)
    counter = Counter()
    dense = KernelMatrix(bb.Laplacian(0.7), X).symmetric_dense()
    matrix = CachedKernelMatrix(bb.Laplacian(0.7), X[order], dense, order, counter)
    plain = KernelMatrix(bb.Laplacian(0.7), X[order])
    for rows in [index for name, index in INDEX.items() if name != "empty"]:
        for columns in INDEX.values():
            block = matrix.block(rows, columns)
            assert block.dtype == dtype
            np.testing.assert_allclose(block, plain.block(rows, columns), atol=10 * np.finfo(dtype).eps)
            block[...] = 7.0  # a copy
    np.testing.assert_array_equal(matrix.diagonal(slice(5, 25)), 1)
    assert matrix.entries == counter.value == 0
    assert dense.max() == 1


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e101, 1e-101])
def test_kernels_whose_squares_cannot_be_summed_are_refused(scale):
    X = np.random.default_rng(0).normal(size=(50, 2))
    kernel = scale * bb.Gaussian(1.0)
    for use in (
        lambda: bb.factorize(X, kernel, n_clusters=2, rank=5, rng=0),
        lambda: bb.factorize(X, kernel, tol=1e-2, rng=0),
        lambda: bb.factorize_cross(X, X, kernel, n_clusters=2, rank=5, rng=0),
        lambda: bb.plan(X, kernel, tol=1e-2, rng=0),
        lambda: bb.ExactKernel(X, kernel),
    ):
        with pytest.raises(ValueError, match=r"must have k\(x, x\) between 1e-100 and 1e\+100. Got 1e"):
            use()


@pytest.mark.parametrize("scale", [1e90, 1e-90])
def test_large_and_small_kernels_are_factorized_as_others_are(scale):
    X = np.random.default_rng(0).normal(size=(300, 2))

    def error(kernel):
        return bb.relative_error(bb.factorize(X, kernel, n_clusters=3, rank=20, rng=0), X, kernel).value

    assert error(scale * bb.Gaussian(1.0)) == pytest.approx(error(bb.Gaussian(1.0)), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-24, 1e19])
def test_functions_of_any_scale_meet_a_tolerance(scale):
    """float32 cannot hold the squares of such entries: the work is then in float64."""
    X = np.random.default_rng(0).normal(size=(120, 2))

    def function(A, B):
        return scale * np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1))

    A = bb.factorize(X, function, tol=1e-2, rng=0)
    assert bb.relative_error(A, X, function).value <= 1e-2


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_functions_whose_squares_float64_cannot_sum_are_refused(scale):
    X = np.random.default_rng(0).normal(size=(120, 2))
    with pytest.raises(ValueError, match="must have k\\(x, x\\) between"):
        bb.factorize(X, lambda A, B: scale * np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1)), tol=1e-2, rng=0)
