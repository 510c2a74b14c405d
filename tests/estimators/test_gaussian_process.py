from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as Exact
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import blockbasis as bb
from blockbasis import GaussianProcessRegressor
from blockbasis._utils import machine
from blockbasis.estimators import _likelihood, _local_posterior, gaussian_process
from tests.repeating import first_of

FIXED = {"bandwidth": 1.5, "signal_variance": 2.0, "alpha": 0.1, "mean": None, "random_state": 0}
OF_THE_FUNCTION = {"return_std": True, "include_noise": False}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=200) + 1.0
    return X, y, rng.normal(size=(60, 2))


def exact(h=1.5, signal=2.0, noise=0.1, **settings):
    kernel = ConstantKernel(signal) * RBF(bb.Gaussian(h).length_scale)
    return Exact(kernel, alpha=noise, optimizer=None, **settings)


@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_equal_to_scikit_learns(data, normalize_y, n_targets):
    X, y, X_new = data
    Y = y if n_targets is None else np.column_stack([(j + 1) * np.roll(y, j) + j for j in range(n_targets)])
    ours = GaussianProcessRegressor(**FIXED, normalize_y=normalize_y).fit(X, Y)
    theirs = exact(normalize_y=normalize_y).fit(X, Y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-10)
    np.testing.assert_allclose(ours.alpha_, theirs.alpha_, rtol=1e-8, atol=1e-10)
    mean, std = ours.predict(X_new, **OF_THE_FUNCTION)
    expected_mean, expected_std = theirs.predict(X_new, return_std=True)
    if n_targets == 1:  # scikit-learn drops the axis; here predictions have the shape of the targets
        expected_mean, expected_std = expected_mean[:, np.newaxis], expected_std[:, np.newaxis]
    np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
    np.testing.assert_allclose(std, expected_std, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X_new), expected_mean, atol=1e-8)
    cov = ours.predict(X_new, return_cov=True, include_noise=False)[1]
    expected_cov = theirs.predict(X_new, return_cov=True)[1]
    np.testing.assert_allclose(cov, expected_cov.reshape(cov.shape), atol=1e-5)


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_high_rank_comes_as_near(many_points, seed):
    X, X_new = many_points[:500], many_points[500:]
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * np.random.default_rng(0).normal(size=500)
    theirs = exact(1.0, 1.0, 0.05).fit(X, y)
    expected_mean, expected_std = theirs.predict(X_new, return_std=True)
    model = GaussianProcessRegressor(
        bandwidth=1.0, signal_variance=1.0, alpha=0.05, mean=None, n_clusters=2, rank=160, random_state=seed
    )
    mean, std = model.fit(X, y).predict(X_new, **OF_THE_FUNCTION)
    assert model.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-4)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-3)
    np.testing.assert_allclose(std, expected_std, atol=1e-3)


