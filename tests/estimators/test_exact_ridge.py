from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis._utils import machine
from blockbasis.estimators._exact_ridge import leave_one_out, ridge_walk, rows_of_walk, seconds_of_walk

RIDGES = [4.0**power for power in range(-8, 6)]


@pytest.fixture(scope="module", params=[0, 1, 2])
def noisy(request):
    """Points, noisy targets and weights."""
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(150, 2))
    return X, np.sin(X[:, :1]) + 0.3 * rng.normal(size=(150, 1)), rng.uniform(0.5, 2.0, 150)


def errors(noisy, weights):
    X, Y, _ = noisy
    residuals = [leave_one_out(bb.Gaussian(1.0)(X), Y, weights, alpha)[1] for alpha in RIDGES]
    return [float(np.average(each[:, 0] ** 2, weights=weights)) for each in residuals]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("start", [0, 5, 8, 13])
def test_a_walk_finds_the_ridge_of_least_error(noisy, start, weighted):
    X, Y, weights = noisy[0], noisy[1], noisy[2] if weighted else None
    walked = ridge_walk(bb.Gaussian(1.0), X, Y, weights, RIDGES, start)
    found = min(walked, key=lambda each: np.average(each.left_out[:, 0] ** 2, weights=weights))
    assert found.alpha == RIDGES[int(np.argmin(errors(noisy, weights)))]
    assert len({each.alpha for each in walked}) == len(walked) <= abs(RIDGES.index(found.alpha) - start) + 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_large_matrix_is_solved_by_tiles(noisy, n_jobs):
    X, Y, weights = noisy
    K = bb.Gaussian(1.0)(X)
    expected = leave_one_out(K.copy(), Y, weights, 0.1)
    for found, exact in zip(leave_one_out(K.copy(), Y, weights, 0.1, n_jobs, tiled_rows=10), expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="ridge of 1e-05"):
        leave_one_out(-K, Y, weights, 1e-5, n_jobs, tiled_rows=10)


def test_float32_has_its_digits(noisy):
    X, Y, weights = noisy
    K = bb.Gaussian(1.0)(X)
    for alpha in (1e-3, 1e-1):
        expected = leave_one_out(K.copy(), Y, weights, alpha)[1]
        found = leave_one_out(K.astype(np.float32), Y, weights, alpha)[1]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())


def test_ridges_too_small_are_passed_over():
    X = np.zeros((20, 1))
    walked = ridge_walk(bb.Gaussian(1.0), X, np.ones((20, 1)), None, [1e-300, 1e-200, 0.1], 0)
    assert [each.alpha for each in walked] == [0.1]
    with pytest.raises(np.linalg.LinAlgError, match="not definite with a ridge of 1e-200"):
        ridge_walk(bb.Gaussian(1.0), X, np.ones((20, 1)), None, [1e-300, 1e-200], 1)


def test_time_grows_with_the_cube_of_the_points():
    seconds_of_walk(1_000, 1)  # the first call loads the library
    assert seconds_of_walk(20_000, 3) > 100 * seconds_of_walk(2_000, 1)
    assert rows_of_walk(1000.0, 1) > 3 * rows_of_walk(1.0, 1) > 0


def test_many_points_are_in_float32_where_the_ridge_is_above_rounding(noisy):
    X, Y, weights = noisy
    kernel, alphas = bb.Laplacian(2.0), [1e-7, 1e-2]
    double = [ridge_walk(kernel, X, Y, weights, [alpha], 0)[0] for alpha in alphas]
    small, large = (ridge_walk(kernel, X, Y, weights, [alpha], 0, double_points=100)[0] for alpha in alphas)
    np.testing.assert_array_equal(small.left_out, double[0].left_out)
    assert large.left_out.dtype == large.coefficients.dtype == np.float64
    assert not np.array_equal(large.left_out, double[1].left_out)
    np.testing.assert_allclose(large.left_out, double[1].left_out, atol=1e-3)


def test_a_matrix_that_does_not_fit_is_refused(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 2))
    monkeypatch.setattr(machine, "available_memory", lambda: 8 * 100**2)
    with pytest.raises(MemoryError, match="This regression would take .* What would fit: a compressed fit"):
        ridge_walk(bb.Gaussian(1.0), X, X[:, :1], None, [1.0], 0)
