from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import blockbasis as bb
from blockbasis._utils.progress import reporting
from blockbasis.estimators import _attempt, _ridge_search, _search
from blockbasis.estimators._columns import as_they_are
from blockbasis.estimators._exact_ridge import leave_one_out
from blockbasis.estimators._ridge_path import Choices


def data(seed=0, n=900):
    """A rough function of two of six columns, which are on different scales."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * np.r_[1e-3, 1, 1e4, 1, 1, 1]
    return X, 50 + np.sin(2e3 * X[:, 0]) + np.abs(X[:, 2]) / 1e4 + 0.05 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y = data()
    return bb.KernelRidgeCV(random_state=0, n_jobs=1).fit(X[:700], y[:700]), X, y


def test_it_beats_fixed_settings(fitted):
    model, X, y = fitted
    plain = bb.KernelRidge(fit_intercept=True).fit(X[:700] / X.std(axis=0), y[:700])
    error = 1 - model.score(X[700:], y[700:])
    assert error < 0.05
    assert error < 0.3 * (1 - plain.score(X[700:] / X.std(axis=0), y[700:]))


def test_what_it_says(fitted):
    model, X, _ = fitted
    results = model.cv_results_
    assert set(results["param_kernel"][results["iter"] == 0]) == {"gaussian", "laplacian", "matern"}
    assert np.count_nonzero(results["iter"] == 0) == 9
    assert results["n_resources"].max() == 700
    winner = model.best_index_
    assert results["iter"][winner] == results["iter"].max()
    assert results["rank_test_score"][winner] == 1 or " + " in results["param_kernel"][winner]
    assert model.best_score_ == results["mean_test_score"][winner]
    assert model.best_params_["kernel"] == results["param_kernel"][winner]
    assert model.best_params_["metric"] == results["param_metric"][winner]
    assert sorted(model.feature_importances_.argsort()[-2:]) == [0, 2]
    np.testing.assert_allclose(model.scale_, X[:700].std(axis=0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_sum_of_kernels_is_what_it_says(seed):
    """Its error is that of the mean of both kernels, and it is no worse than the best alone by a standard error."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    Y = (np.sin(2 * X[:, 0]) + 0.3 * np.cos(X).sum(axis=1) + 0.3 * rng.normal(size=300))[:, np.newaxis]
    Y -= Y.mean()
    candidates = [_search.Candidate(bb.Gaussian(1.0), kind) for kind in ("none", "diagonal")]
    found = _search.search(_search.Task(X, Y, None, (as_they_are(X, None),), sums=True), candidates, rng)
    (both,) = [trial for trial in found.trials if trial.added is not None]
    assert (both.kernel_name, both.metric_name) in {
        ("gaussian + gaussian", "none + diagonal"),
        ("gaussian + gaussian", "diagonal + none"),
    }
    mean = (both.regression.whole_kernel()(X) + both.added.regression.whole_kernel()(X)) / 2
    _, left_out = leave_one_out(mean, Y, None, both.regression.alpha)
    assert both.error == pytest.approx(np.mean(left_out**2), rel=1e-3)
    last = [trial for trial in found.trials if trial.added is None and trial.stage == both.stage]
    difference = both.regression.losses - min(last, key=lambda trial: trial.error).regression.losses
    taken = difference.mean() <= difference.std() / np.sqrt(300)
    assert (found.trial is both) == taken
    if taken:
        np.testing.assert_allclose(found.kernel(X), mean, atol=1e-12)


def test_kernels_are_compared_at_rows_outside_of_the_samples(monkeypatch):
    """The errors of a search are those at other rows: noise that a metric of 20 columns fits does not lower them."""
    monkeypatch.setattr(_search, "_LARGEST_SAMPLE", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 20))
    Y = (X[:, 0] + rng.normal(size=1400))[:, np.newaxis]
    Y -= Y.mean()
    candidates = [_search.Candidate(bb.Gaussian(1.0), kind) for kind in ("none", "full")]
    found = _search.search(_search.Task(X, Y, None, (as_they_are(X, None),)), candidates, np.random.default_rng(1))
    order = np.random.default_rng(1).permutation(1400)
    for trial in found.trials:
        rows, others, fitted = order[: trial.n_rows], order[300:1300], trial.regression
        left = Y[others] - fitted.whole_kernel()(X[others], X[rows]) @ fitted.coefficients
        assert trial.error == pytest.approx(np.mean(left**2), rel=1e-3)
    assert min(trial.error for trial in found.trials) > 0.9  # the variance of the noise is 1


