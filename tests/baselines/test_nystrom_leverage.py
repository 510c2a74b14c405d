from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import blockbasis as bb
from blockbasis.baselines import nystrom, nystrom_leverage

MODULE = sys.modules["blockbasis.baselines.nystrom_leverage"]


def mean_error(method, X, kernel, rank):
    return np.mean([bb.relative_error(method(X, kernel, rank=rank, rng=s), X, kernel).value for s in range(10)])


def test_points_of_large_leverage_are_not_missed():
    """A crowd, and 15 points far from it and from each other: 15 directions that uniform columns rarely see."""
    rng = np.random.default_rng(0)
    X = np.concatenate((0.1 * rng.normal(size=(385, 2)), 10 + 5 * np.arange(15)[:, np.newaxis] * np.ones(2)))
    kernel = bb.Gaussian(1.0)

    def alone_seen(method):
        found = [np.diagonal(method(X, kernel, rank=20, rng=s).todense())[385:] > 0.5 for s in range(10)]
        return np.mean(found)

    assert alone_seen(nystrom_leverage) > 0.7
    assert alone_seen(nystrom) < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_the_formula(points, seed, relative):
    """C W⁺ Cᵀ of columns drawn with replacement."""
    asked = []

    def kernel(X, Y):
        asked.append(Y.copy())
        return np.exp(-cdist(X, Y, "sqeuclidean") / 0.09)

    A = nystrom_leverage(points, kernel, rank=160, rng=seed)
    landmarks = asked[-1]
    assert landmarks.shape == (320, 3)
    distinct = np.unique(landmarks, axis=0)
    assert len(distinct) < 160  # with replacement, some points are drawn twice and some never
    C, W = kernel(points, distinct), kernel(distinct, distinct)
    # At full rank no scale matters: it cancels in C W⁺ Cᵀ.
    assert relative(A, C @ np.linalg.pinv(W, hermitian=True) @ C.T) < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_scaled_by_their_chances(points, seed, relative, monkeypatch):
    """Where W is truncated, the scale decides which of its directions are kept."""
    scores = np.linspace(0.01, 1, 160) ** 2
    monkeypatch.setattr(MODULE, "leverage_scores", lambda operator, **settings: scores)
    asked = []

    def kernel(X, Y):
        asked.append(Y.copy())
        return np.exp(-cdist(X, Y, "sqeuclidean") / 0.09)

    A = nystrom_leverage(points, kernel, rank=12, rng=seed)
    drawn = cdist(asked[-1], points).argmin(axis=1)

    def truncated(scale):
        C = kernel(points, points[drawn]) * scale
        U, s, _ = np.linalg.svd(scale[:, np.newaxis] * C[drawn])
        return C @ (U[:, :12] / s[:12]) @ U[:, :12].T @ C.T

    assert relative(A, truncated(1 / np.sqrt(24 * scores[drawn] / scores.sum()))) < 1e-8
    assert relative(A, truncated(np.ones(24))) > 1e-3


def test_as_good_as_uniform_where_leverage_is_even(many_points):
    kernel = bb.Gaussian(0.4)
    ratio = mean_error(nystrom_leverage, many_points, kernel, 30) / mean_error(nystrom, many_points, kernel, 30)
    assert 0.7 < ratio < 1.3


@pytest.mark.parametrize("seed", range(10))
def test_directions_of_rounding_have_no_leverage(seed):
    """Four places, 30 points in each: the other 36 directions of rank 40 are rounding errors."""
    X = np.repeat(np.random.default_rng(seed).normal(size=(4, 2)), 30, axis=0)
    A = nystrom_leverage(X, bb.Gaussian(1.0), rank=40, rng=seed)
    assert bb.relative_error(A, X, bb.Gaussian(1.0)).value < 1e-10
