from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError

import blockbasis as bb
from blockbasis.accuracy import spectrum
from blockbasis.baselines import nystrom, nystrom_kmeans, nystrom_leverage, rpcholesky, svd

MODULE = sys.modules["blockbasis.baselines.svd"]


@pytest.fixture
def by_arpack(monkeypatch):
    """ARPACK for any number of points; the matrix kept, or evaluated in every step."""

    def use(dense_points):
        monkeypatch.setattr(MODULE, "_LAPACK_POINTS", 0)
        monkeypatch.setattr(MODULE, "_DENSE_POINTS", dense_points)

    return use


def best(K, rank):
    values, vectors = np.linalg.eigh(K)
    return (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T


@pytest.mark.parametrize("rank", [1, 7, 40, 160])
def test_the_truncated_decomposition(radial, points, rank, relative):
    K = radial.matrix(points, points, 0.4)
    assert relative(svd(points, radial.make(0.4), rank=rank), best(K, rank)) < 1e-7


@pytest.mark.parametrize("dense_points", [0, 10**6])
@pytest.mark.parametrize("seed", range(3))
def test_the_iteration_finds_the_same(points, by_arpack, dense_points, seed, relative):
    by_arpack(dense_points)
    A = svd(points, bb.Gaussian(0.3), rank=20, rng=seed)
    assert relative(A, best(bb.Gaussian(0.3)(points), 20)) < 1e-6


def test_a_matrix_that_is_the_identity(points, by_arpack):
    """ARPACK has nothing to iterate on: all eigenvalues are the same."""
    by_arpack(10**6)
    A = svd(points, bb.Gaussian(1e-6), rank=20, rng=0)
    assert bb.relative_error(A, points, bb.Gaussian(1e-6)).value == pytest.approx((1 - 20 / 160) ** 0.5)


def test_when_the_iteration_fails_and_the_matrix_is_too_large(points, by_arpack, monkeypatch):
    def fail(*arguments, **choices):
        raise ArpackError(-9999)

    by_arpack(0)
    monkeypatch.setattr(spectrum, "eigsh", fail)
    with pytest.raises(ValueError, match="svd cannot compute 20 eigenpairs. ARPACK failed"):
        svd(points, bb.Gaussian(0.3), rank=20, rng=0)
    by_arpack(10**6)
    assert svd(points, bb.Gaussian(0.3), rank=20, rng=0).rank == 20


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
