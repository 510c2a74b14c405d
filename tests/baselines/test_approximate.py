"""What every method must be, whichever it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import blockbasis as bb
from blockbasis.baselines import METHODS, Approximation, approximate
from blockbasis.operator import Product

KERNEL = bb.Gaussian(0.4)
FEW_CLUSTERS = {name: {"n_clusters": 3} for name in ("meka", "clra", "bbf-paper")}
BUDGETED = [name for name in METHODS if name != "ifgt"]


def build(X, method, kernel=KERNEL, **settings):
    if method == "ifgt":
        settings = {name: value for name, value in settings.items() if name not in ("memory", "rank")} or {"tol": 1e-3}
    return approximate(X, kernel, method, **{"rng": 0, **FEW_CLUSTERS.get(method, {}), **settings})


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


@pytest.fixture(params=BUDGETED)
def budgeted(request):
    return request.param


def test_an_operator_with_a_name(points, method):
    A = build(points, method, memory=160 * 20)
    assert isinstance(A, (Product, LinearOperator))
    assert isinstance(A, Approximation)
    assert A.name == method
    assert A.shape == (160, 160)
    assert A.dtype == np.float64
    assert repr(A).startswith(type(A).__name__ + f"({method}, 160 x 160, ")


def test_products_are_dense_products(points, method):
    A = build(points, method, memory=160 * 20)
    dense = A.todense()
    rng = np.random.default_rng(1)
    v, V, z = rng.standard_normal(160), rng.standard_normal((160, 4)), 1j * rng.standard_normal(160)
    np.testing.assert_allclose(A @ v, dense @ v, atol=1e-10)
    np.testing.assert_allclose(A @ V, dense @ V, atol=1e-10)
    np.testing.assert_allclose(A @ z, dense @ z, atol=1e-10)
    np.testing.assert_allclose(A.T @ V, dense.T @ V, atol=1e-10)
    np.testing.assert_allclose(A.T.T @ v, dense @ v, atol=1e-10)
    assert bb.dot_test(A, rng=0) < 1e-13


def test_symmetric_forms(points, budgeted):
    A = build(points, budgeted, memory=160 * 20)
    assert A.T is A
    assert A.H is A
    np.testing.assert_allclose(A.todense(), A.todense().T, atol=1e-10)


def test_relative_error_is_that_of_the_dense_form(points, method, relative):
    A = build(points, method, memory=160 * 20)
    exact = relative(A.todense(), KERNEL(points))
    assert bb.relative_error(A, points, KERNEL).value == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert exact < 0.6


def test_the_budget_is_kept_and_used(points, budgeted):
    for floats in (5 * 160, 20 * 160 + 7, 40 * 160):
        stored = build(points, budgeted, memory=floats).stored
        assert 0.75 * floats < stored <= floats


def test_a_budget_in_bytes(points, budgeted):
    if budgeted == "bbf":  # a size bounds all that is kept, and the file
        A = build(points, budgeted, memory="60 kB").factorization
        assert A.nbytes <= 60_000
        return
    assert build(points, budgeted, memory="25.6 kB").stored == build(points, budgeted, memory=20 * 160).stored
    single = points.astype(np.float32)
    assert build(single, budgeted, memory="25.6 kB").stored > 1.5 * build(points, budgeted, memory="25.6 kB").stored


@pytest.mark.parametrize(
    "method", ["svd", "nystrom", "nystrom-kmeans", "nystrom-leverage", "rpcholesky", "random-features"]
)
def test_a_rank_costs_a_float_for_each_point(points, method):
    A = build(points, method, rank=12)
    assert A.rank == 12
    assert A.stored == 12 * 160


def test_more_memory_less_error(points, budgeted):
    def mean_error(floats):
        runs = (build(points, budgeted, memory=160 * floats, rng=seed) for seed in range(3))
        return np.mean([bb.relative_error(A, points, KERNEL).value for A in runs])

    assert mean_error(30) < 0.7 * mean_error(6)


def test_the_seed_decides(points, budgeted):
    first, same, other = (build(points, budgeted, memory=160 * 10, rng=seed).todense() for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    if budgeted != "svd":
        assert np.abs(first - other).max() > 1e-8


def test_float32_points_give_a_float32_operator(points, method):
    single = build(points.astype(np.float32), method, memory=160 * 20)
    assert single.dtype == np.float32
    assert (single @ np.ones(160)).dtype == np.float32
    np.testing.assert_allclose(single @ np.ones(160), single.todense().astype(np.float64) @ np.ones(160), rtol=1e-4)
    assert bb.relative_error(single, points, KERNEL).value < 0.6


def test_arguments_are_left_alone(points, method):
    X = points.copy()
    build(X, method, memory=160 * 20) @ np.ones(160)
    np.testing.assert_array_equal(X, points)


@pytest.mark.parametrize("method", ["svd", "nystrom", "nystrom-kmeans", "nystrom-leverage", "rpcholesky", "clra"])
def test_a_matrix_of_that_rank_is_reproduced(points, method, relative):
    """k(x, y) = x y has rank 3, so that three columns, any of them, hold all of it."""

    def linear(X, Y):
        return X @ Y.T

    for seed in range(5):
        assert relative(build(points, method, linear, rank=3, rng=seed), points @ points.T) < 1e-10


def test_semidefinite_forms_serve_a_solver(points):
    for method in ("svd", "nystrom", "nystrom-kmeans", "nystrom-leverage", "rpcholesky", "random-features"):
        A = build(points, method, memory=160 * 20)
        assert np.linalg.eigvalsh(A.todense()).min() > -1e-12 * 160
        _, info = cg(A + LinearOperator((160, 160), matvec=lambda v: 0.1 * v), np.ones(160), rtol=1e-8)
        assert info == 0


def test_few_points(method):
    for n in (1, 2, 7):
        X = np.random.default_rng(0).normal(size=(n, 2))
        settings = {"n_clusters": min(n, 2)} if method in FEW_CLUSTERS else {}
        A = approximate(X, KERNEL, method, rng=0, **({} if method == "ifgt" else {"rank": 2}), **settings)
        assert np.isfinite(A @ np.ones(n)).all()


def test_points_that_coincide(method):
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 30, axis=0)
    rank = 40 if method.startswith("nystrom") else 8  # eight points drawn at random can miss one of the four places
    for kernel in (bb.Gaussian(1.0), bb.Laplacian(1.0)):
        if method == "ifgt" and not isinstance(kernel, bb.Gaussian):
            continue
        A = build(X, method, kernel, rank=rank)
        assert np.isfinite(A.todense()).all()
        if method != "random-features":
            assert bb.relative_error(A, X, kernel).value < 1e-10


@pytest.mark.parametrize("method", ["nystrom", "nystrom-kmeans", "nystrom-leverage"])
def test_directions_of_rounding_are_left_out(points, method, relative):
    """Of a smooth kernel: the reciprocal roots of eigenvalues that are rounding are large, and mean nothing."""
    kernel = bb.Gaussian(30.0)
    A = build(points, method, kernel, rank=160)
    assert A.rank < 40
    assert relative(A, kernel(points)) < 1e-14


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"X": np.full((4, 2), np.nan)}, ValueError, ["'X'", "free of NaN"]),
        ({"X": np.zeros(4)}, ValueError, ["'X'", "two-dimensional"]),
        ({"X": np.empty((0, 2))}, ValueError, ["'X'", "at least one point"]),
        ({"kernel": "gaussian"}, TypeError, ["'kernel'", "Got 'gaussian'"]),
        ({"rng": -1}, ValueError, ["'rng'", "Got -1"]),
    ],
)
def test_bad_arguments_of_every_method(points, method, settings, error, parts):
    budget = {} if method == "ifgt" else {"rank": 5}
    given = {"X": points, "kernel": KERNEL, "rng": 0, **budget, **settings}
    with pytest.raises(error) as caught:
        approximate(given.pop("X"), given.pop("kernel"), method, **given)
    for part in [" must be ", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ValueError, "one of the 'memory' and 'rank' parameters of .* must be given. Got neither"),
        (
            {"memory": 9999, "rank": 5},
            ValueError,
            "one of the 'memory' and 'rank' parameters of .* must be given. Got both",
        ),
        ({"rank": 0}, ValueError, "'rank' parameter of .* must be .*Got 0 instead"),
        ({"rank": 2.0}, TypeError, "'rank' parameter of .* must be .*Got 2.0 instead"),
        ({"memory": 100}, ValueError, "'memory' parameter of .* must be at least 3 floats"),
        ({"memory": "much"}, ValueError, "'memory' parameter of .* must be .*Got 'much' instead"),
        ({"rank": 3, "kernel": lambda X, Y: X[:, :1] + 2 * Y[:, 0]}, ValueError, "must be symmetric"),
    ],
)
def test_bad_budgets_and_functions(points, budgeted, settings, error, message):
    with pytest.raises(error, match=message):
        approximate(points, **{"kernel": KERNEL, "method": budgeted, "rng": 0, **settings})


def indefinite(X, Y):
    return np.tanh(2 * X @ Y.T - 1)


@pytest.mark.parametrize("method", [name for name in BUDGETED if name not in ("bbf-paper", "random-features")])
def test_functions_that_are_not_semidefinite(points, method):
    hint = "factorize with algorithm='paper' and 'rank' given takes any symmetric function"
    with pytest.raises(ValueError, match=f"must be positive semi-definite.* instead; {hint}"):
        approximate(points, indefinite, method, rank=5, rng=0)


def test_the_papers_algorithm_takes_any_symmetric_function(points, relative):
    K = indefinite(points, points)
    assert np.linalg.eigvalsh(K).min() < -1
    for budget in ({"rank": 25}, {"memory": 50 * 160}):
        assert relative(approximate(points, indefinite, "bbf-paper", rng=0, **budget), K) < 1e-3


def test_unknown_methods_and_options(points):
    with pytest.raises(ValueError, match="'method' parameter of approximate must be one of 'svd', .*Got 'pca'"):
        approximate(points, KERNEL, "pca", rank=3)
    with pytest.raises(TypeError, match="method 'svd' takes 'memory', 'rank', 'rng'. Got 'eta' instead"):
        approximate(points, KERNEL, "svd", rank=3, eta=0.1)
    with pytest.raises(TypeError, match="method 'ifgt' takes 'tol', 'rng'. Got 'memory' instead"):
        approximate(points, KERNEL, "ifgt", memory=9999)


@pytest.mark.parametrize("method", ["meka", "clra", "bbf", "bbf-paper"])
def test_bad_numbers_of_clusters(points, method):
    with pytest.raises(ValueError, match="'n_clusters' parameter of .* must be .*Got 161 instead"):
        approximate(points, KERNEL, method, rank=3, n_clusters=161)
    with pytest.raises(TypeError, match="'n_clusters' parameter of .* must be .*Got 'many' instead"):
        approximate(points, KERNEL, method, rank=3, n_clusters="many")


@pytest.mark.parametrize("method", ["meka", "clra", "bbf-paper"])
def test_a_budget_too_small_for_the_clusters(points, method):
    with pytest.raises(ValueError, match="must be enough for one vector in each cluster, .*Decrease 'n_clusters'"):
        approximate(
            points, KERNEL, method, memory=5 * 160, n_clusters=60, rng=0, **({"eta": 0.0} if method == "meka" else {})
        )
