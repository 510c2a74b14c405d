from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import kernel_ridge
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import blockbasis as bb
from blockbasis.estimators import _ridge_base
from blockbasis.estimators._continuation import continued, surroundings
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._local import LOCAL_POINTS_PER_RANK, regressed_locally
from tests.repeating import first_of

COMPRESSED = {"n_clusters": 5, "rank": 20, "random_state": 0}


def dense_coefficients(A, y, ridge):
    return np.linalg.solve(A.todense() + np.diag(np.broadcast_to(ridge, len(y))), y)


# --- equal to what it must equal -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_few_points_are_those_of_scikit_learn(regression, weighted):
    X, y, X_new = regression
    weights = np.random.default_rng(2).integers(0, 4, len(X)).astype(float) if weighted else None
    Y = np.stack([y, y**2, -y], axis=1)
    alpha = np.array([0.1, 1.0, 0.1])
    ours = bb.KernelRidge(alpha, bandwidth=1.5).fit(X, Y, weights)
    theirs = kernel_ridge.KernelRidge(alpha=alpha, kernel="rbf", gamma=1 / 1.5**2).fit(X, Y, weights)
    np.testing.assert_allclose(ours.predict(X_new), theirs.predict(X_new), atol=1e-9)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-8)
    np.testing.assert_array_equal(ours.alpha_, alpha)


def test_default_bandwidth_is_the_default_gamma_of_scikit_learn(regression):
    X, y, X_new = regression
    theirs = kernel_ridge.KernelRidge(kernel="rbf").fit(X, y)
    np.testing.assert_allclose(bb.KernelRidge().fit(X, y).predict(X_new), theirs.predict(X_new), atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 400)])
def test_coefficients_solve_the_compressed_system_and_are_continued(regression, monkeypatch, weights, share):
    X, y, X_new = regression
    monkeypatch.setattr(_ridge_base, "best_shares", lambda *_: np.array([share]))
    model = bb.KernelRidge(0.1, bandwidth=2.0, **COMPRESSED).fit(X, y, weights)
    A = model.factorization_
    assert A.n_clusters == 5 and A.diagonal_part is None
    expected = dense_coefficients(A, y, 0.1 if weights is None else 0.1 / weights)
    np.testing.assert_allclose(model.dual_coef_, expected, rtol=1e-8, atol=1e-8)
    around = surroundings(A, X, model._streams(3)[2], 1, LOCAL_POINTS_PER_RANK)
    continuation = continued(A, X, expected[:, np.newaxis], around, 1)
    (local,), _ = regressed_locally(A, X, y[:, np.newaxis], [np.array([0.1])], weights, around, 1)
    alone = Expansion(A.kernel, A.partition.centers, tuple(place.points for place in around), local, continuation.blend)
    mixture = (1 - share) * continuation(X_new, 1) + share * alone(X_new, 1)
    np.testing.assert_allclose(model.predict(X_new), mixture[:, 0], atol=1e-8)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 200)])
def test_leave_one_out_is_that_of_n_regressions(regression, monkeypatch, weights):
    """Of the compressed matrix alone; those of local regressions have their own test."""
    X, y = regression[0][:200], regression[1][:200]
    monkeypatch.setattr(_ridge_base, "best_shares", lambda *_: np.zeros(1))
    alphas = [1e-3, 0.1, 10.0]
    model = bb.KernelRidge(alphas, bandwidth=2.0, **COMPRESSED).fit(X, y, weights)
    K = model.factorization_.todense()
    errors = []
    for alpha in alphas:
        ridges = np.full(len(y), alpha) if weights is None else alpha / weights
        left = np.empty_like(y)
        for i in range(len(y)):
            others = np.arange(len(y)) != i
            a = np.linalg.solve(K[np.ix_(others, others)] + np.diag(ridges[others]), y[others])
            left[i] = y[i] - K[i, others] @ a
        errors.append(np.average(left**2, weights=weights))
    np.testing.assert_allclose(-model.cv_results_["mean_test_score"], errors, rtol=1e-6)
    assert model.alpha_ == alphas[int(np.argmin(errors))]
    assert model.cv_results_["rank_test_score"][int(np.argmin(errors))] == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_tight_tolerance_is_the_exact_regression(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1200, 3))
    y = np.sin(X[:, 0]) + rng.normal(size=1200)
    ours = bb.KernelRidge(0.1, bandwidth=1.0, tol=1e-8, random_state=seed).fit(X, y)
    theirs = kernel_ridge.KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y)
    X_new = rng.normal(size=(200, 3))
    np.testing.assert_allclose(ours.predict(X_new), theirs.predict(X_new), atol=1e-8)


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_compressed_predictions_come_near_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    exact = kernel_ridge.KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y)
    ours = bb.KernelRidge(0.1, bandwidth=1.0, n_clusters=6, rank=25, random_state=seed).fit(X, y)
    X_new = rng.uniform(-1, 1, size=(300, 2))
    assert np.abs(ours.predict(X_new) - exact.predict(X_new)).max() < 0.05


