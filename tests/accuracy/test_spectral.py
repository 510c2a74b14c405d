from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from scipy.sparse.linalg import aslinearoperator

import blockbasis as bb
from blockbasis.accuracy import spectral
from tests.repeating import first_of

SETTINGS = {
    "default": {},
    "paper": {"algorithm": "paper"},
    "no D": {"diagonal": False},
    "float32": {"dtype": np.float32},
}


@pytest.fixture(scope="module", params=SETTINGS)
def approximation(request, many_points):
    """(A, kernel) of each form."""
    kernel = bb.Gaussian(0.5)
    return bb.factorize(many_points, kernel, n_clusters=5, rank=12, rng=0, **SETTINGS[request.param]), kernel


@pytest.fixture(scope="module")
def A(many_points):
    return bb.factorize(many_points, bb.Gaussian(0.5), n_clusters=5, rank=12, rng=0)


@pytest.fixture
def no_dense(monkeypatch):
    """Small problems by the way of large ones."""
    monkeypatch.setattr(spectral, "DENSE_POINTS", 0)


def pencil_ends(A, K, ridge):
    """-Delta_1 and Delta_2, from dense matrices by a way of its own: the eigenvalues of L^-1 (A - K) L^-T."""
    L = np.linalg.cholesky(K + ridge * np.eye(len(K)))
    half = linalg.solve_triangular(L, A - K, lower=True)
    whole = linalg.solve_triangular(L, half.T, lower=True)
    return np.linalg.eigvalsh((whole + whole.T) / 2)[[0, -1]]


# --- spectral_error --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_spectral_error_is_numpys(approximation, many_points, seed):
    A, kernel = approximation
    K = kernel(many_points)
    exact = np.linalg.norm(K - A.todense(), 2) / np.linalg.norm(K, 2)
    error = bb.spectral_error(A, many_points, kernel, rng=seed)
    assert error.converged
    assert error.value == pytest.approx(exact, rel=1e-3)
    assert abs(error.value - exact) <= error.bound


def test_spectral_error_across_kernels(radial, points):
    A = bb.factorize(points, radial.make(0.5), n_clusters=4, rank=6, rng=0)
    K = radial.matrix(points, points, 0.5)
    exact = np.linalg.norm(K - A.todense(), 2) / np.linalg.norm(K, 2)
    for tol in (1e-3, 1e-6):
        assert bb.spectral_error(A, points, radial.make(0.5), tol=tol, rng=0).value == pytest.approx(exact, rel=tol)


def test_spectral_error_of_any_operator(A, many_points):
    expected = bb.spectral_error(A, many_points, bb.Gaussian(0.5), tol=1e-6, rng=0).value
    for operator in (A.todense(), aslinearoperator(A.todense())):
        found = bb.spectral_error(operator, many_points, bb.Gaussian(0.5), tol=1e-6, rng=0)
        assert found.value == pytest.approx(expected, rel=1e-9)


def test_spectral_error_of_the_truth_is_rounding(many_points):
    K = bb.Gaussian(0.5)(many_points)
    error = bb.spectral_error(K, many_points, bb.Gaussian(0.5), rng=0)
    assert error.converged
    assert error.value < 1e-14
    single = bb.spectral_error(
        bb.ExactKernel(many_points, bb.Gaussian(0.5), dtype=np.float32), many_points, bb.Gaussian(0.5), rng=0
    )
    assert single.converged
    assert single.value < 1e-5


def test_spectral_error_of_nothing(points):
    def zero(X, Y):
        return np.zeros((len(X), len(Y)))

    nothing = np.zeros((160, 160))
    assert bb.spectral_error(nothing, points, bb.Gaussian(0.5), rng=0).value == pytest.approx(1.0)
    assert bb.spectral_error(nothing, points, zero, rng=0).value == 0
    assert bb.spectral_error(np.eye(160), points, zero, rng=0).value == np.inf


def test_spectral_error_is_at_most_the_frobenius_error_of_the_same_scale(A, many_points):
    frobenius = bb.relative_error(A, many_points, bb.Gaussian(0.5)).value
    stable = bb.stable_rank(bb.ExactKernel(many_points, bb.Gaussian(0.5)), rng=0).value
    assert bb.spectral_error(A, many_points, bb.Gaussian(0.5), rng=0).value <= frobenius * stable**0.5


