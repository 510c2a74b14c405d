from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction import Method, assemble, make_bases, make_inner
from blockbasis.datasets import unit_cube_mixture
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import kmeans
from blockbasis.verification import cut_bases, cut_inner, draw_check_rows, market_of, measure, smallest_within

N = 900


def built(diagonal, bandwidth=0.4, rank=25):
    X, kernel = unit_cube_mixture(N, 3, rng=0), bb.Gaussian(bandwidth)
    method = Method(False, "energy", "svd", "sampled", diagonal, None)
    partition = kmeans(X, 5, np.random.default_rng(0))
    matrix = KernelMatrix(kernel, X[partition.order])
    ranks = np.full(5, rank)
    bases = make_bases(matrix, partition, partition, ranks, method, np.random.default_rng(1), 1)
    inner, cut = make_inner(matrix, partition, bases, method, np.random.default_rng(2), 1)
    return X, kernel, matrix, partition, bases, inner, method


@pytest.mark.parametrize("diagonal", [True, False])
def test_error_at_smaller_ranks_is_that_of_the_factorization_cut_to_them(diagonal):
    X, kernel, matrix, partition, bases, inner, method = built(diagonal, bandwidth=0.2)
    ranks = np.array([3, 20, 25, 1, 9])
    A = assemble(matrix, partition, cut_bases(bases, ranks), cut_inner(inner, ranks), None, method, 0)
    assert A.ranks.tolist() == ranks.tolist()
    truth = bb.relative_error(A, X, kernel).value
    values = []
    for seed in range(10):
        checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(seed), 1)
        estimate = measure(checks, bases, inner.todense(), ranks, diagonal=diagonal).relative()
        assert abs(estimate.value - truth) <= 5 * estimate.stderr + 1e-3 * truth
        values.append(estimate.value)
    assert np.mean(values) == pytest.approx(truth, rel=0.05)


def test_smallest_ranks_within_an_error():
    X, kernel, matrix, partition, bases, inner, method = built(True)
    dense = inner.todense()
    checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(3), 1)
    full = np.array([basis.vectors.shape[1] for basis in bases])
    norm = measure(checks, bases, dense, full, diagonal=True).norm
    market = market_of(bases, dense, diagonal=True)
    stored = []
    for tol in (0.3, 0.1, 0.05):
        ranks = smallest_within(market, checks, bases, dense, tol**2 * norm, 2.5)
        A = assemble(matrix, partition, cut_bases(bases, ranks), cut_inner(inner, ranks), None, method, 0)
        assert bb.relative_error(A, X, kernel).value <= tol
        stored.append(A.stored)
    assert stored == sorted(stored)
    assert stored[0] < stored[-1]


def test_all_ranks_when_the_error_is_out_of_reach():
    _, _, matrix, partition, bases, inner, _ = built(True)
    checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(3), 1)
    dense = inner.todense()
    ranks = smallest_within(market_of(bases, dense, diagonal=True), checks, bases, dense, 0.0, 2.5)
    assert ranks.tolist() == [basis.vectors.shape[1] for basis in bases]
