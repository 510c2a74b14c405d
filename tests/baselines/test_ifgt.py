from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import ifgt
from blockbasis.baselines.ifgt import (
    GaussTransform,
    TaylorExpansion,
    cutoff_radius,
    monomials,
    series_constants,
    truncation_order,
)
from blockbasis.datasets import unit_cube_mixture
from blockbasis.partition import kcenters

MODULE = sys.modules["blockbasis.baselines.ifgt"]


@pytest.fixture
def plane():
    return unit_cube_mixture(800, 2, rng=5)


# --- the series ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "order"), [(1, 5), (2, 1), (2, 4), (3, 4), (5, 3)])
def test_monomials_in_graded_lexicographic_order(d, order):
    Z = np.random.default_rng(0).normal(size=(6, d))
    exponents = [a for degree in range(order) for a in itertools.product(range(degree, -1, -1), repeat=d)
                 if sum(a) == degree]  # fmt: skip
    expected = np.array([np.prod(Z ** np.array(a), axis=1) for a in exponents])
    np.testing.assert_allclose(monomials(Z, order, np.ones(6)), expected, rtol=1e-12)
    factorials = [math.prod(math.factorial(i) for i in a) for a in exponents]
    expected = [2 ** sum(a) / f for a, f in zip(exponents, factorials, strict=True)]
    np.testing.assert_allclose(series_constants(d, order), expected, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_series_goes_to_the_exponential(d):
    rng = np.random.default_rng(d)
    x, y = rng.uniform(-1, 1, size=(2, 5, d))
    errors = []
    for order in (3, 6, 12, 25):
        series = np.einsum("ti,t,ti->i", monomials(x, order, np.ones(5)), series_constants(d, order),
                           monomials(y, order, np.ones(5)))  # fmt: skip
        errors.append(np.abs(series - np.exp(2 * (x * y).sum(axis=1))).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-12


def through_series(X, kernel, n_clusters, order):
    partition = kcenters(X, n_clusters, np.random.default_rng(0))
    everywhere = np.full(partition.n_clusters, np.inf)
    expansion = TaylorExpansion(partition, everywhere, (order,) * partition.n_clusters)
    return GaussTransform("ifgt", X.copy(), kernel, 1e-3, expansion, np.dtype(np.float64)).todense()


@pytest.mark.parametrize("n_clusters", [1, 5])
def test_the_kernel_as_the_order_grows(points, n_clusters):
    kernel = bb.Gaussian(1.0)
    errors = [np.abs(through_series(points, kernel, n_clusters, order) - kernel(points)).max() for order in (1, 8, 26)]
    assert errors[0] > 10 * errors[1]
    assert errors[2] < 1e-11


def test_around_every_point_one_term_is_enough(points):
    kernel = bb.Gaussian(1.0)
    np.testing.assert_allclose(through_series(points, kernel, 160, 1), kernel(points), atol=1e-12)


# --- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tol", "seed"), [(0.1, 0), (1e-3, 1), (1e-6, 2), (1e-10, 0)])
@pytest.mark.parametrize(("d", "h"), [(1, 0.1), (2, 0.3), (3, 1.0), (5, 10.0)])
def test_every_entry_is_within_the_tolerance(d, h, tol, seed):
    X = unit_cube_mixture(3000, d, rng=seed)
    A = ifgt(X, bb.Gaussian(h), tol=tol, rng=seed)
    some = np.random.default_rng(seed).choice(3000, 40, replace=False)
    K = bb.Gaussian(h)(X, X[some])
    unit = np.eye(3000)[:, some]
    assert not A.direct
    assert np.abs(A @ unit - K).max() <= tol
    assert np.abs(A.T @ unit - K).max() <= tol


def test_the_bound_holds_wherever_the_points_are():
    """The largest remainder over all distances: at the order that the bound asks for, and at half of it."""
    tol, radius = 1e-4, 0.7
    reach = radius + cutoff_radius(1.0, tol)
    order = truncation_order(radius, reach, 1.0, tol)
    a, b = np.meshgrid(np.linspace(0, radius, 60), np.linspace(0, reach, 200))
    for z in (2 * a * b, -2 * a * b):  # in one direction, and in opposite ones
        series = sum(z**k / math.factorial(k) for k in range(order))
        assert (np.exp(-(a**2) - b**2) * np.abs(np.exp(z) - series)).max() <= tol
    shorter = sum((2 * a * b) ** k / math.factorial(k) for k in range(order // 2))
    assert (np.exp(-(a**2) - b**2) * np.abs(np.exp(2 * a * b) - shorter)).max() > tol


def test_smaller_tolerances_need_longer_series():
    orders = [truncation_order(0.5, 0.5 + cutoff_radius(1.0, tol), 1.0, tol) for tol in (1e-1, 1e-3, 1e-6, 1e-12)]
    assert orders == sorted(set(orders))
    assert truncation_order(0.0, 2.0, 1.0, 1e-12) == 1
    assert truncation_order(50.0, 53.0, 1.0, 1e-3) is None


def test_cutoff(plane):
    """Points beyond the reach of every cluster cost nothing: they see none of its sources."""
    X = np.concatenate((plane, plane + 100))
    A = ifgt(X, bb.Gaussian(0.5), tol=1e-6, rng=0)
    assert not A.direct
    v = np.concatenate((np.zeros(800), np.ones(800)))
    assert not (A @ v)[:800].any()
    assert np.abs(A @ v - bb.Gaussian(0.5)(X) @ v).max() <= 800 * 1e-6


# --- where the bound cannot serve ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "h"), [(40, 0.5), (2, 1e-4)])
def test_direct_evaluation(d, h):
    X = unit_cube_mixture(300, d, rng=0)
    A = ifgt(X, bb.Gaussian(h), rng=0)
    assert A.direct
    assert A.n_clusters == 0
    assert A.stored == 300 * d
    np.testing.assert_allclose(A.todense(), bb.Gaussian(h)(X), atol=1e-12)
    np.testing.assert_allclose(A.T @ np.ones(300), bb.Gaussian(h)(X) @ np.ones(300), rtol=1e-10)


def test_points_are_few_then_many():
    """Work that does not depend on n beside work that grows with it."""
    assert ifgt(unit_cube_mixture(60, 3, rng=0), bb.Gaussian(0.5), rng=0).direct
    assert not ifgt(unit_cube_mixture(6000, 3, rng=0), bb.Gaussian(0.5), rng=0).direct


def test_direct_evaluation_is_half_of_the_matrix(plane, monkeypatch):
    """The work of the series lies between that of half of the entries and that of all: d + 20 for each."""
    monkeypatch.setattr(MODULE, "_work", lambda *arguments: 0.51 * 800**2 * 22)
    assert ifgt(plane, bb.Gaussian(0.5), rng=0).direct
    monkeypatch.setattr(MODULE, "_work", lambda *arguments: 0.49 * 800**2 * 22)
    assert not ifgt(plane, bb.Gaussian(0.5), rng=0).direct


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 2e-7), (np.float32, 1e-5), (np.float64, 1e-14)])
def test_products_are_rounded_to_the_precision_of_the_points(plane, dtype, tol):
    X = plane.astype(dtype)
    A = ifgt(X, bb.Gaussian(0.5), tol=tol, rng=0)
    assert np.abs(A.todense() - bb.Gaussian(0.5)(X.astype(np.float64))).max() <= tol + 4 * np.finfo(dtype).eps


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-8), (np.float64, 1e-16)])
def test_a_tolerance_below_the_precision(plane, dtype, tol):
    with pytest.warns(
        bb.AccuracyWarning, match=f"{tol:g} cannot be reached: products in {np.dtype(dtype)} are rounded"
    ):
        ifgt(plane.astype(dtype), bb.Gaussian(0.5), tol=tol, rng=0)