def test_a_spectral_error_that_has_not_converged_says_so(A, many_points):
    error = bb.spectral_error(A, many_points, bb.Gaussian(0.5), tol=1e-9, max_iter=2, rng=0)
    assert not error.converged
    assert error.iterations == 4


def test_products_are_narrow_and_entries_come_in_tiles(A, many_points):
    widths, blocks = [], []

    class Spy:
        shape = A.shape

        def __matmul__(self, V):
            widths.append(1 if V.ndim == 1 else V.shape[1])
            return A @ V

    def own(X, Y):
        blocks.append(len(X) * len(Y))
        return bb.Gaussian(0.5).block(X, Y)

    bb.spectral_error(Spy(), many_points, own, rng=0)
    assert max(widths) <= 8
    assert max(blocks) <= 512**2 < 600**2


def test_the_seed_decides(A, many_points, no_dense):
    for measure in (
        lambda seed: bb.spectral_error(A, many_points, bb.Gaussian(0.5), tol=0.1, rng=seed),
        lambda seed: bb.spectral_approximation(A, many_points, bb.Gaussian(0.5), 1.0, tol=0.1, rng=seed),
    ):
        assert measure(0) == measure(0) != measure(1)


# --- spectral_approximation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1e-2, 1.0, 100.0])
def test_the_deltas_hold_and_are_the_smallest(approximation, many_points, ridge):
    A, kernel = approximation
    found = bb.spectral_approximation(A, many_points, kernel, ridge)
    assert found.exact
    assert found.converged
    assert found.bounds == (0.0, 0.0)
    truth = kernel(many_points) + ridge * np.eye(600)
    dense = A.todense().astype(np.float64)
    approximate = (dense + dense.T) / 2 + ridge * np.eye(600)

    def smallest(lower, upper):
        below = np.linalg.eigvalsh(approximate - (1 - lower) * truth)[0]
        above = np.linalg.eigvalsh((1 + upper) * truth - approximate)[0]
        return np.array([below, above])

    rounding = 1e-11 * np.linalg.norm(truth, 2)
    assert (smallest(found.lower, found.upper) >= -rounding).all()
    assert (smallest(0.99 * found.lower, 0.99 * found.upper) < -rounding).all()


@pytest.mark.parametrize(("ridge", "seed"), [(0.3, 0), (3.0, 1), (30.0, 2), (3.0, 3)])
def test_the_way_of_large_problems_finds_the_same(approximation, many_points, ridge, seed, no_dense):
    A, kernel = approximation
    low, high = pencil_ends(A.todense(), kernel(many_points), ridge)
    found = bb.spectral_approximation(A, many_points, kernel, ridge, rng=seed)
    assert found.converged
    assert not found.exact
    assert found.lower == pytest.approx(-low, rel=1e-2)
    assert found.upper == pytest.approx(high, rel=1e-2)
    rounding = 1e-5 if A.dtype == np.float32 else 1e-10
    assert found.lower <= -low * (1 + rounding)
    assert found.upper <= high * (1 + rounding)


