from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning

import blockbasis as bb
from tests.repeating import first_of

METHODS = ("direct", "minres", "cg")


# --- solve -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("many", first_of([True, False]))
def test_every_method_solves(A, method, many, of, rng):
    n = A.shape[0]
    M, b = of["dense"](A) + 0.1 * np.eye(n), rng.standard_normal((n, 3) if many else n)
    found = bb.solve(A, b, 0.1, method=method, tol=1e-9)
    assert found.converged
    assert found.x.shape == b.shape
    sizes = np.linalg.norm(M @ found.x - b, axis=0) / np.linalg.norm(b, axis=0)
    assert np.max(sizes) <= 1.1e-9
    assert found.residual == pytest.approx(np.max(sizes), rel=0.1, abs=1e-13)
    assert found.iterations == len(found.history) == (0 if method == "direct" else len(found.history))
    assert "within 1e-09" in found.message


@pytest.mark.parametrize("method", ["minres", "cg"])
def test_histories_end_at_the_residual(pair, method, rng):
    found = bb.solve(pair, rng.standard_normal((150, 3)), 1e-2, method=method)
    assert found.iterations == len(found.history) > 1
    assert found.history[-1] == pytest.approx(found.residual, rel=0.01)
    assert found.history[-1] <= 1e-8 < found.history[-2]


@pytest.mark.parametrize("method", ["minres", "cg"])
def test_any_symmetric_operator(points, method, rng):
    K, b = bb.Gaussian(0.3)(points), rng.standard_normal(160)
    exact = np.linalg.solve(K + np.eye(160), b)
    for operator in (bb.ExactKernel(points, bb.Gaussian(0.3)), K, aslinearoperator(K)):
        found = bb.solve(operator, b, 1.0, method=method, tol=1e-10)
        np.testing.assert_allclose(found.x, exact, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_a_ridge_for_each_point(pair, method, of, rng):
    ridge, b = rng.uniform(0.1, 3.0, size=150), rng.standard_normal(150)
    found = bb.solve(pair, b, ridge, method=method, tol=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.solve(of["dense"](pair) + np.diag(ridge), b), atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_zero_right_hand_sides(plain, method, rng):
    assert not bb.solve(plain, np.zeros(150), 1.0, method=method).x.any()
    b = np.column_stack([np.zeros(150), rng.standard_normal(150)])
    found = bb.solve(plain, b, 1.0, method=method)
    assert found.converged
    assert not found.x[:, 0].any()
    assert found.x[:, 1].any()
    assert bb.solve(plain, np.empty((150, 0)), 1.0, method=method).x.shape == (150, 0)


def test_minres_solves_indefinite_systems(plain, of, rng):
    A, b = of["negated"](plain), rng.standard_normal(150)
    M = of["dense"](A) + 0.1 * np.eye(150)
    assert np.linalg.eigvalsh(M)[0] < -0.1
    found = bb.solve(A, b, 0.1, method="minres")
    assert np.linalg.norm(M @ found.x - b) <= 1.1e-8 * np.linalg.norm(b)


def test_cg_does_not_solve_them_in_silence(plain, of, rng):
    A = of["negated"](plain)
    with pytest.warns(ConvergenceWarning, match="not positive definite.*minres"):
        found = bb.solve(A, rng.standard_normal(150), 0.1, method="cg")
    assert not found.converged
    assert "not positive definite" in found.message
    assert repr(found).startswith("Solution(not converged, residual")


@pytest.mark.parametrize("method", ["minres", "cg"])
def test_non_convergence_warns_with_a_remedy(plain, method, rng):
    b = rng.standard_normal((150, 2))
    with pytest.warns(ConvergenceWarning, match="above 1e-08.*larger ridge") as caught:
        found = bb.solve(plain, b, 1e-5, method=method, max_iterations=3)
    assert caught[0].filename == __file__
    assert not found.converged
    assert found.iterations == 3
    assert found.residual > 1e-8


def test_a_direct_solution_says_when_rounding_is_above_the_tolerance(plain, rng):
    with pytest.warns(ConvergenceWarning, match="Rounding.*larger ridge"):
        found = bb.solve(plain, rng.standard_normal(150), 1e-8, tol=1e-14)
    assert found.residual > 1e-14


def test_float32_factors_are_solved_with_in_float64(of, rng):
    A, b = of["named"]("float32"), rng.standard_normal(150)
    M = of["dense"](A) + 1e-2 * np.eye(150)
    for method in METHODS:
        found = bb.solve(A, b, 1e-2, method=method, tol=1e-11)
        assert found.x.dtype == np.float64
        assert np.linalg.norm(M @ found.x - b) <= 1.1e-11 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "lu"}, ValueError, "'method' parameter of solve must be one of 'direct', 'minres', 'cg'"),
        ({"tol": 0.0}, ValueError, "'tol' parameter of solve"),
        ({"max_iterations": 0}, ValueError, "'max_iterations' parameter of solve"),
        ({"ridge": -1.0}, ValueError, "'ridge' parameter of solve"),
        ({"b": np.ones(3)}, ValueError, "'b' parameter of solve"),
        ({"b": np.full(150, np.nan)}, ValueError, "free of NaN"),
        ({"A": np.triu(np.ones((150, 150))), "method": "cg"}, ValueError, "symmetric"),
        ({"A": np.ones((150, 3))}, ValueError, "square"),
        ({"A": np.eye(150)}, TypeError, "must be a BlockBasis"),
    ],
)
def test_bad_arguments(plain, settings, error, message):
    arguments = {"A": plain, "b": np.ones(150), "ridge": 1.0, **settings}
    with pytest.raises(error, match=message):
        bb.solve(arguments.pop("A"), arguments.pop("b"), arguments.pop("ridge"), **arguments)