def test_equal_to_scikit_learns_on_abalone(abalone):
    X, X_new = abalone[:900], abalone[900:1000]
    y = np.tanh(X @ np.arange(1, 9)) + 0.3 * np.random.default_rng(0).normal(size=900)
    ours = GaussianProcessRegressor(bandwidth=3.0, signal_variance=1.0, alpha=0.1, mean=None).fit(X, y)
    theirs = exact(3.0, 1.0, 0.1).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
    for found, expected in zip(
        ours.predict(X_new, **OF_THE_FUNCTION), theirs.predict(X_new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_parameters_of_largest_likelihood(data):
    X, y, _ = data
    theirs = Exact(ConstantKernel() * RBF() + WhiteKernel(), n_restarts_optimizer=2, random_state=0).fit(X, y)
    ours = GaussianProcessRegressor(bb.Gaussian(1.0), mean=None, random_state=0).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-2)
    assert ours.bandwidth_ == pytest.approx(np.sqrt(2) * theirs.kernel_.k1.k2.length_scale, rel=0.05)
    assert ours.noise_variance_ == pytest.approx(theirs.kernel_.k2.noise_level, rel=0.05)
    assert ours.signal_variance_ == pytest.approx(theirs.kernel_.k1.k1.constant_value, rel=0.2)


@pytest.mark.parametrize("free", ["bandwidth", "signal_variance", "alpha"])
def test_one_parameter_alone_has_the_largest_likelihood(data, free):
    X, y, _ = data
    settings = {**FIXED, "n_clusters": 2, "rank": 40}
    model = GaussianProcessRegressor(**{**settings, free: "auto"}).fit(X, y)
    fitted = {"bandwidth": "bandwidth_", "signal_variance": "signal_variance_", "alpha": "noise_variance_"}[free]
    chosen = getattr(model, fitted)
    again = GaussianProcessRegressor(**{**settings, free: chosen}).fit(X, y)
    if free != "bandwidth":  # the search draws its own seed
        assert again.log_marginal_likelihood_value_ == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
    for factor in (0.7, 1.4):
        other = GaussianProcessRegressor(**{**settings, free: factor * chosen}).fit(X, y)
        assert other.log_marginal_likelihood_value_ < model.log_marginal_likelihood_value_


def test_noise_that_differs_from_point_to_point(data):
    X, y, X_new = data
    noise = np.random.default_rng(1).uniform(0.01, 1.0, size=len(X))
    ours = GaussianProcessRegressor(**{**FIXED, "alpha": noise}).fit(X, y)
    theirs = exact(noise=noise).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-10)
    np.testing.assert_allclose(ours.predict(X_new), theirs.predict(X_new), atol=1e-8)
    np.testing.assert_allclose(ours.noise_variance_, noise)
    free = GaussianProcessRegressor(bandwidth=1.5, alpha=noise, random_state=0).fit(X, y)
    assert free.log_marginal_likelihood_value_ >= ours.log_marginal_likelihood_value_


@pytest.mark.parametrize("settings", [{}, {"n_clusters": 4, "rank": 5}, {"n_clusters": 20, "rank": 10}])
def test_far_from_the_data_the_prior_returns(data, settings):
    X, y, _ = data
    model = GaussianProcessRegressor(**FIXED, **settings).fit(X, y)
    far = np.array([[100.0, 0.0], [-1e4, 1e4]])
    mean, std = model.predict(far, **OF_THE_FUNCTION)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(2.0), rtol=1e-12)
    np.testing.assert_allclose(model.predict(far, return_cov=True, include_noise=False)[1], 2 * np.eye(2), atol=1e-12)


@pytest.mark.parametrize("rank", [1, 5, 10, 200])
@pytest.mark.parametrize("h", [0.1, 1.0, 10.0])
def test_no_deviation_exceeds_the_prior(data, rank, h):
    X, y, X_new = data
    model = GaussianProcessRegressor(
        bandwidth=h, signal_variance=2.0, alpha=0.1, n_clusters=20, rank=rank, random_state=0
    ).fit(X, y)
    mean, std = model.predict(np.vstack((X, X_new)), **OF_THE_FUNCTION)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert (std <= np.sqrt(2.0) * (1 + 1e-10)).all()
    np.testing.assert_allclose(model.predict(np.vstack((X, X_new))), mean, atol=1e-10)


def test_the_likelihood_is_that_of_the_compressed_prior_with_the_kernels_diagonal(data):
    X, y, _ = data
    model = GaussianProcessRegressor(**FIXED, n_clusters=3, rank=6).fit(X, y)
    A = model._factorize(X, bb.Gaussian(1.5), model._streams(2)[1].spawn(2)[0])
    covariance = A.todense()
    np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 1.0))
    covariance = 2.0 * covariance + 0.1 * np.eye(len(X))
    value = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-8)


def test_samples_have_the_mean_and_the_covariance(data):
    X, y, X_new = data
    model = GaussianProcessRegressor(**FIXED, n_clusters=2, rank=60).fit(X, y)
    mean, cov = model.predict(X_new[:5], return_cov=True, include_noise=False)
    draws = model.sample_y(X_new[:5], n_samples=20_000, random_state=1)
    assert draws.shape == (5, 20_000)
    spread = np.sqrt(np.diagonal(cov))
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * spread.max() / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(draws), cov, atol=5 * cov.max() * np.sqrt(2 / 20_000))
    np.testing.assert_array_equal(draws, model.sample_y(X_new[:5], n_samples=20_000, random_state=1))
    several = GaussianProcessRegressor(**FIXED).fit(X, np.column_stack((y, -2 * y)))
    assert several.sample_y(X_new[:4], 3).shape == (4, 2, 3)


