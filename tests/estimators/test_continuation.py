from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import blockbasis as bb
from blockbasis.estimators import _continuation
from blockbasis.estimators._continuation import continued, extended, surroundings
from tests.repeating import first_of

SEEDS = range(5)
RIDGE = 0.1


def compressed(X, kernel, seed, **parameters):
    return bb.factorize(X, kernel, diagonal=False, rng=seed, **parameters)


def continuation_of(A, X, coefficients, seed, n_jobs=1):
    return continued(A, X, coefficients, surroundings(A, X, np.random.default_rng(seed), n_jobs), n_jobs)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.fixture(scope="module")
def heavy_tails():
    """600 points of heavy tails, a target, and 400 new points: some far from all others."""
    X = np.random.default_rng(5).standard_t(2.5, size=(1000, 3))
    return X[:600], (np.sin(X[:, 0]) + np.tanh(X[:, 1]))[:600], X[600:]


@pytest.mark.parametrize("points", ["regression", "heavy_tails"])
@pytest.mark.parametrize(("k", "rank"), first_of([(5, 15), (12, 15), (5, 40)]))
def test_new_points_come_nearer_to_the_exact_regression_than_by_the_extension_of_the_bases(request, points, k, rank):
    X, y, X_new = request.getfixturevalue(points)
    kernel = bb.Gaussian(2.0)
    K = kernel(X)
    exact = np.linalg.solve(K + RIDGE * np.eye(len(X)), y)
    at_points, at_new = K @ exact, kernel(X_new, X) @ exact
    ours, extended, learnt, moved = np.mean(
        [
            (
                rms(continuation_of(A, X, a[:, np.newaxis], seed)(X_new, 1)[:, 0] - at_new),
                rms(A.extend(X_new) @ a - at_new),
                rms(A @ a - at_points),
                rms(continuation_of(A, X, a[:, np.newaxis], seed)(X, 1)[:, 0] - A @ a),
            )
            for seed in SEEDS
            for A in [compressed(X, kernel, seed, n_clusters=k, rank=rank)]
            for a in [bb.RidgeSystem(A, RIDGE).solve(y)]
        ],
        axis=0,
    )
    assert ours < 0.95 * extended
    # At the points themselves the fit is no further from the values than these are from the exact ones.
    assert moved < learnt


def test_functions_are_continued_together_and_by_any_number_of_threads(regression):
    X, _, X_new = regression
    A = compressed(X, bb.Gaussian(2.0), 0, n_clusters=4, rank=15)
    coefficients = np.random.default_rng(0).normal(size=(400, 3))
    together = continuation_of(A, X, coefficients, 1)
    assert together.n_outputs == 3
    np.testing.assert_array_equal(together(X_new, 1), continuation_of(A, X, coefficients, 1, n_jobs=2)(X_new, 2))
    alone = continuation_of(A, X, coefficients[:, 1:2], 1)
    # One solve for three functions or for one rounds differently, by a share of the largest value.
    found = together(X_new, 1)[:, 1]
    np.testing.assert_allclose(found, alone(X_new, 1)[:, 0], atol=1e-9 * np.abs(found).max())


