from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import blockbasis as bb
from blockbasis._utils import machine
from blockbasis.datasets import unit_cube_mixture
from blockbasis.planning import plan as planning
from tests.repeating import first_of


@pytest.fixture(scope="module")
def cloud():
    return unit_cube_mixture(2000, 3, rng=0)


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [{"tol": 0.1}, {"tol": 1e-3}, {"memory": 60_000}], ids=str)
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_plan_tells_what_is_then_stored(cloud, goal, seed):
    plan = bb.plan(cloud, bb.Gaussian(0.5), rng=seed, **goal)
    A = bb.factorize(cloud, bb.Gaussian(0.5), plan=plan, rng=seed)
    assert plan.n_clusters == A.n_clusters
    assert plan.stored == pytest.approx(A.stored, rel=0.25)
    assert plan.nbytes == pytest.approx(A.nbytes, rel=0.3)
    assert plan.entries == pytest.approx(A.entries.total, rel=0.5)
    assert plan.predicted_error == pytest.approx(A.error_estimate.value, rel=0.5)


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_carrying_out_a_plan_keeps_its_tolerance(cloud, seed):
    plan = bb.plan(cloud, bb.Gaussian(0.3), tol=0.02, rng=seed)
    A = bb.factorize(cloud, bb.Gaussian(0.3), plan=plan, rng=seed + 10)
    assert bb.relative_error(A, cloud, bb.Gaussian(0.3)).value <= 0.02


def test_a_plan_is_what_factorize_does_by_itself(cloud):
    kernel = bb.Gaussian(0.5)
    plan = bb.plan(cloud, kernel, tol=0.05, rng=7)
    at_once = bb.factorize(cloud, kernel, tol=0.05, rng=7)
    np.testing.assert_array_equal(bb.factorize(cloud, kernel, plan=plan, rng=7).todense(), at_once.todense())


def test_a_plan_costs_less_than_the_work():
    X = unit_cube_mixture(20_000, 4, rng=0)
    plan = bb.plan(X, bb.Gaussian(0.5), tol=1e-2, rng=0)
    A = bb.factorize(X, bb.Gaussian(0.5), plan=plan, rng=0)
    spent = bb.factorize(X, bb.Gaussian(0.5), tol=1e-2, rng=0).entries.total - A.entries.total
    assert 0 < spent < A.entries.total


def test_a_plan_can_be_read(cloud):
    text = repr(bb.plan(cloud, bb.Gaussian(0.5), tol=0.05, rng=0))
    for part in ("2000 points, tol=0.05", "clusters", "floats", "per point", "MB", "kernel entries", "error", " s"):
        assert part in text
    assert "memory=60000" in repr(bb.plan(cloud, bb.Gaussian(0.5), memory=60_000, rng=0))


def test_a_plan_holds_the_other_choices(cloud):
    narrow = bb.plan(cloud, bb.Gaussian(0.5), tol=0.05, n_clusters=9, diagonal=False, dtype=np.float32, rng=0)
    A = bb.factorize(cloud, bb.Gaussian(0.5), plan=narrow, rng=0)
    assert (A.n_clusters, A.dtype, A.diagonal_part) == (9, np.dtype(np.float32), None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tol": 0.1}, "'tol'"),
        ({"rank": 3}, "'rank'"),
        ({"partition": np.zeros(2000, dtype=int)}, "'partition'"),
        ({"cutoff": 0.1}, "'cutoff'"),
    ],
    ids=str,
)
def test_no_choice_beside_a_plan(cloud, arguments, said):
    plan = bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, n_clusters=4, rng=0)
    with pytest.raises(ValueError, match=f"'plan' parameter of factorize takes the place of {said}"):
        bb.factorize(cloud, bb.Gaussian(0.5), plan=plan, **arguments)


def test_wrong_plans(cloud):
    plan = bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, n_clusters=4, rng=0)
    with pytest.raises(ValueError, match=r"'plan' parameter .* shape \(5, 3\). Got one of 2000 points"):
        bb.factorize(cloud[:5], bb.Gaussian(0.5), plan=plan)
    with pytest.raises(TypeError, match="'plan' parameter of factorize must be what plan.. returns. Got dict"):
        bb.factorize(cloud, bb.Gaussian(0.5), plan={})