@pytest.mark.parametrize("seed", range(3))
def test_stopped_early_it_stays_below_and_says_so(A, many_points, seed, no_dense):
    low, high = pencil_ends(A.todense(), bb.Gaussian(0.5)(many_points), 1e-3)
    found = bb.spectral_approximation(A, many_points, bb.Gaussian(0.5), 1e-3, max_iter=3, rng=seed)
    assert not found.converged
    assert found.iterations == 3
    assert 0 <= found.lower <= -low * (1 + 1e-9)
    assert 0 <= found.upper <= high * (1 + 1e-9)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_an_indefinite_approximation_has_a_delta_of_one_or_more(many_points, limit, monkeypatch):
    monkeypatch.setattr(spectral, "DENSE_POINTS", limit)
    K = bb.Gaussian(0.5)(many_points)
    indefinite = K - 0.5 * np.linalg.norm(K, 2) * np.eye(600)
    low, high = pencil_ends(indefinite, K, 5.0)
    found = bb.spectral_approximation(indefinite, many_points, bb.Gaussian(0.5), 5.0, rng=0)
    assert found.lower > 1
    assert found.lower == pytest.approx(-low, rel=1e-2)
    assert found.upper == max(0.0, found.upper)
    assert found.upper <= max(0.0, high) + 1e-2


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("limit", [0, 10**6])
def test_an_approximation_from_below_has_no_upper_delta(many_points, limit, seed, monkeypatch):
    """Nyström's approximations are of this kind."""
    monkeypatch.setattr(spectral, "DENSE_POINTS", limit)
    K = bb.Gaussian(0.5)(many_points)
    columns = K[:, ::20]
    below = columns @ linalg.pinvh(K[::20, ::20], rtol=1e-10) @ columns.T
    found = bb.spectral_approximation(below, many_points, bb.Gaussian(0.5), 0.5, rng=seed)
    assert found.converged
    assert found.iterations < 30
    assert found.upper < 1e-9
    assert found.lower == pytest.approx(-pencil_ends(below, K, 0.5)[0], rel=1e-2)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_the_truth_approximates_itself(many_points, limit, monkeypatch):
    monkeypatch.setattr(spectral, "DENSE_POINTS", limit)
    K = bb.Gaussian(0.5)(many_points)
    found = bb.spectral_approximation(K, many_points, bb.Gaussian(0.5), 1e-2, rng=0)
    assert found.converged
    assert max(found.lower, found.upper) < 1e-9


def test_a_larger_ridge_forgives_more(A, many_points):
    found = [bb.spectral_approximation(A, many_points, bb.Gaussian(0.5), ridge) for ridge in (1e-3, 1e-1, 1e1, 1e3)]
    assert (np.diff([each.lower for each in found]) < 0).all()
    assert (np.diff([each.upper for each in found]) < 0).all()


def test_a_kernel_that_is_not_definite_is_refused(points, monkeypatch):
    def indefinite(X, Y):
        return -X @ Y.T

    for limit in (0, 10**6):
        monkeypatch.setattr(spectral, "DENSE_POINTS", limit)
        with pytest.raises(ValueError, match="'ridge' parameter of spectral_approximation must be large enough"):
            bb.spectral_approximation(np.eye(160), points, indefinite, 1e-3, rng=0)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spectral_error", "spectral_approximation"])
@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"tol": 0.0}, ValueError, ["'tol'", "between 0 and 1", "Got 0.0"]),
        ({"tol": None}, TypeError, ["'tol'", "Got None"]),
        ({"max_iter": 0}, ValueError, ["'max_iter'", "at least 1", "Got 0"]),
        ({"rng": -1}, ValueError, ["'rng'", "Got -1"]),
        ({"n_jobs": 0}, ValueError, ["'n_jobs'", "Got 0"]),
        ({"kernel": "rbf"}, TypeError, ["'kernel'", "'rbf'"]),
        ({"X": np.full((160, 3), np.nan)}, ValueError, ["'X'", "free of NaN"]),
        ({"A": np.eye(159)}, ValueError, ["'A'", "shape (160, 160)", "(159, 159)"]),
        ({"A": "matrix"}, ValueError, ["'A'", "shape (160, 160)", "str"]),
        ({"A": np.triu(np.ones((160, 160)))}, ValueError, ["'A'", "symmetric"]),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, dict) else "",
)
def test_bad_arguments(points, name, settings, error, parts):
    ridge = {"ridge": 1.0} if name == "spectral_approximation" else {}
    with pytest.raises(error) as caught:
        getattr(bb, name)(**{"A": np.eye(160), "X": points, "kernel": bb.Gaussian(0.3), **ridge, **settings})
    for part in [f"parameter of {name} must be", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize("ridge", [0.0, -1.0, np.nan, "1", None, True])
def test_bad_ridges(points, ridge):
    with pytest.raises((TypeError, ValueError), match="'ridge' parameter of spectral_approximation must be a positive"):
        bb.spectral_approximation(np.eye(160), points, bb.Gaussian(0.3), ridge)