def test_covariances_are_semidefinite_however_coarse(data):
    X, y, X_new = data
    for rank in (2, 8):
        model = GaussianProcessRegressor(**FIXED, n_clusters=10, rank=rank).fit(X, y)
        cov = model.predict(np.vstack((X[::4], X_new)), return_cov=True, include_noise=False)[1]
        np.testing.assert_array_equal(cov, cov.T)
        assert np.linalg.eigvalsh(cov)[0] > -1e-10


def test_other_kernels(data):
    X, y, X_new = data
    ours = GaussianProcessRegressor(bb.Matern(1.2, 2.5), bandwidth=None, signal_variance=1.0, alpha=0.1, mean=None).fit(
        X, y
    )
    theirs = Exact(Matern(1.2, nu=2.5), alpha=0.1, optimizer=None).fit(X, y)
    assert ours.kernel_ == bb.Matern(1.2, 2.5)
    np.testing.assert_allclose(ours.predict(X_new), theirs.predict(X_new), atol=1e-7)


def test_a_function_as_kernel_with_a_variance_of_its_own(data):
    X, y, X_new = data

    def kernel(X, Y):
        return 3 * np.exp(-((X[:, np.newaxis] - Y) ** 2).sum(axis=2)) + X @ Y.T

    model = GaussianProcessRegressor(kernel, signal_variance=1.0, alpha=0.1, mean=None, random_state=0).fit(X, y)
    assert model.bandwidth_ is None
    K, cross = kernel(X, X) + 0.1 * np.eye(len(X)), kernel(X_new, X)
    mean, std = model.predict(X_new, **OF_THE_FUNCTION)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), atol=1e-7)
    expected = np.diagonal(kernel(X_new, X_new)) - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    np.testing.assert_allclose(std**2, expected, atol=1e-4)


def test_the_seed_alone_decides(data):
    X, y, X_new = data
    X, y = X[:80], y[:80]
    settings = {"n_clusters": 4, "rank": 8, "alpha": 0.1, "random_state": 3}
    first = GaussianProcessRegressor(**settings, n_jobs=1).fit(X, y)
    second = GaussianProcessRegressor(**settings, n_jobs=2).fit(X, y)
    assert first.log_marginal_likelihood_value_ == second.log_marginal_likelihood_value_
    np.testing.assert_array_equal(first.predict(X_new), second.predict(X_new))
    other = GaussianProcessRegressor(**{**settings, "random_state": 4}).fit(X, y)
    assert (other.predict(X_new) != first.predict(X_new)).any()


def test_float32_pandas_pipelines_grids_and_copies(data):
    X, y, X_new = data
    model = GaussianProcessRegressor(**FIXED).fit(X, y)
    single = clone(model).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X_new.astype(np.float32)), model.predict(X_new), atol=1e-2)
    named = clone(model).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert list(named.feature_names_in_) == ["a", "b"]
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X_new, **OF_THE_FUNCTION)[1], model.predict(X_new, **OF_THE_FUNCTION)[1])
    assert make_pipeline(StandardScaler(), GaussianProcessRegressor(**FIXED)).fit(X, y).score(X, y) > 0.8
    search = GridSearchCV(GaussianProcessRegressor(**FIXED), {"bandwidth": [0.01, 1.5]}, cv=3).fit(X, y)
    assert search.best_params_ == {"bandwidth": 1.5}


@pytest.mark.parametrize("settings", [{}, {"n_clusters": 3, "rank": 10}])
def test_saved_and_loaded(data, tmp_path, settings):
    X, y, X_new = data
    model = GaussianProcessRegressor(**FIXED, **settings, normalize_y=True).fit(X, y)
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    assert again.get_params() == model.get_params()
    assert again.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    for kind in ({}, {"return_std": True}, {"return_cov": True}):
        np.testing.assert_array_equal(np.vstack(again.predict(X_new, **kind)), np.vstack(model.predict(X_new, **kind)))