def test_a_plan_is_for_its_own_points_and_kernel(cloud):
    plan = bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, n_clusters=4, rng=0)
    with pytest.raises(ValueError, match="'plan' parameter of factorize must be of the points given"):
        bb.factorize(cloud + 1, bb.Gaussian(0.5), plan=plan)
    whole = np.rint(100 * cloud)  # sums of whole numbers do not depend on their order
    with pytest.raises(ValueError, match="other points"):
        bb.factorize(whole[::-1], bb.Gaussian(50.0), plan=bb.plan(whole, bb.Gaussian(50.0), tol=0.1, rng=0))
    with pytest.raises(ValueError, match=r"must be of the kernel given, Gaussian.*0.6.*Got one of Gaussian.*0.5"):
        bb.factorize(cloud, bb.Gaussian(0.6), plan=plan)


def test_plans_are_equal_to_themselves_only(cloud):
    first, second = (bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, n_clusters=4, rng=0) for _ in range(2))
    assert first == first
    assert first != second


@pytest.mark.parametrize("n", [1, 2, 30])
def test_plans_of_few_points(n):
    X = unit_cube_mixture(n, 2, rng=0)
    plan = bb.plan(X, bb.Gaussian(0.5), tol=0.1, rng=0)
    assert bb.factorize(X, bb.Gaussian(0.5), plan=plan, rng=0).stored <= plan.stored + 3 * n


def test_a_budget_that_does_not_fit_is_to_be_smaller(cloud, monkeypatch):
    plan = bb.plan(cloud, bb.Gaussian(0.5), memory=20 * len(cloud), rng=0)
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="What would fit: a smaller memory"):
        bb.factorize(cloud, bb.Gaussian(0.5), plan=plan)


def test_memory_is_looked_at_when_a_plan_is_carried_out(cloud, monkeypatch):
    plan = bb.plan(cloud, bb.Gaussian(0.5), tol=0.1, n_clusters=4, rng=0)
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="What would fit: a larger tol or bandwidth"):
        bb.factorize(cloud, bb.Gaussian(0.5), plan=plan)


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_number_of_clusters_is_near_the_best(cloud, seed):
    """At a budget, the error is within 15% of the best over a grid of k: the minimum is flat."""
    kernel, budget = bb.Gaussian(0.3), 30 * len(cloud)
    best = min(
        bb.relative_error(bb.factorize(cloud, kernel, memory=budget, n_clusters=k, rng=0), cloud, kernel).value
        for k in (2, 4, 8, 16, 32, 64)
    )
    A = bb.factorize(cloud, kernel, memory=budget, rng=seed)
    assert bb.relative_error(A, cloud, kernel).value <= 1.15 * best


