from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import nystrom


@pytest.mark.parametrize("seed", range(3))
def test_the_formula(points, seed, relative):
    """C W_r⁺ Cᵀ, with the columns that the function was asked for last."""
    asked = []

    def kernel(X, Y):
        asked.append(Y.copy())
        return np.exp(-np.square(X[:, np.newaxis] - Y).sum(axis=2) / 0.09)

    A = nystrom(points, kernel, rank=10, rng=seed)
    landmarks = asked[-1]
    assert landmarks.shape == (20, 3)
    assert len(np.unique(landmarks, axis=0)) == 20
    C, W = kernel(points, landmarks), kernel(landmarks, landmarks)
    U, s, _ = np.linalg.svd(W)
    assert relative(A, C @ (U[:, :10] / s[:10]) @ U[:, :10].T @ C.T) < 1e-10


def test_exact_at_full_rank(radial, points, relative):
    K = radial.matrix(points, points, 0.2)
    assert relative(nystrom(points, radial.make(0.2), rank=160, rng=0), K) < 1e-9


def test_linear_cost(counting):
    """2r columns, and a few entries to ask whether the function is a kernel."""
    X = np.random.default_rng(0).normal(size=(1000, 2))
    nystrom(X, counting, rank=10, rng=0)
    assert counting.seen <= 1000 * 20 + 64**2


def test_error_falls_towards_the_best(points):
    kernel = bb.Gaussian(0.4)
    errors = [
        np.mean([bb.relative_error(nystrom(points, kernel, rank=r, rng=s), points, kernel).value for s in range(5)])
        for r in (5, 20, 80)
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