def test_an_uncompressed_matrix_is_the_exact_kernel(regression):
    X, _, X_new = regression
    kernel = bb.Laplacian(1.0)
    A = compressed(X, kernel, 0, n_clusters=1, rank=400)
    coefficients = np.random.default_rng(0).normal(size=(400, 1))
    found = continuation_of(A, X, coefficients, 0)(X_new, 1)
    np.testing.assert_allclose(found, kernel(X_new, X) @ coefficients, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("h", [1e-3, 0.3, 3.0, 300.0])
def test_values_stay_finite_and_bounded(dtype, h):
    """Duplicates, a lone point, clusters apart, bandwidths from none to all: never far beyond the exact values."""
    rng = np.random.default_rng(0)
    X = np.concatenate((rng.normal(size=(150, 2)), rng.normal(size=(40, 2)) + 8, np.zeros((20, 2)), [[40.0, 0.0]]))
    X, X_new = X.astype(dtype), np.concatenate((X + 0.05, 100 * X)).astype(dtype)
    A = compressed(X, bb.Gaussian(h), 0, n_clusters=6, rank=12)
    y = np.sign(X[:, 0]).astype(np.float64)
    values = continuation_of(A, X, bb.RidgeSystem(A, 1e-3).solve(y)[:, np.newaxis], 0)(X_new, 1)
    exact = KernelRidge(1e-3, kernel="rbf", gamma=h**-2.0).fit(X.astype(np.float64), y).predict(X_new)
    assert np.isfinite(values).all()
    assert np.abs(values).max() < 2 * max(1.0, np.abs(exact).max())


def test_a_small_cluster_sees_as_many_points_as_two_others():
    rng = np.random.default_rng(0)
    X = np.concatenate((rng.normal(size=(400, 2)), rng.normal(size=(5, 2)) + 6))
    A = compressed(X, bb.Gaussian(2.0), 0, partition=np.repeat([0, 1, 2], [200, 200, 5]), rank=5)
    rows = _continuation.with_neighbours(A.partition, X)
    assert min(len(each) for each in rows) >= 2 * 405 // 3
    for i, each in enumerate(rows):
        assert set(A.partition.order[A.partition.cluster(i)]) <= set(each)


def test_a_large_cluster_is_fitted_at_some_of_its_points(regression, monkeypatch):
    X, y, X_new = regression
    A = compressed(X, bb.Gaussian(3.0), 0, n_clusters=2, rank=10)
    a = bb.RidgeSystem(A, RIDGE).solve(y)[:, np.newaxis]
    of_all = continuation_of(A, X, a, 0)(X_new, 1)
    monkeypatch.setattr(_continuation, "_ROWS_PER_POINT", 4)
    of_some = continuation_of(A, X, a, 0)(X_new, 1)
    assert 0 < rms(of_all - of_some) < 0.2 * rms(of_all)


def in_single_precision(X, Y):
    """A Gaussian that rounds inside: definite to six digits only."""
    squares = ((X[:, np.newaxis].astype(np.float32) - Y.astype(np.float32)) ** 2).sum(axis=-1)
    return np.exp(-squares / 4).astype(np.float64)


@pytest.mark.parametrize("case", ["far point", "sites far apart", "rounding kernel", "kernel of zeros"])
def test_kernels_that_rounding_makes_indefinite_are_fitted(case):
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(600, 3))
    X, kernel, k, rank = {
        "far point": (np.concatenate((cloud, [[1e6, 0, 0]])), bb.Gaussian(2.0), 6, 12),
        "sites far apart": (np.repeat(rng.uniform(0, 1e4, (40, 3)), 15, axis=0) + 0.1 * cloud, bb.Gaussian(1.0), 8, 30),
        "rounding kernel": (cloud, in_single_precision, 6, 40),
        "kernel of zeros": (np.zeros((50, 2)), lambda X, Y: X @ Y.T, 3, 3),
    }[case]
    y = np.sin(cloud[: len(X), 0]) if len(X) < 601 else np.append(np.sin(cloud[:, 0]), 0.0)
    model = bb.KernelRidge(0.1, kernel=kernel, n_clusters=k, rank=rank, random_state=0).fit(X, y)
    values = model.predict(X)
    assert np.isfinite(values).all()
    if case in ("far point", "rounding kernel"):
        assert rms(values - y) < 0.1


def test_points_of_large_variance_do_not_drown_the_others():
    """The noise of a fit is that of its own cluster."""
    rng = np.random.default_rng(0)
    gaussian = bb.Gaussian(1.5)

    def kernel(X, Y):
        return (1 + (X**2).sum(axis=1))[:, np.newaxis] * (1 + (Y**2).sum(axis=1)) * gaussian.block(X, Y)

    X = np.concatenate((rng.normal(size=(600, 2)), rng.normal(size=(150, 2)) + 30))
    y, X_new = np.sin(X.sum(axis=1)), rng.normal(size=(200, 2))
    exact = kernel(X_new, X) @ np.linalg.solve(kernel(X, X) + RIDGE * np.eye(750), y)
    model = bb.KernelRidge(RIDGE, kernel=kernel, n_clusters=6, rank=30, random_state=0).fit(X, y)
    assert rms(model.predict(X_new) - exact) < 0.2 * rms(exact)


def test_skeleton_bases_are_extended_exactly(regression):
    X, _, X_new = regression
    A = compressed(X, bb.Gaussian(2.0), 0, n_clusters=4, rank=15)
    coefficients = np.random.default_rng(0).normal(size=(400, 3))
    found = extended(A, coefficients)
    np.testing.assert_allclose(found(X, 1), A @ coefficients, atol=1e-7)
    # The operator for new points shortens a few coordinates, a function does not.
    shortened, expected = A.extend(X_new) @ coefficients, found(X_new, 1)
    same = np.isclose(shortened, expected, atol=1e-8).all(axis=1)
    assert same.mean() > 0.9
    np.testing.assert_allclose(shortened, expected, rtol=1e-2)


@pytest.mark.parametrize(("n", "h"), [(1005, 0.3), (1005, 0.75), (1500, 0.3)])
@pytest.mark.parametrize("kernel", [bb.Gaussian, bb.Laplacian])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_predictions_stay_bounded_where_clusters_are_exact_and_the_bandwidth_is_small(n, h, kernel, seed):
    """Nothing is lost in such clusters: there is no noise, and no column for most points beyond the border."""
    rng = np.random.default_rng(seed)
    X, X_new = rng.normal(size=(n, 5)), rng.normal(size=(300, 5))
    y = rng.choice([-1.0, 1.0], size=n)
    model = bb.KernelRidge(1e-3, kernel=kernel(h), random_state=seed).fit(X, y)
    exact = kernel(h)(X_new, X) @ np.linalg.solve(kernel(h)(X) + 1e-3 * np.eye(n), y)
    assert np.abs(model.predict(X)).max() <= 1.3
    assert np.abs(model.predict(X_new)).max() <= 1.3 * np.abs(exact).max()
