from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._posterior import with_own_variances
from blockbasis.streaming import ArrayRows
from blockbasis.streaming.factorization import factorize_rows

SETTINGS = {
    "bandwidth": 1.0,
    "signal_variance": 1.0,
    "alpha": 0.01,
    "mean": None,
    "n_clusters": 4,
    "rank": 25,
    "random_state": 0,
    "n_jobs": 1,
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2000, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=2000)


def learnt(X, y, parts=1, **changes):
    model = bb.GaussianProcessRegressor(**(SETTINGS | changes))
    model.partial_fit(X[:500], y[:500])
    for rows in np.array_split(np.arange(500, len(X)), parts):
        model.partial_fit(X[rows], y[rows])
    return model


def test_chunks_give_the_process_of_one_call(data):
    X, y = data
    first, second = learnt(X, y), learnt(X, y, 50)
    for one, other in zip(first.predict(X, return_std=True), second.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_the_process_is_that_of_the_compressed_matrix_with_own_variances(data):
    """Dense conditioning with the covariance U C Uᵀ + D + noise of the same basis."""
    X, y = data
    model = learnt(X, y, n_clusters=1, rank=60)
    settings = {"dtype": np.float64, "diagonal": False, "workspace": None, "n_jobs": 1}
    A = with_own_variances(factorize_rows(model.stream_.functions, ArrayRows(X), **settings), X)
    K = A.todense()
    smooth = K - np.diag(A.diagonal_part) if A.diagonal_part is not None else K
    gain = np.linalg.solve(K + 0.01 * np.eye(len(X)), smooth)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    np.testing.assert_allclose(mean, gain.T @ y, atol=1e-6)
    expected = 1.0 - np.einsum("ij,ji->i", smooth, gain)
    np.testing.assert_allclose(std**2, expected, atol=1e-6)


def test_hyperparameters_are_chosen_from_the_first_rows(data):
    X, y = data
    model = bb.GaussianProcessRegressor(random_state=0, n_jobs=1, n_clusters=4, rank=40)
    model.partial_fit(ArrayRows(X[:800]), y[:800])
    mean, std = model.partial_fit(X[800:1500], y[800:1500]).predict(ArrayRows(X[1500:]), return_std=True)
    assert np.sqrt(np.mean((mean - y[1500:]) ** 2)) < 0.115
    assert np.mean(np.abs(mean - y[1500:]) < 1.96 * std) == pytest.approx(0.95, abs=0.03)
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.1, rel=0.1)
    assert not hasattr(model, "alpha_") and model.far_share_ < 0.05


def test_fit_of_rows_on_disk_and_a_fit_in_memory_afterwards(data, tmp_path):
    X, y = data
    model = bb.GaussianProcessRegressor(**SETTINGS).fit(ArrayRows(X), y)
    np.testing.assert_array_equal(model.predict(ArrayRows(X)), model.predict(X))
    bb.save(model, tmp_path / "process.bbf")
    again = bb.load(tmp_path / "process.bbf")
    np.testing.assert_array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    model.fit(X[:300], y[:300])
    assert not hasattr(model, "stream_") and model.alpha_.shape == (300,)


def test_several_targets_keep_their_scales(data):
    X, y = data
    model = learnt(X, np.stack([y, 100 * y], axis=1), normalize_y=True, mean="constant")
    mean, std = model.predict(X[:50], return_std=True)
    np.testing.assert_allclose(mean[:, 1], 100 * mean[:, 0], atol=1e-5)
    np.testing.assert_allclose(std[:, 1], 100 * std[:, 0], rtol=1e-6)


def test_what_a_stream_cannot_do_is_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="'alpha' parameter of GaussianProcessRegressor must be one number"):
        bb.GaussianProcessRegressor(**(SETTINGS | {"alpha": np.full(500, 0.1)})).partial_fit(X[:500], y[:500])
    model = learnt(X, y)
    with pytest.raises(ValueError, match="'return_cov' parameter"):
        model.predict(ArrayRows(X), return_cov=True)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(ArrayRows(np.zeros((4, 3))), np.zeros(4))