# --- exact_solve -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_the_exact_system_is_solved(points, many, preconditioned, rng):
    kernel, b = bb.Gaussian(0.3), rng.standard_normal((160, 3) if many else 160)
    A = bb.factorize(points, kernel, n_clusters=5, rank=10, rng=0) if preconditioned else None
    found = bb.exact_solve(points, kernel, b, 1e-2, preconditioner=A, n_jobs=1)
    M = kernel(points) + 1e-2 * np.eye(160)
    assert found.converged
    assert found.x.shape == b.shape
    assert np.linalg.norm(M @ found.x - b) <= 1.01e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("seed", range(3))
def test_a_factorization_saves_most_iterations(points, seed):
    kernel, b = bb.Gaussian(0.3), np.random.default_rng(seed).standard_normal(160)
    A = bb.factorize(points, kernel, n_clusters=4, rank=30, rng=seed)
    plain = bb.exact_solve(points, kernel, b, 1e-2, n_jobs=1)
    quick = bb.exact_solve(points, kernel, b, 1e-2, preconditioner=A, n_jobs=1)
    assert quick.iterations <= plain.iterations / 5


def test_a_ready_system_preconditions_too(points, rng):
    kernel, b = bb.Gaussian(0.3), rng.standard_normal(160)
    A = bb.factorize(points, kernel, n_clusters=5, rank=20, rng=0)
    system = bb.RidgeSystem(A, 1e-2)
    first = bb.exact_solve(points, kernel, b, 1e-2, preconditioner=A)
    same = bb.exact_solve(points, kernel, b, 1e-2, preconditioner=system)
    assert (first.x == same.x).all()
    noise = rng.uniform(0.5, 2.0, size=160)
    found = bb.exact_solve(points, kernel, b, noise, preconditioner=system.with_ridge(1.0))
    np.testing.assert_allclose(found.x, np.linalg.solve(kernel(points) + np.diag(noise), b), atol=1e-6)


def test_float32_points_are_solved_for_in_float64(points, rng):
    X, b = points.astype(np.float32), rng.standard_normal(160)
    found = bb.exact_solve(X, bb.Gaussian(0.3), b, 0.1, tol=1e-11, n_jobs=1)
    M = bb.Gaussian(0.3)(X.astype(np.float64)) + 0.1 * np.eye(160)
    assert np.linalg.norm(M @ found.x - b) <= 1.1e-11 * np.linalg.norm(b)


def test_threads_do_not_matter(points, rng):
    b = rng.standard_normal(160)
    one, two = (bb.exact_solve(points, bb.Gaussian(0.3), b, 0.1, n_jobs=jobs) for jobs in (1, 2))
    assert (one.x == two.x).all()


def test_progress_counts_digits(points, rng):
    events = []
    bb.exact_solve(points, bb.Gaussian(0.3), rng.standard_normal(160), 0.1, progress=events.append)
    assert {event.stage for event in events} == {"conjugate gradients"}
    assert [event.done for event in events] == list(range(1, 101))
    assert events[-1].total == 100


