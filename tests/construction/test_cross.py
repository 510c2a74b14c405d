from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.cross import cross_factorization
from blockbasis.construction.method import Method
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import kmeans

METHODS = {
    "default": Method(False, "energy", "sampled", False, None),
    "exact": Method(False, "exact", "exact", False, None),
    "paper": Method(True, "randomized", "sampled", False, None),
    "pooled": Method(True, "pooled", "sampled", False, None),
}


def case(seed):
    rng = np.random.default_rng(seed)
    Y, X = rng.normal(size=(150, 2)), rng.normal(size=(220, 2)) + 0.3
    rows, columns = kmeans(Y, 3, rng), kmeans(X, 4, rng)
    return rows, columns, KernelMatrix(bb.Gaussian(2.0), Y[rows.order], X[columns.order])


def factorized(name, seed, rank, n_jobs=1):
    rows, columns, matrix = case(seed)
    B = cross_factorization(matrix, rows, columns, rank, METHODS[name], np.random.default_rng(seed), n_jobs)
    K = np.empty(matrix.shape)
    K[np.ix_(rows.order, columns.order)] = matrix.double.block(slice(0, 150), slice(0, 220))
    return B, K


@pytest.mark.parametrize("name", METHODS)
def test_a_smooth_kernel_needs_few_functions_on_both_sides(name):
    """Thirty functions for each cluster hold this kernel to about 1e-9, whatever chooses the columns."""
    for seed in range(3):
        B, K = factorized(name, seed, 30)
        assert np.linalg.norm(B.todense() - K) < 1e-6 * np.linalg.norm(K)


@pytest.mark.parametrize("name", METHODS)
def test_ranks_above_the_sizes_are_exact(name):
    B, K = factorized(name, 0, 200)
    np.testing.assert_allclose(B.todense(), K, atol=1e-11)


@pytest.mark.parametrize("name", METHODS)
def test_threads_change_nothing(name):
    one, two = (factorized(name, 0, 8, n_jobs)[0].todense() for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_exact_bases_with_exact_blocks_are_the_best():
    B, K = factorized("exact", 0, 6)
    error = np.linalg.norm(B.todense() - K)
    for name in ("default", "paper"):
        assert error <= 1.0001 * np.linalg.norm(factorized(name, 0, 6)[0].todense() - K)
