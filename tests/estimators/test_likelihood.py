from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators.likelihood import climb, most_likely, with_own_variances


class Place:
    def __init__(self, value):
        self.value = value


def test_the_top_of_a_hill_between_the_places_of_a_grid():
    seen = []

    def evidence(x):
        seen.append(x)
        return Place(-((x - 1.3) ** 2))

    assert climb(evidence, np.arange(-4.0, 5.0, 2.0), 1e-3).value == pytest.approx(0, abs=1e-5)
    assert max(seen) <= 4
    assert climb(lambda x: Place(x), np.arange(3.0), 1e-3).value == pytest.approx(2)  # at the end of the grid


def test_places_that_cannot_be_factored_are_left_out():
    def evidence(x):
        if x < 0:
            raise np.linalg.LinAlgError("singular")
        if x > 3:
            raise MemoryError("too large")
        return Place(-((x - 2.9) ** 2))

    assert climb(evidence, np.arange(-4.0, 5.0, 1.0), 1e-3).value == pytest.approx(0, abs=1e-4)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        climb(evidence, np.array([-2.0, -1.0]), 1e-3)


def test_the_diagonal_becomes_the_kernels(many_points):
    A = bb.factorize(many_points, bb.Gaussian(0.3), n_clusters=4, rank=5, diagonal=False, rng=0)
    completed = with_own_variances(A, many_points)
    held = A.diagonal()
    np.testing.assert_allclose(completed.diagonal(), np.maximum(held, 1), atol=1e-12)
    assert (held < 0.9).any()
    whole = bb.factorize(many_points, bb.Gaussian(0.3), n_clusters=1, rank=600, diagonal=False, rng=0)
    assert with_own_variances(whole, many_points) is whole


def test_free_parameters_are_not_beaten_by_a_fine_grid(many_points):
    y = np.sin(5 * many_points[:, :1]) + 0.2 * np.random.default_rng(0).normal(size=(600, 1))
    A = bb.factorize(many_points, bb.Gaussian(0.7), n_clusters=3, rank=15, diagonal=False, rng=0)
    A = with_own_variances(A, many_points)
    best = most_likely(A, y, None, None)
    signals, noises = best.signal_variance * np.geomspace(0.5, 2, 7), best.noise_variance * np.geomspace(0.5, 2, 7)
    values = [[most_likely(A, y, s, v).value for v in noises] for s in signals]
    assert np.max(values) == pytest.approx(values[3][3])
    assert values[3][3] == pytest.approx(best.value, rel=1e-10)
    assert best.value >= np.max(values) - 1e-8


def test_the_likelihood_where_the_compression_loses_most_of_the_variance(many_points):
    """The reason for D: without it the noise must account for what is lost."""
    kernel = bb.Gaussian(0.1)
    y = np.sin(5 * many_points[:, :1]) + 0.5 * np.random.default_rng(0).normal(size=(600, 1))
    exact = bb.factorize(many_points, kernel, n_clusters=1, rank=600, diagonal=False, rng=0)
    truth = most_likely(exact, y, 1.0, 0.2).value
    for seed in range(3):
        A = bb.factorize(many_points, kernel, n_clusters=5, rank=15, diagonal=False, rng=seed)
        without = abs(most_likely(A, y, 1.0, 0.2).value - truth)
        with_diagonal = abs(most_likely(with_own_variances(A, many_points), y, 1.0, 0.2).value - truth)
        assert with_diagonal < 0.5 * without
