from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import blockbasis as bb
from blockbasis.baselines import rpcholesky
from blockbasis.baselines.protocol import check_problem

MODULE = sys.modules["blockbasis.baselines.rpcholesky"]


@pytest.fixture(params=[1, 7, 100])
def block(request):
    """Proposals at a time: one is the method as it was first published."""
    return request.param


def factor_of(X, kernel, rank, seed, block):
    return MODULE._factor(check_problem(X, kernel, None, rank, seed, caller="test"), block)


def test_exact_at_full_rank(radial, points, relative, block):
    K = radial.matrix(points, points, 0.2)
    F = factor_of(points, radial.make(0.2), 160, 0, block)
    assert relative(F @ F.T, K) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_residual_of_a_cholesky_factorization(points, seed, block):
    """Semi-definite, zero in as many rows as there are pivots."""
    K = bb.Gaussian(0.3)(points)
    F = factor_of(points, bb.Gaussian(0.3), 30, seed, block)
    residual = K - F @ F.T
    assert F.shape == (160, 30)
    assert np.linalg.eigvalsh(residual).min() > -1e-10
    assert np.count_nonzero(np.abs(residual).max(axis=1) < 1e-8) == 30


def test_blocks_change_nothing_in_the_distribution():
    """The pairs of pivots of a small matrix, counted: one at a time, in a block of proposals, and what they must be."""
    X = np.array([[0.0], [0.1], [1.5], [1.6], [4.0]])
    K = bb.Gaussian(1.0)(X)
    runs = 1500

    def shares(size):
        problem = check_problem(X, bb.Gaussian(1.0), None, 2, size, caller="test")
        counts = np.zeros((5, 5))
        for _ in range(runs):
            factor = MODULE._factor(problem, size)
            pivots = np.flatnonzero(np.einsum("ij,ij->i", factor, factor) > 1 - 1e-12)
            counts[pivots[0], pivots[1]] += 1 / runs
        return counts

    chance = np.zeros((5, 5))
    for i in range(5):
        left = 1 - K[i] ** 2
        chance[i] += left / left.sum() / 5
    chance = np.triu(chance + chance.T, 1)
    # Five standard errors of a share.
    for size in (1, 50):
        assert (np.abs(shares(size) - chance) <= 5 * np.sqrt(chance / runs)).all()


def test_what_is_left_is_rounding(points):
    """A smooth kernel has few directions: more columns than that are not made up."""
    A = rpcholesky(points, bb.Gaussian(30.0), rank=160, rng=0)
    assert A.rank < 80
    assert bb.relative_error(A, points, bb.Gaussian(30.0)).value < 1e-12


def test_points_that_only_seem_to_be_left():
    """A function whose diagonal comes out larger in small pieces, as of float32 in batches: what it leaves is none."""
    asked = []

    def kernel(X, Y):
        asked.append(len(X))
        assert len(asked) < 100
        return np.exp(-cdist(X, Y, "sqeuclidean")) + 1e-9 * (len(X) == 16)

    X = np.repeat([[0.0], [1.0]], 16, axis=0)
    assert rpcholesky(X, kernel, rank=32, rng=0).rank == 2


def test_linear_cost(counting):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    rpcholesky(X, counting, rank=20, rng=0)
    diagonal = 2000 * 16
    assert counting.seen <= 2000 * 20 + diagonal + 64**2 + 10 * 100**2