# --- what is chosen --------------------------------------------------------------------------------------------------


def test_bandwidth_and_ridge_are_chosen_together(regression):
    X, y, _ = regression
    model = bb.KernelRidge([0.01, 100.0], bandwidth=[0.05, 2.0, 50.0], **COMPRESSED).fit(X, y)
    results = model.cv_results_
    assert list(results["param_bandwidth"]) == [0.05, 0.05, 2.0, 2.0, 50.0, 50.0]
    best = int(np.argmax(results["mean_test_score"]))
    assert (model.bandwidth_, model.alpha_) == (results["param_bandwidth"][best], results["param_alpha"][best])
    assert model.bandwidth_ == 2.0
    alone = bb.KernelRidge(model.alpha_, bandwidth=2.0, **COMPRESSED).fit(X, y)
    assert not hasattr(alone, "cv_results_")


def test_median_and_auto_bandwidths(regression):
    X, y, _ = regression
    median = bb.KernelRidge(bandwidth="median", **COMPRESSED).fit(X, y).bandwidth_
    distances = np.linalg.norm(X[:, None] - X, axis=2)[np.triu_indices(len(X), 1)]
    assert abs(median / np.median(distances) - 1) < 0.05
    auto = bb.KernelRidge([0.01, 0.1], bandwidth="auto", **COMPRESSED).fit(X, y)
    assert len(auto.cv_results_["param_bandwidth"]) == 12
    assert -auto.cv_results_["mean_test_score"].max() < 0.1 * y.var()


def test_a_kernel_object_keeps_its_family(regression):
    X, y, X_new = regression
    own = bb.KernelRidge(0.1, kernel=bb.Matern(2.0, nu=2.5)).fit(X, y)
    given = bb.KernelRidge(0.1, kernel=bb.Matern(7.0, nu=2.5), bandwidth=2.0).fit(X, y)
    np.testing.assert_array_equal(own.predict(X_new), given.predict(X_new))
    assert own.expansion_.kernel == bb.Matern(2.0, nu=2.5)


def test_a_function_as_kernel(regression):
    X, y, X_new = regression
    model = bb.KernelRidge(0.1, kernel=lambda A, B: bb.Gaussian(2.0)(A, B), **COMPRESSED).fit(X, y)
    named = bb.KernelRidge(0.1, bandwidth=2.0, **COMPRESSED).fit(X, y)
    np.testing.assert_allclose(model.predict(X_new), named.predict(X_new), atol=1e-6)
    assert model.bandwidth_ is None


# --- shapes, precision, memory ---------------------------------------------------------------------------------------


def test_many_targets_are_as_many_regressions(regression):
    X, y, X_new = regression
    both = bb.KernelRidge(0.1, **COMPRESSED).fit(X, np.stack([y, np.cos(y)], axis=1)).predict(X_new)
    assert both.shape == (50, 2)
    for column, target in zip(both.T, (y, np.cos(y)), strict=True):
        np.testing.assert_allclose(column, bb.KernelRidge(0.1, **COMPRESSED).fit(X, target).predict(X_new), atol=1e-10)
    single = bb.KernelRidge(0.1, **COMPRESSED).fit(X, y[:, np.newaxis])
    assert single.predict(X_new).shape == (50, 1) and single.dual_coef_.shape == (400, 1)