# --- a ridge ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bandwidth", "tol", "ridges"), [(0.05, 0.05, (20.0, 80.0)), (1.0, 0.01, (1e3, 1e4))])
def test_a_ridge_shrinks_the_ranks_and_keeps_every_solution(cloud, bandwidth, tol, ridges):
    kernel, X = bb.Gaussian(bandwidth), cloud[:600]
    K, identity = kernel(X), np.eye(600)
    smooth = [np.ones(600), np.sin(3 * X[:, 0]), np.linalg.eigh(K)[1][:, -1]]
    b = np.column_stack([np.random.default_rng(1).normal(size=(600, 5)), *smooth])
    stored = [bb.factorize(X, kernel, tol=tol, rng=0).stored]
    for ridge in ridges:
        A = bb.factorize(X, kernel, tol=tol, ridge=ridge, rng=0)
        exact, ours = (np.linalg.solve(M + ridge * identity, b) for M in (K, A.todense()))
        assert (np.linalg.norm(ours - exact, axis=0) <= tol * np.linalg.norm(exact, axis=0)).all()
        assert np.linalg.norm(A.todense() - K, 2) <= tol * ridge
        stored.append(A.stored)
    assert stored[0] > stored[1] > stored[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_ridge_is_kept_by_sampled_rows_too(seed):
    X, kernel, tol, ridge = unit_cube_mixture(4500, 3, rng=0), bb.Gaussian(0.2), 0.05, 400.0
    K = kernel(X)
    plain = bb.factorize(X, kernel, tol=tol, rng=0).stored
    A = bb.factorize(X, kernel, tol=tol, ridge=ridge, rng=seed)
    assert A.stored < plain
    assert bb.spectral_norm(A.todense() - K).value <= tol * ridge


def test_a_small_ridge_changes_nothing(cloud):
    plain, ridged = (bb.factorize(cloud, bb.Gaussian(0.5), tol=0.05, ridge=r, rng=0) for r in (None, 1e-6))
    np.testing.assert_array_equal(plain.todense(), ridged.todense())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ridge": 0.0}, "'ridge' parameter of factorize must be a positive finite number. Got 0.0"),
        ({"ridge": "1"}, "'ridge' parameter of factorize must be a positive number. Got '1'"),
        ({"ridge": 1.0, "memory": 10**5}, "'ridge' parameter of factorize goes with 'tol' only. Got it with 'memory'"),
        (
            {"ridge": 1.0, "algorithm": "paper"},
            "'ridge' parameter of factorize must be left out with algorithm='paper'",
        ),
        ({"ridge": 1.0, "rank": 5}, "'ridge' parameter of factorize goes with 'tol' only. Got it with 'rank'"),
    ],
    ids=str,
)
def test_wrong_ridges(cloud, arguments, said):
    with pytest.raises((ValueError, TypeError), match=said):
        bb.factorize(cloud, bb.Gaussian(0.5), **arguments)


# --- tolerances near what the dense matrix holds ---------------------------------------------------------------------


def plane(seed):
    """Points whose matrix is of so high a rank, to six digits, that clusters are kept nearly whole."""
    return np.random.default_rng(seed).normal(size=(500, 2)), bb.Gaussian(0.5)


DENSE_PLANE = 500 * 501 // 2


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_tolerance_needs_hardly_more_than_a_budget_of_the_same_error(seed):
    X, kernel = plane(seed)
    budget = int(0.75 * DENSE_PLANE)
    reached = bb.relative_error(bb.factorize(X, kernel, memory=budget, rng=seed), X, kernel).value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = bb.factorize(X, kernel, tol=reached, rng=seed)
    assert bb.relative_error(A, X, kernel).value <= reached
    assert A.stored <= 1.05 * budget


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_tolerance_that_nothing_less_than_the_matrix_keeps_takes_hardly_more(seed):
    X, kernel = plane(seed)
    with pytest.warns(bb.PerformanceWarning, match="What would fit: tol=") as caught:
        A = bb.factorize(X, kernel, tol=1e-10, rng=seed)
    assert A.stored <= 1.05 * DENSE_PLANE
    named = float(str(caught[0].message).split("tol=")[1].split(" ")[0])
    almost = bb.plan(X, kernel, memory=int(0.95 * DENSE_PLANE), rng=seed).predicted_error
    assert almost < named < 30 * almost
    assert bb.plan(X, kernel, tol=named, rng=seed).stored <= 0.8 * DENSE_PLANE