def test_constant_targets(data):
    X, _, X_new = data
    mean, std = (
        GaussianProcessRegressor(normalize_y=True, random_state=0)
        .fit(X, np.full(200, 7.3))
        .predict(X_new, **OF_THE_FUNCTION)
    )
    np.testing.assert_allclose(mean, 7.3)
    np.testing.assert_allclose(std, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "'alpha' parameter of GaussianProcessRegressor"),
        ({"alpha": "none"}, TypeError, "'alpha' parameter of GaussianProcessRegressor"),
        ({"alpha": np.ones(3)}, ValueError, "one for each of the 200 points"),
        ({"signal_variance": 0.0}, ValueError, "'signal_variance' parameter of GaussianProcessRegressor"),
        ({"signal_variance": "median"}, TypeError, "'signal_variance' parameter"),
        ({"bandwidth": -1.0}, ValueError, "'bandwidth' parameter of GaussianProcessRegressor"),
        ({"normalize_y": "yes"}, TypeError, "'normalize_y' parameter"),
        ({"bandwidth": [1.0, 0.0]}, ValueError, "'bandwidth' parameter of GaussianProcessRegressor"),
        ({"bandwidth": [1.0, np.nan]}, ValueError, "'bandwidth' parameter of GaussianProcessRegressor"),
        ({"bandwidth": [1.0, 1.0, 1.0]}, ValueError, "must have 3 columns"),
        ({"mean": "cubic"}, ValueError, "'mean' parameter of GaussianProcessRegressor"),
        ({"n_restarts_optimizer": -1}, ValueError, "'n_restarts_optimizer' parameter"),
        ({"kernel": "cubic"}, ValueError, "'kernel' parameter of GaussianProcessRegressor"),
        ({"n_clusters": 0}, ValueError, "'n_clusters' parameter of GaussianProcessRegressor"),
    ],
)
def test_bad_parameters(data, settings, error, message):
    X, y, _ = data
    with pytest.raises(error, match=message):
        GaussianProcessRegressor(**{**FIXED, **settings}).fit(X, y)


def test_bad_data(data):
    X, y, X_new = data
    model = GaussianProcessRegressor(**FIXED)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.where(np.arange(200) == 3, np.nan, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(NotFittedError):
        clone(model).predict(X_new)
    with pytest.raises(RuntimeError, match="At most one"):
        model.fit(X, y).predict(X_new, return_std=True, return_cov=True)
    with pytest.raises(TypeError, match="'include_noise' parameter"):
        model.predict(X_new, return_std=True, include_noise="no")
    with pytest.raises(ValueError, match="'n_samples' parameter"):
        model.sample_y(X_new, 0)


def test_no_noise_on_points_that_coincide():
    X = np.repeat(np.linspace(0, 1, 10), 2)[:, np.newaxis]
    with pytest.raises(np.linalg.LinAlgError, match="larger 'alpha' to GaussianProcessRegressor"):
        GaussianProcessRegressor(bandwidth=1.0, signal_variance=1.0, alpha=0.0).fit(X, X[:, 0])


# --- hyperparameters and mean ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_lengths_tell_which_columns_matter(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 10)) * np.geomspace(1e-3, 1e3, 10)
    Z = X / X.std(axis=0)
    y = np.sin(2 * Z[:, 1]) + Z[:, 4] * Z[:, 7] + 0.1 * rng.normal(size=300)
    model = GaussianProcessRegressor(random_state=seed).fit(X, y)
    lengths = model.bandwidth_ / X.std(axis=0)
    assert np.delete(lengths, [1, 4, 7]).min() > 10 * lengths[[1, 4, 7]].max()
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.1, rel=0.2)


def test_all_parts_of_a_sum_are_fitted(data):
    X, y, _ = data
    kernel = 1.0 * bb.Gaussian([1.0, 1.0]) + 0.5 * bb.Matern(3.0) + bb.White(0.3)
    model = GaussianProcessRegressor(kernel, signal_variance=1.0, alpha=1e-10, mean=None, random_state=0).fit(X, y)
    theirs = Exact(kernel.to_sklearn(), n_restarts_optimizer=2, random_state=0).fit(X, y)
    assert type(model.kernel_) is type(kernel)
    assert model.bandwidth_ is None
    assert model.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 0.05
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.4)


