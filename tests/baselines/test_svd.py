from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError

import blockbasis as bb
from blockbasis.accuracy import spectrum
from blockbasis.baselines import nystrom, nystrom_kmeans, nystrom_leverage, rpcholesky, svd
from blockbasis.baselines.protocol import check_problem

MODULE = sys.modules["blockbasis.baselines.svd"]


def by_arpack(X, kernel, *, dense_points, seed=0):
    """The approximation of rank 20 from ARPACK; the matrix is stored, or evaluated in every step."""
    problem = check_problem(X, kernel, None, 20, seed, caller="svd")
    values, vectors = MODULE._leading_eigenpairs(problem, lapack_points=0, dense_points=dense_points)
    return (vectors * values) @ vectors.T


def best(K, rank):
    values, vectors = np.linalg.eigh(K)
    return (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T


@pytest.mark.parametrize("rank", [1, 7, 40, 160])
def test_the_truncated_decomposition(radial, points, rank, relative):
    K = radial.matrix(points, points, 0.4)
    assert relative(svd(points, radial.make(0.4), rank=rank), best(K, rank)) < 1e-7


@pytest.mark.parametrize("dense_points", [0, 10**6])
@pytest.mark.parametrize("seed", range(3))
def test_the_iteration_finds_the_same(points, dense_points, seed, relative):
    A = by_arpack(points, bb.Gaussian(0.3), dense_points=dense_points, seed=seed)
    assert relative(A, best(bb.Gaussian(0.3)(points), 20)) < 1e-6


def test_a_matrix_that_is_the_identity(points):
    """ARPACK has nothing to iterate on: all eigenvalues are the same."""
    A = by_arpack(points, bb.Gaussian(1e-6), dense_points=10**6)
    assert bb.relative_error(A, points, bb.Gaussian(1e-6)).value == pytest.approx((1 - 20 / 160) ** 0.5)


def test_when_the_iteration_fails_and_the_matrix_is_too_large(points, monkeypatch):
    def fail(*arguments, **choices):
        raise ArpackError(-9999)

    monkeypatch.setattr(spectrum, "eigsh", fail)
    with pytest.raises(ValueError, match="svd cannot compute 20 eigenpairs. ARPACK failed"):
        by_arpack(points, bb.Gaussian(0.3), dense_points=0)
    assert np.linalg.matrix_rank(by_arpack(points, bb.Gaussian(0.3), dense_points=10**6)) == 20


def test_all_of_it(points, relative):
    K = bb.Laplacian(0.3)(points)
    assert relative(svd(points, bb.Laplacian(0.3), rank=160), K) < 1e-12
    assert relative(svd(points, bb.Laplacian(0.3), rank=500), K) < 1e-12
    assert svd(points, bb.Laplacian(0.3), memory=10**6).rank == 160


@pytest.mark.parametrize("method", [nystrom, nystrom_kmeans, nystrom_leverage, rpcholesky])
def test_nothing_of_the_same_rank_is_better(many_points, method):
    kernel = bb.Gaussian(0.4)
    least = bb.relative_error(svd(many_points, kernel, rank=25), many_points, kernel).value
    for seed in range(5):
        assert bb.relative_error(method(many_points, kernel, rank=25, rng=seed), many_points, kernel).value > least