@pytest.mark.parametrize("n_clusters", [None, 6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", first_of(range(2)))
def test_a_plan_expects_the_tolerance_to_be_kept(n_clusters, dtype, seed):
    X, kernel = plane(seed)
    for tol in (1e-2, 1e-5, 1e-10):
        plan = bb.plan(X, kernel, tol=tol, n_clusters=n_clusters, dtype=dtype, rng=seed)
        assert plan.predicted_error <= tol


# --- compression that does not pay -----------------------------------------------------------------------------------


def scattered(n=600):
    """Points in so many dimensions that nothing is of low rank at this bandwidth."""
    return np.random.default_rng(0).normal(size=(n, 30)), bb.Gaussian(6.0)


def test_a_warning_names_a_tolerance_that_pays():
    X, kernel = scattered()
    with pytest.warns(
        bb.PerformanceWarning, match=r"more than the 180300 of the dense matrix. What would fit: tol="
    ) as caught:
        A = bb.factorize(X, kernel, tol=1e-4, rng=0)
    assert caught[0].filename == __file__
    assert bb.relative_error(A, X, kernel).value <= 1e-4
    named = float(str(caught[0].message).split("tol=")[1].split(" ")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bb.factorize(X, kernel, tol=1.1 * named, rng=0).stored < 600 * 601 / 2


def test_a_warning_when_it_only_turns_out_not_to_pay(monkeypatch):
    X, kernel = scattered()
    plan = bb.plan(X, kernel, tol=1e-4, rng=0)
    ones = np.ones_like(plan.ranks)
    hopeful = dataclasses.replace(plan, ranks=ones, sketched=ones, least_gains=None)
    with pytest.warns(
        bb.PerformanceWarning, match=r"took \d+ floats, more than the 180300 of the dense matrix. What would fit: tol="
    ):
        A = bb.factorize(X, kernel, plan=hopeful, rng=0)
    assert A.stored > 180300


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_given_ranks_that_do_not_fit_are_refused(cloud, monkeypatch, algorithm):
    monkeypatch.setattr(machine, "available_memory", lambda: 10**5)
    with pytest.raises(MemoryError, match="What would fit: smaller ranks"):
        bb.factorize(cloud, bb.Gaussian(0.5), n_clusters=4, rank=50, algorithm=algorithm, rng=0)


def test_a_plan_says_that_it_does_not_pay():
    X, kernel = scattered()
    plan = bb.plan(X, kernel, tol=1e-4, rng=0)
    assert plan.fitting_tol is not None
    assert "too large" in repr(plan)


def test_what_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    X, kernel = scattered()
    for module in (planning, machine):
        monkeypatch.setattr(module, "available_memory", lambda: 9 * 10**6)
    events = []
    with pytest.raises(MemoryError, match=r"9 MB are free. What would fit: tol="):
        bb.factorize(X, kernel, tol=1e-2, rng=0, progress=events.append)
    assert {event.stage.split()[0] for event in events} == {"survey"}


def test_no_warning_where_it_pays(cloud):
    assert bb.plan(cloud, bb.Gaussian(0.5), tol=1e-3, rng=0).fitting_tol is None


@pytest.mark.parametrize("kind", [{}, {"diagonal": False}])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_budget_is_spent_though_it_was_planned_too_small(cloud, seed, kind):
    X, kernel = cloud, bb.Gaussian(1.0)
    plan = bb.plan(X, kernel, memory=40 * len(X), n_clusters=8, rng=seed, **kind)
    small = dataclasses.replace(plan, sketched=np.maximum(plan.sketched // 2, 1))
    A = bb.factorize(X, kernel, plan=small, rng=seed)
    assert 0.9 * 40 * len(X) <= A.stored <= 40 * len(X)


def test_bytes_of_a_plan_are_those_of_the_coordinates_of_the_kernel():
    X = np.random.default_rng(0).normal(size=(500, 40))
    kernel = bb.Gaussian(1.0).with_metric(np.random.default_rng(1).normal(size=(1, 40)))
    plan = bb.plan(X, kernel, tol=1e-2, rng=0)
    A = bb.factorize(X, kernel, plan=plan, rng=0)
    assert 0.8 * A.nbytes < plan.nbytes < 1.25 * A.nbytes
    plan = bb.plan(X, kernel, memory="150KB", rng=0)
    A = bb.factorize(X, kernel, plan=plan, rng=0)
    assert 0.8 * A.nbytes < plan.nbytes <= 150_000
    assert A.nbytes <= 150_000


@pytest.mark.parametrize("kilobytes", [30, 40, 60, 150])
def test_a_small_size_has_as_few_clusters_as_it_needs(tmp_path, kilobytes):
    X = np.random.default_rng(0).normal(size=(600, 3))
    A = bb.factorize(X, bb.Gaussian(1.0), memory=f"{kilobytes}KB", rng=0)
    bb.save(A, tmp_path / "A.bbf")
    assert A.nbytes <= 1000 * kilobytes
    assert (tmp_path / "A.bbf").stat().st_size <= 1000 * kilobytes


def test_a_size_that_no_number_of_clusters_keeps():
    X = np.random.default_rng(0).normal(size=(600, 3))
    with pytest.raises(ValueError, match="n_clusters=1. Got 20,000 instead: take more memory.$"):
        bb.factorize(X, bb.Gaussian(1.0), memory="20KB", rng=0)