def test_a_listener_may_end_the_work(points, rng):
    def stop(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bb.exact_solve(points, bb.Gaussian(0.3), rng.standard_normal(160), 0.1, progress=stop)


def test_exact_non_convergence_names_the_preconditioner(points, rng):
    kernel, b = bb.Gaussian(2.0), rng.standard_normal(160)
    with pytest.warns(ConvergenceWarning, match="limit of 2 iterations.*a factorization as preconditioner") as caught:
        bb.exact_solve(points, kernel, b, 1e-6, max_iterations=2)
    assert caught[0].filename == __file__
    A = bb.factorize(points, kernel, n_clusters=2, rank=2, rng=0)
    with pytest.warns(ConvergenceWarning, match="a preconditioner of smaller tol"):
        bb.exact_solve(points, kernel, b, 1e-6, preconditioner=A, max_iterations=2)


def test_a_kernel_that_is_not_definite(points, rng):
    with pytest.warns(ConvergenceWarning, match="not positive definite"):
        bb.exact_solve(points, lambda X, Y: -X @ Y.T, rng.standard_normal(160), 0.1)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"preconditioner": np.eye(160)}, TypeError, "'preconditioner' parameter of exact_solve"),
        ({"X": np.full((160, 3), np.nan)}, ValueError, "'X' parameter of exact_solve"),
        ({"b": np.ones(159)}, ValueError, "'b' parameter of exact_solve"),
        ({"ridge": np.nan}, ValueError, "'ridge' parameter of exact_solve"),
        ({"tol": 2.0}, ValueError, "'tol' parameter of exact_solve"),
        ({"kernel": "rbf"}, TypeError, "exact_solve"),
        ({"progress": 3}, TypeError, "'progress' parameter of exact_solve"),
        ({"n_jobs": 0}, ValueError, "'n_jobs' parameter of exact_solve"),
        ({"max_iterations": 1.5}, TypeError, "'max_iterations' parameter of exact_solve"),
    ],
)
def test_bad_arguments_of_the_exact_system(points, settings, error, message):
    arguments = {"X": points, "kernel": bb.Gaussian(1.0), "b": np.ones(160), "ridge": 1.0, **settings}
    with pytest.raises(error, match=message):
        bb.exact_solve(**arguments)


def test_a_preconditioner_of_other_points(points, plain):
    with pytest.raises(ValueError, match=r"'preconditioner' parameter of exact_solve must be of shape \(160, 160\)"):
        bb.exact_solve(points, bb.Gaussian(1.0), np.ones(160), 1.0, preconditioner=plain)


# --- right-hand sides of any scale -----------------------------------------------------------------------------------

SCALES = [1e160, 1e300, 1e-170, 1e-300, 5e-324]


def scale_problem():
    X = np.random.default_rng(0).normal(size=(120, 2))
    return X, bb.factorize(X, bb.Gaussian(1.0), n_clusters=3, rank=10, rng=0), np.round(np.sin(3 * X[:, 0]), 1) + 2


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", ["direct", "cg", "minres", "exact"])
def test_a_right_hand_side_of_any_scale_has_its_solution(scale, method):
    X, A, b = scale_problem()

    def solved(b):
        if method == "exact":
            return bb.exact_solve(X, bb.Gaussian(1.0), b, 0.1, preconditioner=A)
        return bb.solve(A, b, 0.1, method=method)

    expected, found = solved(np.ones(120)), solved(np.full(120, scale))
    assert found.converged and found.residual <= 1e-8
    largest = scale * np.abs(expected.x).max()
    np.testing.assert_allclose(found.x, scale * expected.x, rtol=0, atol=max(1e-5 * largest, 5e-324))
    np.testing.assert_allclose(
        solved(np.stack((b, 1e200 * b, 0 * b), axis=1)).x[:, 1], 1e200 * solved(b).x, rtol=1e-5, atol=1e195
    )


def test_a_solution_that_overflows_is_refused():
    _, A, b = scale_problem()
    for method in ("direct", "cg", "minres"):
        with pytest.raises(ValueError, match="'b' parameter of solve must be small enough for a result"):
            bb.solve(A, 1e307 * b * np.sign(np.arange(120) % 2 - 0.5), 1e-6, method=method, tol=1e-3)


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_quadratic_forms_of_any_scale(scale):
    _, A, b = scale_problem()
    system = bb.RidgeSystem(A, 0.1)
    assert system.quadratic(scale * b) == pytest.approx(scale**2 * system.quadratic(b), rel=1e-12)
    with pytest.raises(ValueError, match="'b' parameter of quadratic must be small enough"):
        system.quadratic(1e200 * b)
    assert system.quadratic(1e-200 * b) == 0.0
