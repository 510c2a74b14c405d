from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.cluster import KMeans

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture
from blockbasis.planning import build
from tests.repeating import first_of


def heavy(n, seed):
    """Heavy tails: a few points far from all others."""
    return np.random.default_rng(seed).standard_t(2.5, size=(n, 4))


def line(n, seed):
    """Points on a curve, with duplicates."""
    t = np.random.default_rng(seed).uniform(0, 6, n).round(2)
    return np.column_stack((np.cos(t), np.sin(t), t))


DATA = {"mixture": lambda n, seed: unit_cube_mixture(n, 4, rng=seed), "heavy": heavy, "line": line}


@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-3])
@pytest.mark.parametrize(("name", "h"), [("mixture", 0.5), ("heavy", 4.0), ("line", 0.5)])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_tolerance_is_met(name, h, tol, seed):
    """All entries are checked at so few points, in float32: what is met there is met."""
    X = DATA[name](700, 0)
    K = bb.Gaussian(h)(X)
    A = bb.factorize(X, bb.Gaussian(h), tol=tol, rng=seed)
    error = np.linalg.norm(A.todense() - K) / np.linalg.norm(K)
    assert error <= tol * (1 + 1e-6)
    assert A.error_estimate.exact and A.error_estimate.value == pytest.approx(error, rel=1e-5)  # float32
    # Each pair of points once, beside three blocks by which the speed of the kernel is measured.
    assert A.entries.total <= 700 * 701 // 2 + 3 * 384**2


@pytest.mark.parametrize("seed", first_of(range(2)))
def test_the_tolerance_is_met_by_sampled_entries_too(seed):
    X = unit_cube_mixture(6000, 4, rng=0)
    A = bb.factorize(X, bb.Gaussian(0.5), tol=2e-2, rng=seed)
    error = bb.relative_error(A, X, bb.Gaussian(0.5)).value
    assert error <= 2e-2
    assert not A.error_estimate.exact
    assert abs(A.error_estimate.value - error) < 4 * A.error_estimate.stderr + 0.02 * error


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_clusters_that_touch_by_few_points_keep_the_tolerance(seed):
    """The pairs between them look empty to a few samples: dropped, no rank would make up for it."""
    rng = np.random.default_rng(1)
    X = np.repeat(np.arange(8.0), 200)[:, np.newaxis] * [1.0, 0.0] + 0.2 * rng.normal(size=(1600, 2))
    A = bb.factorize(X, bb.Gaussian(0.4), tol=1e-3, partition=np.repeat(np.arange(8), 200), rng=seed)
    assert bb.relative_error(A, X, bb.Gaussian(0.4)).value <= 1e-3
    assert A.inner.density < 1


@pytest.mark.parametrize("floats", [20_000, 60_000])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_budget_of_floats_is_kept_and_used(floats, seed):
    X = DATA["mixture"](1000, 0)
    A = bb.factorize(X, bb.Gaussian(0.5), memory=floats, rng=seed)
    assert 0.85 * floats <= A.stored <= floats


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_budget_of_bytes_bounds_all_that_is_kept(tmp_path, dtype, seed):
    X = DATA["mixture"](1000, 0)
    A = bb.factorize(X, bb.Gaussian(0.5), memory="500kB", dtype=dtype, rng=seed)
    bb.save(A, tmp_path / "A.npz")
    assert A.nbytes <= 500_000
    assert (tmp_path / "A.npz").stat().st_size <= 500_000
    assert A.nbytes >= 250_000


def test_a_budget_of_bytes_holds_with_many_columns_or_is_refused():
    """Landmarks of many columns can take more than the floats of a product."""
    rng = np.random.default_rng(0)
    kept = []
    for columns, memory in ((100, 1), (784, 2), (784, 15)):
        X = rng.normal(size=(1200, 5)) @ rng.normal(size=(5, columns))
        try:
            A = bb.factorize(X, bb.Gaussian(3 * columns**0.5), memory=f"{memory}MB", rng=0)
        except ValueError as error:
            assert "columns" in str(error) and "fewer clusters" in str(error)  # noqa: PT017
            continue
        assert A.nbytes <= memory * 10**6
        kept.append(columns)
    assert 100 in kept and 784 in kept


def test_a_warning_says_that_a_tolerance_is_not_met(monkeypatch):
    """Ranks of one, and no more than one chance to raise them."""
    X = DATA["mixture"](800, 0)
    plan = bb.plan(X, bb.Gaussian(0.5), tol=1e-4, n_clusters=4, rng=0)
    monkeypatch.setattr(build, "_MAX_RAISES", 1)
    poor = dataclasses.replace(plan, sketched=np.ones_like(plan.ranks), least_gains=None)
    with pytest.warns(
        bb.AccuracyWarning, match=r"The tolerance of 0.0001 was not reached: the relative error is about"
    ):
        A = bb.factorize(X, bb.Gaussian(0.5), plan=poor, rng=0)
    assert A.error_estimate.value > 1e-4


@pytest.mark.parametrize("goal", [{"tol": 1e-2}, {"memory": 40_000}], ids=str)
def test_threads_change_nothing(goal):
    X = DATA["heavy"](1500, 1)
    one, two = (bb.factorize(X, bb.Gaussian(4.0), rng=3, n_jobs=jobs, **goal) for jobs in (1, 2))
    np.testing.assert_array_equal(one.todense(), two.todense())
    assert one.entries == two.entries


def test_the_approximation_is_semidefinite():
    for h in (0.1, 0.5):
        X = DATA["mixture"](600, 2)
        A = bb.factorize(X, bb.Gaussian(h), tol=0.05, rng=0)
        values = np.linalg.eigvalsh(A.todense())
        assert values[0] >= -1e-10 * values[-1]


def test_a_tolerance_below_the_rounding_of_float32_entries_is_not_promised():
    X = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    with pytest.warns(bb.AccuracyWarning, match="tolerance of 1e-09 was not reached"):
        bb.factorize(X, bb.Gaussian(1.0), tol=1e-9, rng=0)


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_near_points_in_different_clusters_do_not_raise_the_ranks_of_all(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 3))
    labels = KMeans(16, n_init=1, random_state=seed).fit_predict(X)
    X = np.concatenate((X, X[:20] + 0.02 * rng.normal(size=(20, 3))))
    labels = np.concatenate((labels, (labels[:20] + 1) % 16))
    A = bb.factorize(X, bb.Gaussian(0.15), tol=1e-3, partition=labels, rng=seed)
    assert 0.9e-3 < bb.relative_error(A, X, bb.Gaussian(0.15)).value <= 1e-3


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_diagonal_part_that_holds_the_error_up_is_given_up_for_higher_ranks(n, seed):
    """Most points are isolated. Without D, K has a low rank: once its directions are exhausted, no rank helps."""
    rng = np.random.default_rng(seed)
    spread = np.array([1e-4, 1e-2, 1.0, 100.0])[rng.integers(4, size=n)]
    X = spread[:, np.newaxis] * rng.normal(size=(n, 3))
    A = bb.factorize(X, bb.Gaussian(3e-4), tol=1e-6, rng=seed)
    K = bb.Gaussian(3e-4)(X)
    assert np.linalg.norm(A.todense() - K) <= 1.05e-6 * np.linalg.norm(K)
