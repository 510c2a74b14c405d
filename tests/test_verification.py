from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction import Method, assemble, make_bases, make_inner
from blockbasis.datasets import unit_cube_mixture
from blockbasis.definite import nearest_semidefinite
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import kmeans
from blockbasis.verification import (
    cut_bases,
    cut_inner,
    draw_check_rows,
    market_of,
    measure,
    row_products,
    smallest_within,
    spectral_error,
)

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

        def enough(ranks, allowed=tol**2 * norm):
            return measure(checks, bases, dense, ranks, diagonal=True).upper(2.5) <= allowed

        ranks = smallest_within(market, enough)
        A = assemble(matrix, partition, cut_bases(bases, ranks), cut_inner(inner, ranks), None, method, 0)
        assert bb.relative_error(A, X, kernel).value <= tol
        stored.append(A.stored)
    assert stored == sorted(stored)
    assert stored[0] < stored[-1]


def test_all_ranks_when_the_error_is_out_of_reach():
    *_, bases, inner, _ = built(True)
    ranks = smallest_within(market_of(bases, inner.todense(), diagonal=True), lambda ranks: False)
    assert ranks.tolist() == [basis.vectors.shape[1] for basis in bases]


# --- the spectral norm of the error ----------------------------------------------------------------------------------


def spectral_truth(X, kernel, matrix, partition, bases, inner, method, ranks):
    A = assemble(matrix, partition, cut_bases(bases, ranks), cut_inner(inner, ranks), None, method, 0)
    return np.linalg.norm(A.todense() - kernel(X), 2)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("ranks", [[25] * 5, [3, 20, 25, 1, 9]], ids=str)
def test_spectral_error_of_all_rows_is_exact(diagonal, ranks):
    X, kernel, matrix, partition, bases, inner, method = built(diagonal)
    inner = nearest_semidefinite(inner)
    checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(3), 1)
    products = row_products(matrix, partition, bases, checks, 1)
    found = spectral_error(products, checks, bases, inner.todense(), np.array(ranks), diagonal=diagonal)
    truth = spectral_truth(X, kernel, matrix, partition, bases, inner, method, np.array(ranks))
    assert np.sqrt(found) == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("diagonal", [True, False])
def test_spectral_error_of_some_rows_is_too_large_rather_than_too_small(diagonal, monkeypatch):
    monkeypatch.setattr("blockbasis.verification._FEW_POINTS", 0)
    monkeypatch.setattr("blockbasis.verification._CHECK_ROWS", N // 2)
    X, kernel, matrix, partition, bases, inner, method = built(diagonal)
    inner = nearest_semidefinite(inner)
    ranks = np.array([3, 20, 25, 1, 9])
    truth = spectral_truth(X, kernel, matrix, partition, bases, inner, method, ranks)
    found = []
    for seed in range(10):
        checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(seed), 1)
        products = row_products(matrix, partition, bases, checks, 1)
        found.append(np.sqrt(spectral_error(products, checks, bases, inner.todense(), ranks, diagonal=diagonal)))
    assert 1.0 <= np.mean(found) / truth <= 1.2
    assert min(found) >= 0.95 * truth


def test_products_of_rows_do_not_depend_on_threads():
    _, _, matrix, partition, bases, *_ = built(True)
    checks = draw_check_rows(matrix, partition, bases, np.random.default_rng(3), 1)
    one, three = (row_products(matrix, partition, bases, checks, n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.outside, three.outside)
    np.testing.assert_array_equal(one.block, three.block)