@pytest.mark.parametrize("rows", [700, 2000], ids=["few outside", "many outside"])
def test_means_are_compared_with_more_rows_at_those_that_no_metric_has_seen(monkeypatch, rows):
    monkeypatch.setattr(_search, "_LARGEST_SAMPLE", 300)
    monkeypatch.setattr(_search, "_FEWEST_HELD_OUT", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    Y = (np.sin(2 * X[:, 0]) + 0.3 * np.cos(X).sum(axis=1) + 0.3 * rng.normal(size=rows))[:, np.newaxis]
    Y -= Y.mean()
    candidates = [_search.Candidate(bb.Gaussian(1.0), kind) for kind in ("none", "diagonal")]
    task = _search.Task(X, Y, None, (as_they_are(X, None),), sums=True)
    found = _search.search(task, candidates, np.random.default_rng(1))
    order = np.random.default_rng(1).permutation(rows)
    alone, both = [trial for trial in found.trials if trial.n_rows == 480]
    assert alone.added is None and both.added is not None and found.trial in (alone, both)
    for trial, parts in ((alone, [alone]), (both, [both, both.added])):
        kernels = [part.regression.whole_kernel() for part in parts]
        inside, outside = order[:480], order[480:][:960]
        K = np.mean([kernel(X[inside]) for kernel in kernels], axis=0)
        coefficients, left_out = leave_one_out(K, Y[inside], None, trial.regression.alpha)
        there = np.mean([kernel(X[outside], X[inside]) for kernel in kernels], axis=0) @ coefficients
        unseen = np.concatenate((left_out[300:], (Y[outside] - there)[: 960 if rows == 2000 else 0]))
        assert trial.error == pytest.approx(np.mean(unseen**2), rel=1e-3)


def test_no_sum_where_a_kernel_or_a_metric_is_asked_for():
    X, y = data(n=300)
    for asked in ({"kernel": "gaussian"}, {"metric": "diagonal"}):
        model = bb.KernelRidgeCV(random_state=0, n_jobs=1, **asked).fit(X, y)
        assert not any(" + " in name for name in model.cv_results_["param_kernel"])


def test_gradients_are_in_units_of_the_columns(fitted):
    model, X, _ = fitted
    step = np.array([1e-8, 0, 0, 0, 0, 0])
    difference = (model.predict(X[700:] + step) - model.predict(X[700:] - step)) / 2e-8
    np.testing.assert_allclose(model.gradient(X[700:])[:, 0], difference, atol=1e-3 * np.abs(difference).max())


def test_the_seed_alone_decides(fitted):
    model, X, y = fitted
    again = clone(model).fit(X[:700], y[:700])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_saved_and_loaded(fitted, tmp_path):
    model, X, _ = fitted
    bb.save(model, tmp_path / "model.bbf")
    loaded = bb.load(tmp_path / "model.bbf")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.best_params_ == model.best_params_


def test_few_points_are_regressed_exactly():
    points, targets = data(1, n=800)
    X, y, X_new = points[:700], targets[:700], points[700:]
    model = bb.KernelRidgeCV(kernel="matern", metric="diagonal", random_state=0, n_jobs=1).fit(X, y)
    assert not hasattr(model, "factorization_")
    kernel, mean = model.expansion_.kernel, y.mean()
    exact = np.linalg.solve(kernel(X) + model.alpha_ * np.eye(700), y - mean)
    np.testing.assert_allclose(model.dual_coef_, exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(model.predict(X_new), kernel(X_new, X) @ exact + mean, atol=1e-6)


def test_more_points_are_compressed(monkeypatch):
    monkeypatch.setattr(_ridge_search, "_EXACT_POINTS", 900)
    X, y = data(1, n=1400)
    model = bb.KernelRidgeCV(kernel="laplacian", metric="diagonal", random_state=0).fit(X[:1100], y[:1100])
    assert model.factorization_.n_clusters == _ridge_search.default_number_of_clusters(1100) > 1
    assert model.score(X[1100:], y[1100:]) > 0.98


def test_ridges_that_are_given(regression):
    X, y, _ = regression
    model = bb.KernelRidgeCV(alphas=[10.0, 20.0], kernel="matern", metric=None).fit(X, y)
    assert model.alpha_ in (10.0, 20.0)
    assert set(model.cv_results_["param_alpha"]) <= {10.0, 20.0}


def test_gamma_fixes_the_kernel(regression):
    X, y, X_new = regression
    model = bb.KernelRidgeCV([0.5], kernel="rbf", gamma=0.25).fit(X, y)
    same = bb.KernelRidge(0.5, bandwidth=2.0, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(model.predict(X_new), same.predict(X_new), atol=1e-9)
    np.testing.assert_array_equal(model.scale_, 1)


def test_columns_may_stay_as_they_are(regression):
    X, y, _ = regression
    raw = bb.KernelRidgeCV(standardize=False, kernel="gaussian", metric=None).fit(X * [1, 1, 100], y)
    np.testing.assert_array_equal(raw.scale_, 1)
    assert isinstance(raw.expansion_.kernel, bb.Gaussian)


def test_targets_count_alike(regression):
    X, y, X_new = regression
    Y = np.stack([y, 1e6 * np.sin(3 * X[:, 1])], axis=1)
    model = bb.KernelRidgeCV(random_state=0).fit(X, Y)
    assert model.predict(X_new).shape == (50, 2)
    assert model.score(X, Y) > 0.8


def test_classes(classes):
    X, y, X_new, y_new = classes
    model = bb.KernelRidgeClassifierCV(random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > 0.9
    assert model.best_params_["alpha"] == model.alpha_
    assert model.gradient(X_new).shape == (100, 2, 3)


def test_a_class_of_one_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.r_[np.zeros(30), np.ones(29), 2]
    assert set(bb.KernelRidgeClassifierCV(random_state=0).fit(X, y).predict(X)) <= {0, 1, 2}


@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_few_rows(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    assert np.isfinite(bb.KernelRidgeCV(random_state=0).fit(X, X[:, 0]).predict(X)).all()


def test_a_constant_target():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = bb.KernelRidgeCV(random_state=0).fit(X, np.full(50, 3.0))
    np.testing.assert_allclose(model.predict(X), 3)


def test_columns_of_zero_variance():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 1] = 1e8
    model = bb.KernelRidgeCV(random_state=0).fit(X, X[:, 0])
    assert model.feature_importances_[1] == 0 and model.score(X, X[:, 0]) > 0.99
    X[:, 1] = 0
    assert model.score(X, X[:, 0]) > 0.99  # of a column that never varied nothing is known


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_what_is_not_finite_is_refused_by_the_name_of_its_column(value, what):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["height", "weight"])
    y = frame["height"].copy()
    frame.loc[3, "weight"] = value
    for model in (bb.KernelRidgeCV(), bb.KernelRidge()):
        with pytest.raises(ValueError, match=f"{what} in column 'weight'"):
            model.fit(frame, y)
    with pytest.raises(ValueError, match=f"{what} in column 'weight'"):
        bb.KernelRidgeClassifierCV().fit(frame, y > 0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kernel": "poly"}, ValueError, "'kernel' parameter of KernelRidgeCV"),
        ({"kernel": bb.Gaussian([1.0, 2.0, 3.0])}, ValueError, "radial kernel of one bandwidth"),
        ({"metric": "square"}, ValueError, "'metric' parameter of KernelRidgeCV"),
        ({"alphas": []}, ValueError, "'alphas' parameter of KernelRidgeCV"),
        ({"alphas": [1.0, -1.0]}, ValueError, "'alphas' parameter of KernelRidgeCV"),
        ({"gamma": 1.0, "kernel": "matern"}, ValueError, "'gamma' parameter of KernelRidgeCV"),
        ({"standardize": "yes"}, ValueError, "'standardize' parameter of KernelRidgeCV"),
        ({"standardize": 1}, TypeError, "'standardize' parameter of KernelRidgeCV"),
        ({"time_budget": 0}, ValueError, "'time_budget' parameter of KernelRidgeCV"),
        ({"fit_intercept": None}, TypeError, "'fit_intercept' parameter of KernelRidgeCV"),
    ],
)
def test_bad_parameters(regression, settings, error, message):
    X, y, _ = regression
    with pytest.raises(error, match=message):
        bb.KernelRidgeCV(**settings).fit(X, y)


def test_a_search_where_every_candidate_fails_says_why(regression, monkeypatch):
    X, y, _ = regression

    def failing(*_, **__):
        raise ValueError("the moon is in the way")

    monkeypatch.setattr(_attempt, "tuned", failing)
    with pytest.raises(ValueError, match="None of the 9 candidates.*the moon is in the way"):
        bb.KernelRidgeCV(standardize=True).fit(X, y)


def test_an_interrupt_passes_and_leaves_no_model(regression, monkeypatch):
    X, y, X_new = regression

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_attempt, "rounds", interrupted)
    model = bb.KernelRidgeCV(verbose=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_a_short_budget_of_time_learns_from_some_points():
    """How long the fit takes is measured by benchmarks/learning.py."""
    X, y = data(2, n=30_000)
    with pytest.warns(bb.PerformanceWarning, match="time_budget=2 is too short for all 30000 points") as warned:
        model = bb.KernelRidgeCV(time_budget=2.0, random_state=0, n_jobs=1).fit(X, y)
    assert {each.filename for each in warned if "time_budget" in str(each.message)} == {__file__}
    assert model.score(X[:1000], y[:1000]) > 0.5
    assert 0 < np.count_nonzero(model.dual_coef_) < 30_000


class Pilot:
    """A regression that takes a second at first, and a millisecond for each point."""

    sizes: ClassVar = []
    clock = 0.0

    def __init__(self, *_, **__): ...

    def set_params(self, **settings):
        self.settings = settings
        return self

    def fit(self, X, y):
        Pilot.sizes.append((len(X), self.settings["rank"], self.settings["memory"]))
        Pilot.clock += 1 + 1e-3 * len(X)


@pytest.mark.parametrize(
    ("left", "given", "sizes", "rows"),
    [
        (1e6, {}, [2_000], None),
        (300.0, {}, [2_000, 8_000], None),
        (200.0, {}, [2_000, 8_000], 119_365),
        (60.0, {}, [2_000], 27_142),
        (60.0, {"memory": 10**8}, [2_000], 1_000),
        (60.0, {"rank": 500}, [2_000], 1_000),
        (1e3, {"rank": 150}, [2_000, 8_000], None),
    ],
)
def test_short_pilots_are_repeated_with_more_rows(monkeypatch, left, given, sizes, rows):
    """The pace of few rows is too slow, and a budget would be left unused. Only a later pilot has large ranks."""
    X = np.zeros((150_000, 1))
    monkeypatch.setattr(_ridge_search, "KernelRidge", Pilot)
    monkeypatch.setattr(_ridge_search.time, "perf_counter", lambda: Pilot.clock)
    monkeypatch.setattr(Pilot, "sizes", [])
    choices = Choices(bb.Gaussian(1.0), [None], [np.ones(1)])
    model = bb.KernelRidgeCV(time_budget=left, **given)
    found = model._rows_in_time(choices, X, X, left, np.random.default_rng(0))
    assert [size for size, _, _ in Pilot.sizes] == sizes
    assert (found is None) == (rows is None) and (rows is None or len(found) == rows)
    ranks = [rank for _, rank, _ in Pilot.sizes]
    assert ranks[0] == _ridge_search.default_rank(2_000) and ranks[1:] == [given.get("rank", ranks[0])] * len(ranks[1:])


@pytest.mark.parametrize(("seconds", "exact"), [(0.0, True), (1e6, False)])
def test_an_exact_regression_must_fit_into_the_time(regression, monkeypatch, seconds, exact):
    X, y, _ = regression
    monkeypatch.setattr(_ridge_search, "seconds_of_walk", lambda n, steps: seconds)
    model = bb.KernelRidgeCV(kernel="laplacian", metric=None, time_budget=1e3, random_state=0, n_jobs=1).fit(X, y)
    assert hasattr(model, "factorization_") is not exact
    assert model.score(X, y) > 0.5


def test_one_listener_hears_all(regression):
    X, y, _ = regression
    events = []
    with reporting(events.append):
        bb.KernelRidgeCV(kernel="laplacian", verbose=1).fit(X, y)
    assert events[0].stage == "search: laplacian, metric none, 200 rows"
    searching = [event for event in events if event.stage.startswith("search")]
    assert 0.99 * searching[-1].total < searching[-1].done <= searching[-1].total and searching[0].remaining > 0
    assert any(event.stage == "regression of all points" for event in events)


def test_a_regression_counts_the_ridges_that_it_expects_to_look_at():
    """Not all that it may look at: the time left would be that of regressions that never come."""
    X, y = data(n=300)
    events = []
    with reporting(events.append):
        bb.KernelRidgeCV(kernel="gaussian", metric=None, random_state=0, n_jobs=1, verbose=1).fit(X, y)
    counted = [(event.done, event.total) for event in events if event.stage == "regression of all points"]
    assert counted == [(1, 3), (2, 3), (3, 3)]


def test_a_search_in_a_file_is_a_line_for_each_candidate(regression, monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    X, y, _ = regression
    model = bb.KernelRidgeCV(kernel="laplacian", verbose=1, random_state=0, n_jobs=1).fit(X, y)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == "" and len(set(lines)) == len(lines)
    searched = [line for line in lines if line.startswith("search: laplacian, metric ")]
    assert len(searched) == len(model.cv_results_["iter"]) and all(line.endswith(" s left") for line in searched)


def heavy(n=500):
    """A function of the logarithm of the first of three columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=n)
    X[:, 0] = np.exp(2 * X[:, 0])
    return X, y


@pytest.fixture(scope="module")
def drawn_in():
    X, y = heavy()
    return bb.KernelRidgeCV(kernel="gaussian", metric="diagonal", random_state=0, n_jobs=1).fit(X, y)


def test_columns_of_heavy_tails_are_drawn_in(drawn_in):
    X, y = heavy(800)
    np.testing.assert_array_equal(drawn_in.column_map_.columns, [0])
    np.testing.assert_array_equal(drawn_in.X_fit_, X[:500])
    plain = bb.KernelRidgeCV(kernel="gaussian", metric="diagonal", standardize=True, random_state=0).fit(
        X[:500], y[:500]
    )
    assert plain.column_map_ is None
    errors = [1 - model.score(X[500:], y[500:]) for model in (drawn_in, plain)]
    assert errors[0] < 0.5 * errors[1]
    lower, upper = drawn_in.predict_interval(X[500:], 0.9)
    assert 0.82 < np.mean((lower <= y[500:]) & (y[500:] <= upper)) < 0.97


def test_gradients_are_in_the_units_of_columns_that_were_drawn_in(drawn_in):
    X, _ = heavy()
    X, step = X[np.abs(X[:, 0]) < 2][:20], 1e-5
    for j, shift in enumerate(step * np.eye(3)):
        differences = (drawn_in.predict(X + shift) - drawn_in.predict(X - shift)) / (2 * step)
        np.testing.assert_allclose(drawn_in.gradient(X)[:, j], differences, rtol=1e-3, atol=1e-5)


def test_columns_that_were_drawn_in_are_saved(drawn_in, tmp_path):
    X, _ = heavy()
    bb.save(drawn_in, tmp_path / "model.npz")
    np.testing.assert_array_equal(bb.load(tmp_path / "model.npz").predict(X), drawn_in.predict(X))


def test_classes_of_columns_that_were_drawn_in():
    X, y = heavy(600)
    settings = {"kernel": "gaussian", "metric": None, "random_state": 0, "n_jobs": 1}
    model = bb.KernelRidgeClassifierCV(**settings).fit(X[:400], y[:400] > 0)
    np.testing.assert_array_equal(model.column_map_.columns, [0])
    assert model.score(X[400:], y[400:] > 0) > 0.85
    assert model.best_score_ > -0.35 and model.gradient(X[:3]).shape == (3, 3)
    compressed = bb.KernelRidgeClassifierCV(**settings, rank=20, n_clusters=3).fit(X[:400], y[:400] > 0)
    assert compressed.score(X[400:], y[400:] > 0) > 0.8