def test_a_linear_mean_goes_on_beyond_the_data(data):
    X, _, _ = data
    rng = np.random.default_rng(0)
    y = 3.0 + 2.0 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=200)
    far = np.array([[30.0, -20.0]])
    linear = GaussianProcessRegressor(mean="linear", random_state=0).fit(X, y)
    assert linear.predict(far)[0] == pytest.approx(83.0, rel=0.05)
    constant = GaussianProcessRegressor(mean="constant", bandwidth=1.0, random_state=0).fit(X, y)
    assert constant.predict(far)[0] == pytest.approx(y.mean())
    assert GaussianProcessRegressor(mean=None, bandwidth=1.0, random_state=0).fit(X, y).predict(far)[0] == 0
    shifted = GaussianProcessRegressor(mean="constant", bandwidth=1.0, random_state=0).fit(X, y + 1e4)
    np.testing.assert_allclose(shifted.predict(X) - 1e4, constant.predict(X), atol=1e-3)


def test_deviations_of_new_targets_have_the_noise(data):
    X, y, X_new = data
    model = GaussianProcessRegressor(**FIXED).fit(X, y)
    _, function = model.predict(X_new, **OF_THE_FUNCTION)
    _, target = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(target**2, function**2 + 0.1, rtol=1e-10)
    _, covariance = model.predict(X_new, return_cov=True)
    _, of_function = model.predict(X_new, return_cov=True, include_noise=False)
    np.testing.assert_allclose(covariance - of_function, 0.1 * np.eye(60), atol=1e-12)
    noises = np.linspace(0.05, 0.15, 200)
    varied = GaussianProcessRegressor(**{**FIXED, "alpha": noises}).fit(X, y)
    of_targets, of_functions = (varied.predict(X_new, return_std=True, include_noise=flag)[1] for flag in (True, False))
    np.testing.assert_allclose(of_targets**2 - of_functions**2, 0.1, rtol=1e-6)


@pytest.fixture
def many(monkeypatch):
    """Points beyond the number that is kept exactly, which is smaller here."""
    for module in (_likelihood, gaussian_process):
        monkeypatch.setattr(module, "SAMPLE_POINTS", 400)
    monkeypatch.setattr(_local_posterior, "INDUCING_POINTS", 100)
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, size=(1_800, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 5.0 + 0.2 * rng.standard_normal(1_800)
    return X[:800], y[:800], X[800:], y[800:]


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_intervals_cover_what_they_say(many, seed):
    X, y, X_new, y_new = many
    model = GaussianProcessRegressor(random_state=seed).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    for deviations, coverage in ((1.2816, 0.8), (1.96, 0.95)):
        assert np.mean(np.abs(y_new - mean) < deviations * std) == pytest.approx(coverage, abs=0.04)
    assert np.sqrt(np.mean((y_new - mean) ** 2)) < 0.22
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.2, rel=0.1)


def test_many_points_come_near_to_the_exact_process(many, tmp_path):
    X, y, X_new, _ = many
    settings = {"bandwidth": [1.0, 2.0], "signal_variance": 0.5, "alpha": 0.04, "random_state": 0}
    model = GaussianProcessRegressor(**settings).fit(X, y)
    exact = GaussianProcessRegressor(**settings, n_clusters=1, rank=800).fit(X, y)
    found, expected = (each.predict(X_new, **OF_THE_FUNCTION) for each in (model, exact))
    np.testing.assert_allclose(found[0], expected[0], atol=0.02)
    np.testing.assert_allclose(found[1], expected[1], atol=0.01)
    assert model.alpha_.shape == (800,)
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    np.testing.assert_array_equal(again.predict(X_new, return_std=True)[1], model.predict(X_new, return_std=True)[1])
    assert model.sample_y(X_new[:5], 3).shape == (5, 3)
    few = GaussianProcessRegressor(**settings, n_clusters=2).fit(X, y)
    assert len(few._posterior.noises) == 2


