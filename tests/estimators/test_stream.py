from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._stream import Batch, Stream, sums_of, targets_in_memory
from blockbasis.streaming import ArrayRows


@pytest.fixture(scope="module")
def begun():
    """A stream over 800 points, with two targets, and its points."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(800, 2))
    Y = np.stack([np.sin(X[:, 0]), 5 + X[:, 1]], axis=1) + 0.1 * rng.normal(size=(800, 2))
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=30, diagonal=False, rng=0)
    stream = Stream.begin(A, Batch(X, Y, None), rng, 1)
    return stream.plus(sums_of(stream.functions, Batch(X, Y, None), 1)), X, Y


def test_the_best_ridge_at_held_out_points_is_taken(begun):
    stream, X, Y = begun
    alphas = [np.full(2, alpha) for alpha in (1e-8, 0.3, 1e5)]
    solved = stream.solved(alphas, centred=True, n_jobs=1)
    assert solved.alpha.tolist() == [0.3, 0.3]
    assert np.abs(solved.regression(X, 1) - Y).mean() < 0.15


def test_held_out_points_are_predicted_by_the_others(begun):
    """Each regression of all but the held-out points, from sums that never saw them."""
    stream, X, Y = begun
    held = {tuple(row) for row in stream.held_out.X}
    others = np.array([tuple(row) not in held for row in X])
    assert others.sum() == 640
    sums = sums_of(stream.functions, Batch(X[others], Y[others], None), 1)
    expected = stream.regression(sums, np.full(2, 0.3), centred=True)(stream.held_out.X, 1)
    solved = stream.solved([np.full(2, 0.3)], centred=True, n_jobs=1)
    np.testing.assert_allclose(solved.held_out, expected, atol=1e-7)


def test_points_without_weight_are_not_held_out():
    X = np.random.default_rng(0).normal(size=(100, 2))
    weights = np.repeat([0.0, 1.0], 50)
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=2, rank=10, diagonal=False, rng=0)
    stream = Stream.begin(A, Batch(X, X[:, :1], weights), np.random.default_rng(0), 1)
    assert len(stream.held_out.X) == 10 and np.isin(stream.held_out.X, X[50:]).all()


def test_targets_are_read_into_memory_and_counted():
    rows = ArrayRows(np.arange(4.0))
    assert targets_in_memory(rows, 4, caller="fit").tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="'y' parameter of fit must have a target for each of the 5 rows"):
        targets_in_memory([1.0, 2.0], 5, caller="fit")
