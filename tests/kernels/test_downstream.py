"""Kernels of every kind in factorizations, files and estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Exact
from sklearn.gaussian_process import kernels as gp

import blockbasis as bb
from blockbasis.baselines import approximate, ifgt
from blockbasis.kernels import CallableKernel
from blockbasis.selection import select
from tests.repeating import first_of

from .conftest import LENGTHS, METRIC, make_points, two_kinds

pytestmark = pytest.mark.filterwarnings("ignore::blockbasis.PerformanceWarning")


def error(A, kind, X):
    exact = kind.matrix(X)
    return np.linalg.norm(A @ np.eye(len(X)) - exact) / np.linalg.norm(exact)


# --- factorizations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_tolerance_is_met(kind, seed):
    X = make_points(400, seed)
    A = bb.factorize(X, kind.kernel, tol=1e-2, rng=seed)
    reached = error(A, kind, X)
    assert reached < 1e-2
    assert A.kernel == kind.kernel
    assert A.error_estimate.value == pytest.approx(reached, rel=1e-2)
    assert bb.relative_error(A, X, kind.kernel).value == pytest.approx(reached, rel=1e-6)


@two_kinds
def test_float32_tolerance(kind):
    X = make_points(400, 3)
    A = bb.factorize(X, kind.kernel, tol=1e-2, dtype=np.float32, rng=0)
    assert A.dtype == np.float32 and error(A, kind, X) < 1e-2


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_given_ranks(kind, algorithm):
    X = make_points(500, 4)
    A = bb.factorize(X, kind.kernel, n_clusters=6, rank=60, algorithm=algorithm, rng=0)
    assert error(A, kind, X) < 0.02


@two_kinds
def test_extension_has_the_kernel_without_noise(kind):
    X = make_points(500, 5)
    new = make_points(80, 6)
    A = bb.factorize(X, kind.kernel, n_clusters=4, rank=100, rng=0)
    exact = kind.values(new, X)
    assert np.linalg.norm(A.extend(new).todense() - exact) < 0.05 * np.linalg.norm(exact)
    assert A.extend(new.astype(np.float32)).shape == (80, 500)
    with pytest.raises(ValueError, match="'X_new' parameter of extend must be of 3 columns"):
        A.extend(new[:, :2])


def test_clusters_are_in_the_metric_of_the_kernel():
    """The third column means nothing to the first kernel, and is all that means something to the second."""
    X = make_points(600, 7)
    for lengths, column in (([0.1, 1e6, 1e6], 0), ([1e6, 1e6, 1.0], 2)):
        A = bb.factorize(X, bb.Gaussian(lengths), n_clusters=4, rank=5, rng=0)
        own = [X[A.partition.labels == c, column] for c in range(4)]
        own.sort(key=np.mean)
        assert all(left.max() <= right.min() for left, right in zip(own[:-1], own[1:], strict=True))


def test_lengths_are_as_good_as_scaled_points():
    X = make_points(800, 8)
    A = bb.factorize(X, bb.Gaussian(LENGTHS), tol=1e-3, rng=0)
    B = bb.factorize(X / LENGTHS, bb.Gaussian(1.0), tol=1e-3, rng=0)
    assert A.stored == pytest.approx(B.stored, rel=0.02)
    with_metric = bb.factorize(X, bb.Gaussian(1.0).with_metric(np.diag(1 / LENGTHS)), tol=1e-3, rng=0)
    assert with_metric.stored == pytest.approx(B.stored, rel=0.02)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("memory", [20_000, "200KB"])
def test_budgets_hold_with_noise_and_metrics(memory, diagonal, tmp_path):
    X = make_points(400, 9)
    kernel = bb.Gaussian(1.0).with_metric(np.random.default_rng(0).normal(size=(3, 3))) + bb.White(0.5)
    A = bb.factorize(X, kernel, memory=memory, diagonal=diagonal, rng=0)
    assert A.diagonal_part.min() >= 0.5
    if isinstance(memory, int):
        assert A.stored <= memory
    else:
        bb.save(A, tmp_path / "a.bbf")
        assert max(A.nbytes, (tmp_path / "a.bbf").stat().st_size) <= 200_000


def test_noise_is_the_diagonal_part():
    X = make_points(400, 10)
    kernel = bb.Gaussian(3 * LENGTHS)
    A = bb.factorize(X, kernel, n_clusters=3, rank=60, rng=0)
    B = bb.factorize(X, kernel + bb.White(0.7), n_clusters=3, rank=60, rng=0)
    np.testing.assert_allclose(B.todense(), A.todense() + 0.7 * np.eye(400), atol=1e-12)
    alone = bb.factorize(X, bb.White(0.7), rng=0)
    np.testing.assert_allclose(alone.todense(), 0.7 * np.eye(400), atol=1e-15)


@two_kinds
def test_plans(kind):
    X = make_points(400, 11)
    plan = bb.plan(X, kind.kernel, tol=1e-2, rng=0)
    assert plan.kernel == kind.kernel and plan.n_features == 3
    A = bb.factorize(X, kind.kernel, plan=plan, rng=0)
    assert error(A, kind, X) < 1e-2
    with pytest.raises(ValueError, match="must be of the kernel given"):
        bb.factorize(X, 2.0 * kind.kernel, plan=plan, rng=0)
    with pytest.raises(ValueError, match="of other points"):
        bb.factorize(X + 1, kind.kernel, plan=plan, rng=0)


def test_the_papers_rule_takes_them(kind):
    X = make_points(300, 12)
    found = select(X, kind.kernel, 0.05, rng=0)
    A = bb.factorize(X, kind.kernel, algorithm="paper", partition=found.partition, rank=found.ranks, rng=0)
    assert error(A, kind, X) < 0.5


@pytest.mark.parametrize("first", [bb.Gaussian(50.0), bb.Gaussian(LENGTHS), bb.Gaussian(1.0).with_metric(METRIC)])
@pytest.mark.parametrize("second", [bb.Gaussian(LENGTHS[::-1]), bb.Cauchy(1.0).with_metric(METRIC)])
def test_a_partition_of_another_kernel_keeps_its_clusters(first, second):
    """Its centres and radii are in other coordinates, which new points must not be compared with."""
    X = make_points(400, 13)
    A = bb.factorize(X, first, n_clusters=5, rank=10, rng=0)
    B = bb.factorize(X, second, partition=A.partition, rank=80, rng=0)
    np.testing.assert_array_equal(A.partition.labels, B.partition.labels)
    points = second.coordinates(X)
    centres = [points[B.partition.labels == c].mean(axis=0) for c in range(5)]
    np.testing.assert_allclose(B.partition.centers, centres, atol=1e-9)


def test_a_partition_in_coordinates_serves_an_ordinary_kernel():
    X = make_points(400, 14)
    A = bb.factorize(X, bb.Gaussian(LENGTHS), n_clusters=5, rank=10, rng=0)
    B = bb.factorize(X, bb.Gaussian(50.0), partition=A.partition, rank=10, rng=0)
    centres = [X[A.partition.labels == c].mean(axis=0) for c in range(5)]
    np.testing.assert_allclose(B.partition.centers, centres, atol=1e-9)
    again = bb.factorize(X, bb.Gaussian(50.0), partition=B.partition, rank=10, rng=0)
    assert again.partition is B.partition


def test_cross(kind):
    X, Y = make_points(300, 15), make_points(200, 16)
    B = bb.factorize_cross(Y, X, kind.kernel, n_clusters=3, rank=60, rng=0)
    exact = kind.values(Y, X)
    assert np.linalg.norm(B.todense() - exact) < 0.05 * np.linalg.norm(exact)


@two_kinds
def test_exact_operators_and_systems(kind):
    X = make_points(300, 17)
    K, v = bb.ExactKernel(X, kind.kernel), np.random.default_rng(0).normal(size=300)
    np.testing.assert_allclose(K @ v, kind.matrix(X) @ v, atol=1e-10)
    assert K.kernel == kind.kernel
    cross = bb.ExactCrossKernel(X[:20], X, kind.kernel)
    np.testing.assert_allclose(cross @ v, kind.values(X[:20], X) @ v, atol=1e-10)
    assert cross.T.kernel == kind.kernel
    A = bb.factorize(X, kind.kernel, n_clusters=2, rank=80, rng=0)
    solution = bb.exact_solve(X, kind.kernel, v, 0.1, preconditioner=A)
    np.testing.assert_allclose((kind.matrix(X) + 0.1 * np.eye(300)) @ solution.x, v, atol=1e-4)


def test_sums_with_a_function_are_checked():
    X = make_points(100, 18)
    with pytest.raises(ValueError, match="must be symmetric"):
        bb.factorize(X, bb.Gaussian(1.0) + CallableKernel(lambda A, B: A[:, :1] - B[:, 0]), rank=5)


# --- files -----------------------------------------------------------------------------------------------------------


def test_files_keep_the_kernel(kind, tmp_path):
    X = make_points(300, 19)
    A = bb.factorize(X, kind.kernel, n_clusters=3, rank=15, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    B = bb.load(tmp_path / "a.bbf")
    assert B.kernel == kind.kernel
    np.testing.assert_array_equal(A.extend(X[:9] + 0.1).todense(), B.extend(X[:9] + 0.1).todense())
    with pytest.raises(ValueError, match="'kernel' parameter of load must be left out"):
        bb.load(tmp_path / "a.bbf", kernel=kind.kernel)


def test_a_sum_with_a_function_is_given_again(tmp_path):
    X = make_points(200, 20)
    kernel = bb.Gaussian(LENGTHS) + CallableKernel(lambda A, B: 1e-4 * A @ B.T)
    A = bb.factorize(X, kernel, n_clusters=2, rank=15, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    with pytest.raises(ValueError, match="kernel callable, which a file cannot hold"):
        bb.load(tmp_path / "a.bbf").extend(X)
    B = bb.load(tmp_path / "a.bbf", kernel=kernel)
    np.testing.assert_array_equal(A.extend(X).todense(), B.extend(X).todense())


# --- estimators ------------------------------------------------------------------------------------------------------


@pytest.fixture
def data():
    X = make_points(500, 21)
    y = np.sin(X[:, 0]) + X[:, 1] / 20 + 0.1 * np.random.default_rng(22).normal(size=500)
    return X, y, make_points(50, 23)


def test_ridge_is_the_exact_one(kind, data):
    """Up to 1,000 points nothing is compressed; the noise of a kernel is added to the ridge."""
    X, y, new = data
    model = bb.KernelRidge(0.2, kernel=kind.kernel, random_state=0).fit(X, y)
    expected = kind.values(new, X) @ np.linalg.solve(kind.matrix(X) + 0.2 * np.eye(500), y)
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-6)
    assert model.expansion_.kernel == kind.kernel == model.factorization_.kernel


@two_kinds
def test_compressed_ridge_predicts_as_well(kind, data):
    X, y, new = data
    model = bb.KernelRidge(0.2, kernel=kind.kernel, n_clusters=5, rank=60, random_state=0).fit(X, y)
    expected = kind.values(new, X) @ np.linalg.solve(kind.matrix(X) + 0.2 * np.eye(500), y)
    assert np.sqrt(np.mean((model.predict(new) - expected) ** 2)) < 0.15 * np.std(y)


def test_candidates_of_alpha(kind, data):
    X, y = data[0][:250], data[1][:250]
    model = bb.KernelRidge([0.01, 0.1, 1.0], kernel=kind.kernel, random_state=0).fit(X, y)
    K = kind.matrix(X)
    scores = []
    for alpha in (0.01, 0.1, 1.0):
        inverse = np.linalg.inv(K + alpha * np.eye(250))
        scores.append(-np.mean((inverse @ y / np.diagonal(inverse)) ** 2))
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scores, rtol=1e-5)


def test_process_is_the_exact_one(kind, data):
    X, y, new = data
    settings = {"bandwidth": None, "signal_variance": 1.5, "alpha": 0.1, "mean": None}
    model = bb.GaussianProcessRegressor(kind.kernel, **settings).fit(X, y)
    K, cross = 1.5 * kind.matrix(X) + 0.1 * np.eye(500), 1.5 * kind.values(new, X)
    mean, std = model.predict(new, return_std=True, include_noise=False)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), atol=1e-5)
    prior = 1.5 * np.diagonal(kind.values(new, new))
    np.testing.assert_allclose(std**2, prior - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T)), atol=1e-4)
    _, logdet = np.linalg.slogdet(K)
    likelihood = -0.5 * (y @ np.linalg.solve(K, y) + logdet + 500 * np.log(2 * np.pi))
    assert model.log_marginal_likelihood_value_ == pytest.approx(likelihood, rel=1e-6)
    assert model.noise_variance_ == pytest.approx(0.1 + 1.5 * kind.noise)
    assert model.kernel_ == kind.kernel
    assert model.predict(new, return_cov=True)[1].shape == (50, 50)


def test_scikit_learns_kernels_are_taken_as_their_equals(data, tmp_path):
    X, y, new = data
    theirs = gp.ConstantKernel(2.0) * gp.RBF(LENGTHS) + gp.WhiteKernel(0.2)
    model = bb.GaussianProcessRegressor(theirs, bandwidth=None, signal_variance=1.0, alpha=1e-10, mean=None).fit(X, y)
    exact = Exact(theirs, optimizer=None).fit(X, y)
    np.testing.assert_allclose(model.predict(new), exact.predict(new), atol=1e-6)
    assert model.kernel_ == bb.kernels.from_sklearn(theirs)
    bb.save(model, tmp_path / "m.bbf")
    again = bb.load(tmp_path / "m.bbf")
    assert again.kernel == theirs
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


@two_kinds
@pytest.mark.parametrize("name", ["ridge", "classifier", "process", "pca", "clustering"])
def test_estimators_are_cloned_and_saved(kind, data, name, tmp_path):
    X, y, new = data[0][:200], data[1][:200], data[2]
    rest = {"n_clusters": 4, "rank": 20, "random_state": 0, "kernel": kind.kernel}
    model = {
        "ridge": bb.KernelRidge(0.1, **rest),
        "classifier": bb.KernelRidgeClassifier(0.1, **rest),
        "process": bb.GaussianProcessRegressor(bandwidth=None, **rest),
        "pca": bb.KernelPCA(3, **rest),
        "clustering": bb.SpectralClustering(3, n_blocks=4, rank=20, random_state=0, kernel=kind.kernel),
    }[name]
    model = clone(model).fit(X, y > 0 if name == "classifier" else y)
    bb.save(model, tmp_path / "m.bbf")
    again = bb.load(tmp_path / "m.bbf")
    assert again.kernel == kind.kernel
    if name == "clustering":
        np.testing.assert_array_equal(again.labels_, model.labels_)
    else:
        ask = "transform" if name == "pca" else "predict"
        np.testing.assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))


def test_bandwidths_of_estimators(data):
    X, y, _ = data
    lengths = bb.KernelRidge(kernel=bb.Gaussian(LENGTHS), n_clusters=3, rank=10).fit(X, y)
    np.testing.assert_array_equal(lengths.bandwidth_, LENGTHS)
    assert bb.KernelRidge(kernel=2.0 * bb.Gaussian(1.0), n_clusters=3, rank=10).fit(X, y).bandwidth_ is None
    in_metric = bb.Gaussian(1.0).with_metric(METRIC)
    median = bb.KernelRidge(kernel=in_metric, bandwidth="median", random_state=0, n_clusters=3, rank=10).fit(X, y)
    scaled = bb.KernelRidge(bandwidth="median", random_state=0, n_clusters=3, rank=10).fit(X @ METRIC.T, y)
    assert median.bandwidth_ == pytest.approx(scaled.bandwidth_)
    assert median.expansion_.kernel == bb.Gaussian(median.bandwidth_).with_metric(METRIC)
    chosen = bb.KernelRidge(kernel=in_metric, bandwidth=[0.5, 2.0], n_clusters=3, rank=10).fit(X, y)
    assert chosen.bandwidth_ in (0.5, 2.0)


@pytest.mark.parametrize(
    ("kernel", "has"), [(bb.Gaussian(LENGTHS), "one for each column"), (bb.Gaussian(1.0) + bb.White(0.1), "none")]
)
@pytest.mark.parametrize("bandwidth", [1.0, "median", "auto", [1.0, 2.0]])
def test_no_bandwidth_takes_the_place_of_many_or_none(data, kernel, has, bandwidth):
    X, y, _ = data
    with pytest.raises(
        ValueError, match=f"'bandwidth' parameter of KernelRidge must be None for a kernel that has {has}"
    ):
        bb.KernelRidge(kernel=kernel, bandwidth=bandwidth).fit(X, y)


def test_a_process_keeps_the_lengths_it_is_told_to_keep(data):
    X, y, _ = data
    model = bb.GaussianProcessRegressor(bb.Gaussian(LENGTHS), bandwidth=None).fit(X, y)
    assert model.kernel_ == bb.Gaussian(LENGTHS)
    np.testing.assert_array_equal(model.bandwidth_, LENGTHS)


# --- other methods ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["nystrom", "nystrom-kmeans", "svd", "meka", "bbf", "random-features"])
def test_baselines_take_lengths_and_metrics(method):
    X = make_points(300, 24)
    for kernel in (bb.Gaussian(3 * LENGTHS), bb.Gaussian(3.0).with_metric(METRIC)):
        A = approximate(X, kernel, method, memory=60 * 300, rng=0)
        assert bb.relative_error(A, X, kernel).value < (0.3 if method in ("random-features", "meka") else 0.05)


def test_fast_gauss_transform_takes_lengths():
    X = make_points(300, 25)
    kernel = bb.Gaussian(LENGTHS)
    assert np.abs(ifgt(X, kernel, tol=1e-4, rng=0) @ np.eye(300) - kernel(X)).max() < 1e-4


def test_baselines_refuse_noise():
    with pytest.raises(ValueError, match="'kernel' parameter of nystrom must have no white noise"):
        approximate(make_points(50, 26), bb.Gaussian(1.0) + bb.White(0.1), "nystrom", rank=5)