def test_forgotten_points_change_no_prediction(regression):
    X, y, X_new = regression
    kept = bb.KernelRidge(0.1, **COMPRESSED).fit(X, y)
    forgetful = bb.KernelRidge(0.1, keep_points=False, **COMPRESSED).fit(X, y)
    np.testing.assert_array_equal(kept.predict(X_new), forgetful.predict(X_new))
    assert not {"X_fit_", "dual_coef_", "factorization_"} & set(vars(forgetful))
    assert len(pickle.dumps(forgetful)) < len(pickle.dumps(kept)) / 2
    kept.set_params(keep_points=False, alpha=[0.1]).fit(X, y)
    assert not hasattr(kept, "X_fit_") and not hasattr(kept, "factorization_")


def test_new_points_in_pieces(regression, tiles_of):
    X, y, _ = regression
    model = bb.KernelRidge(0.1, **COMPRESSED).fit(X, y)
    whole = model.predict(X)
    tiles_of(500)
    np.testing.assert_allclose(model.predict(X), whole, atol=1e-9)
    np.testing.assert_allclose([model.predict(x[np.newaxis])[0] for x in X[:20]], whole[:20], atol=1e-9)


def test_float32_points(regression):
    X, y, X_new = regression
    single = bb.KernelRidge(0.1, bandwidth=2.0, **COMPRESSED).fit(X.astype(np.float32), y)
    double = bb.KernelRidge(0.1, bandwidth=2.0, **COMPRESSED).fit(X, y)
    assert single.factorization_.dtype == np.float32
    assert np.abs(single.predict(X_new) - double.predict(X_new)).max() < 0.2
    np.testing.assert_allclose(single.predict(X_new), single.predict(X_new.astype(np.float32)), atol=1e-2)


def test_the_seed_alone_decides(regression):
    X, y, X_new = regression
    first, second = (
        bb.KernelRidge([0.1, 1.0], bandwidth="auto", n_clusters=5, rank=20, random_state=3, n_jobs=jobs).fit(X, y)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(first.predict(X_new), second.predict(X_new))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("settings", [{}, {"n_clusters": 10, "rank": 5}, {"bandwidth": "auto"}, {"tol": 1e-3}])
def test_very_few_points(n, settings):
    X = np.arange(2.0 * n).reshape(n, 2)
    y = np.arange(1.0, n + 1)
    model = bb.KernelRidge(0.5, **settings).fit(X, y)
    exact = kernel_ridge.KernelRidge(alpha=0.5, kernel="rbf", gamma=1 / model.bandwidth_**2).fit(X, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-8)


def test_far_from_all_points_the_answer_is_zero(regression):
    X, y, _ = regression
    model = bb.KernelRidge(1e-3, **COMPRESSED).fit(X, y)
    far = np.array([[1e3, 0, 0], [-1e6, 1e6, 1e6]])
    np.testing.assert_array_equal(model.predict(far), 0)


# --- with scikit-learn -----------------------------------------------------------------------------------------------


def test_in_a_pipeline_and_a_search(regression):
    X, y, X_new = regression
    search = GridSearchCV(
        make_pipeline(StandardScaler(), bb.KernelRidge(**COMPRESSED)),
        {"kernelridge__alpha": [0.01, 1.0], "kernelridge__bandwidth": [0.1, 2.0]},
        cv=3,
    )
    search.fit(X, y)
    assert search.best_params_["kernelridge__bandwidth"] == 2.0
    assert search.predict(X_new).shape == (50,)


def test_names_of_columns(regression):
    X, y, _ = regression
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = bb.KernelRidge(**COMPRESSED).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame), bb.KernelRidge(**COMPRESSED).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