def test_what_is_read(plane):
    A = ifgt(plane, bb.Gaussian(0.5), rng=0)
    terms = sum(math.comb(order + 1, 2) for order in A.expansion.orders)
    assert A.stored == 800 * 2 + A.n_clusters * 2 + terms
    assert A.T.T is A


def test_tiles_change_nothing(plane):
    scaled, V = plane / 0.5, np.random.default_rng(0).standard_normal((400, 3))
    arguments = scaled, (scaled**2).sum(axis=1), 12, np.arange(700), np.arange(300, 700), V
    whole, tiled = MODULE._series_product(*arguments), MODULE._series_product(*arguments, tile_entries=100)
    np.testing.assert_allclose(tiled, whole, rtol=1e-10, atol=1e-10 * np.abs(whole).max())


@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"kernel": bb.Laplacian(1.0)}, ValueError, ["'kernel'", "a Gaussian", "Laplacian(bandwidth=1.0)"]),
        ({"kernel": lambda X, Y: X @ Y.T}, ValueError, ["'kernel'", "a Gaussian"]),
        ({"tol": 0}, ValueError, ["'tol'", "between 0 and 1", "Got 0"]),
        ({"tol": "small"}, TypeError, ["'tol'", "Got 'small'"]),
    ],
)
def test_bad_arguments(plane, settings, error, parts):
    with pytest.raises(error) as caught:
        ifgt(plane, **{"kernel": bb.Gaussian(1.0), **settings})
    for part in ["parameter of ifgt must be", *parts]:
        assert part in str(caught.value)