# --- data at the edge ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    mean, std = GaussianProcessRegressor(random_state=0).fit(X, X[:, 0]).predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    np.testing.assert_allclose(mean.mean(), X[:, 0].mean(), atol=0.5)


def test_columns_that_do_not_vary_change_nothing(data):
    X, y, X_new = data
    wide, wide_new = (np.column_stack((np.full(len(each), 7.0), each)) for each in (X, X_new))
    settings = {"alpha": 0.1, "random_state": 0}
    model = GaussianProcessRegressor(**settings).fit(wide, y)
    assert np.isfinite(model.bandwidth_).all()
    expected = GaussianProcessRegressor(**settings).fit(X, y).predict(X_new)
    np.testing.assert_allclose(model.predict(wide_new), expected, atol=0.05)
    GaussianProcessRegressor(mean="linear", random_state=0).fit(np.zeros((20, 2)), np.arange(20.0)).predict([[0, 0]])


@pytest.mark.parametrize("mean", [None, "constant", "linear"])
@pytest.mark.parametrize("scale", [1e160, 1e-170, 1e-20, 1e20])
def test_targets_of_any_size(data, scale, mean):
    X, y, X_new = data
    settings = {"bandwidth": 1.5, "mean": mean, "random_state": 0}
    expected = GaussianProcessRegressor(normalize_y=True, **settings).fit(X, y).predict(X_new, return_std=True)
    found = GaussianProcessRegressor(normalize_y=True, **settings).fit(X, scale * y).predict(X_new, return_std=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one / scale, other, rtol=1e-5, atol=1e-7)
    plain = GaussianProcessRegressor(**settings)
    if 1e-150 < scale < 1e150:
        assert np.isfinite(plain.fit(X, scale * y).predict(X_new, return_std=True)).all()
    else:
        with pytest.raises(ValueError, match="variance that float64 can hold.*normalize_y=True"):
            plain.fit(X, scale * y)


@pytest.mark.parametrize("value", [0.0, 7.3, -1e200])
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.1}, {"signal_variance": 1.0}, {"normalize_y": True}])
def test_targets_that_do_not_vary(data, value, settings):
    X, _, X_new = data
    model = GaussianProcessRegressor(**settings, random_state=0).fit(X, np.full(200, value))
    mean, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, value)
    assert np.isfinite(std).all()


def test_deviations_of_float32_points_are_those_of_the_textbook():
    """A smooth kernel: the entries of float32 left variances of 0.03 off by 0.4."""
    X = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    kernel = bb.Cauchy(7.0)
    model = GaussianProcessRegressor(kernel, bandwidth=None, signal_variance=1.0, alpha=0.1, mean=None, random_state=0)
    _, deviations = model.fit(X, X[:, 0]).predict(X, **OF_THE_FUNCTION)
    K = kernel(X.astype(np.float64))
    variances = 1 - np.einsum("ij,ji->i", K, np.linalg.solve(K + 0.1 * np.eye(30), K))
    np.testing.assert_allclose(deviations**2, variances, atol=1e-6)


def test_a_process_that_does_not_fit_is_refused(data, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10**7)
    with pytest.raises(MemoryError, match="This process would take"):
        GaussianProcessRegressor(**FIXED).fit(*data[:2])


@pytest.mark.parametrize("n", [200, 335])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_targets_without_noise_are_predicted_beyond_the_rounding_of_the_covariance(n, seed):
    """The likeliest variance of the signal is as large as it may be: the noise must stay above the rounding of it."""
    rng = np.random.default_rng(seed)
    X, X_new = rng.normal(size=(n, 4)), rng.normal(size=(200, 4))
    process = bb.GaussianProcessRegressor(random_state=seed).fit(X, X[:, :3].sum(axis=1))
    mean, deviation = process.predict(X_new, return_std=True)
    error = mean - X_new[:, :3].sum(axis=1)
    assert np.sqrt(np.mean(error**2)) < 1e-3
    assert np.mean(np.abs(error) < 1.96 * deviation) > 0.9