def test_progress_is_shown(regression, monkeypatch):
    X, y, X_new = regression
    stages = []

    class Bar:
        def __call__(self, event):
            stages.append(event.stage)

        def close(self):
            pass

    monkeypatch.setattr("blockbasis._utils.progress._bar", Bar)
    quiet = bb.KernelRidge(1e-3, **COMPRESSED).fit(X, y).predict(X_new)
    assert not stages
    shown = bb.KernelRidge(1e-3, verbose=1, **COMPRESSED).fit(X, y).predict(X_new)
    assert set(stages) == {
        *("bases", "cores", "inner matrix", "points"),
        *("surroundings", "local regressions", "continue", "predict"),
    }
    np.testing.assert_array_equal(quiet, shown)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "'alpha' parameter of KernelRidge must be a positive finite number"),
        ({"alpha": 0.0}, ValueError, "'alpha' parameter"),
        ({"alpha": "small"}, TypeError, "'alpha' parameter"),
        ({"alpha": []}, ValueError, "a list of at least one"),
        ({"alpha": np.ones(2)}, ValueError, r"array of shape \(1,\), one ridge for each target, or a list"),
        ({"bandwidth": 0.0}, ValueError, "'bandwidth' parameter of KernelRidge"),
        ({"bandwidth": "mean"}, ValueError, "'bandwidth' parameter of KernelRidge must be one of 'median'"),
        ({"bandwidth": []}, ValueError, "a list of at least one"),
        ({"bandwidth": [1.0, -1.0]}, ValueError, "'bandwidth' parameter"),
        ({"kernel": "poly"}, ValueError, "'kernel' parameter of KernelRidge must be one of 'gaussian'"),
        ({"kernel": 3}, TypeError, "'kernel' parameter of KernelRidge"),
        (
            {"kernel": bb.Gaussian(1.0).block, "bandwidth": "auto"},
            ValueError,
            "must be None for a kernel that has none",
        ),
        ({"n_clusters": 0}, ValueError, "'n_clusters' parameter of KernelRidge"),
        ({"keep_points": 1}, TypeError, "'keep_points' parameter of KernelRidge"),
        ({"tol": 0.1, "rank": 3}, ValueError, "one of 'tol', 'memory' and 'rank'"),
        ({"memory": 5}, ValueError, "'memory' parameter of KernelRidge"),
        ({"n_jobs": 0}, ValueError, "'n_jobs' parameter"),
    ],
)
def test_bad_parameters(regression, settings, error, message):
    X, y, _ = regression
    with pytest.raises(error, match=message):
        bb.KernelRidge(**settings).fit(X, y)


def test_bad_data(regression):
    X, y, X_new = regression
    with pytest.raises(ValueError, match="NaN"):
        bb.KernelRidge().fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        bb.KernelRidge().fit(X, y[:-1])
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        bb.KernelRidge().fit(X, y, -np.ones(len(y)))
    with pytest.raises(ValueError, match="at least one"):
        bb.KernelRidge().fit(X, y, np.zeros(len(y)))
    with pytest.raises(NotFittedError):
        bb.KernelRidge().predict(X_new)
    with pytest.raises(ValueError, match="features"):
        bb.KernelRidge().fit(X, y).predict(X_new[:, :2])


def test_the_order_of_bandwidths_does_not_decide_how_many_clusters_there_are():
    """One bandwidth is not worth compressing; the next one is compressed as if it came first."""
    X = np.random.default_rng(0).normal(size=(1050, 3))
    y = np.sin(X[:, 0])
    for bandwidths in ([0.2, 3.0], [3.0, 0.2]):
        model = bb.KernelRidge(0.1, bandwidth=bandwidths, tol=1e-4, n_clusters=10, random_state=0).fit(X, y)
        assert model.bandwidth_ == 3.0 and model.factorization_.n_clusters == 10


def test_a_budget_above_half_of_the_dense_matrix_is_kept():
    X = np.random.default_rng(0).normal(size=(1300, 3))
    memory = int(0.55 * 1300 * 1301 / 2)
    model = bb.KernelRidge(0.1, bandwidth=0.3, memory=memory, random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.factorization_.stored <= memory


def test_an_uncompressed_model_keeps_nothing_of_the_callers_array():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = bb.KernelRidge(0.1, keep_points=False).fit(X, X[:, 0])
    X_new = X[:20].copy()
    before = model.predict(X_new)
    X *= 0
    np.testing.assert_array_equal(model.predict(X_new), before)


@pytest.mark.parametrize("model", [bb.KernelRidge(random_state=0), bb.KernelRidgeCV(random_state=0)], ids=repr)
@pytest.mark.parametrize("exponent", [-600, 600])
def test_targets_of_any_scale_are_learnt_alike(model, exponent):
    """By powers of two, which round nothing: squares of such targets overflow or vanish."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.sin(X[:, 0])
    expected = clone(model).fit(X, y).predict(X)
    found = clone(model).fit(X, np.ldexp(y, exponent)).predict(X)
    np.testing.assert_allclose(np.ldexp(found, -exponent), expected, rtol=1e-10)
