from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from scipy.spatial.distance import cdist

import blockbasis as bb


@pytest.fixture
def A(points):
    return bb.factorize(points, bb.Gaussian(0.3), n_clusters=4, rank=5, rng=0)


@pytest.fixture
def B(points):
    return bb.factorize_cross(points[:70] + 0.1, points, bb.Gaussian(0.3), n_clusters=3, rank=4, rng=0)


# --- relative_error --------------------------------------------------------------------------------------------------


def test_exact_error_is_numpys(A, points, relative):
    error = bb.relative_error(A, points, bb.Gaussian(0.3))
    assert error.exact
    assert error.stderr == 0
    assert error.value == pytest.approx(relative(A, bb.Gaussian(0.3)(points)), rel=1e-10)


def test_exact_error_of_any_operator(points, relative):
    K = bb.Cauchy(0.3)(points)
    wrong = K + 0.01 * np.random.default_rng(0).normal(size=K.shape)  # not symmetric
    expected = relative(wrong, K)
    for operator in (wrong, aslinearoperator(wrong)):
        assert bb.relative_error(operator, points, bb.Cauchy(0.3)).value == pytest.approx(expected, rel=1e-10)
    assert bb.relative_error(K, points, bb.Cauchy(0.3)).value < 1e-14


def test_exact_error_in_bounded_memory(A, points, tiles_of):
    whole = bb.relative_error(A, points, bb.Gaussian(0.3)).value
    tiles_of(160 * 7)
    asked = []

    class Spy:
        shape = A.shape

        def __matmul__(self, V):
            asked.append(V.shape[1])
            return A @ V

    assert bb.relative_error(Spy(), points, bb.Gaussian(0.3)).value == pytest.approx(whole, rel=1e-12)
    assert max(asked) == 7
    assert sum(asked) == 160


def test_exact_error_of_a_cross_matrix(B, points, relative):
    Y = points[:70] + 0.1
    K = bb.Gaussian(0.3)(Y, points)
    for operator in (B, B.todense()):
        error = bb.relative_error(operator, points, bb.Gaussian(0.3), Y=Y)
        assert error.exact
        assert error.value == pytest.approx(relative(B, K), rel=1e-10)


def test_error_against_a_function(A, points):
    def own(X, Y):
        return np.exp(-cdist(X, Y, "sqeuclidean") / 0.09)

    value = bb.relative_error(A, points, bb.Gaussian(0.3)).value
    assert bb.relative_error(A, points, own).value == pytest.approx(value, rel=1e-9)


def test_float32_operator_against_the_double_precision_truth(points):
    A = bb.factorize(points.astype(np.float32), bb.Gaussian(0.3), n_clusters=4, rank=160, rng=0)
    value = bb.relative_error(A, points, bb.Gaussian(0.3)).value
    assert 1e-9 < value < 1e-5


@pytest.mark.parametrize("n_rows", [20, 80])
def test_the_estimate_is_within_its_standard_error(A, points, n_rows):
    exact = bb.relative_error(A, points, bb.Gaussian(0.3)).value
    estimates = [bb.relative_error(A, points, bb.Gaussian(0.3), n_rows=n_rows, rng=seed) for seed in range(100)]
    deviations = np.array([(estimate.value - exact) / estimate.stderr for estimate in estimates])
    assert not any(estimate.exact for estimate in estimates)
    assert (np.abs(deviations) < 4).mean() >= 0.97
    assert (np.abs(deviations) < 2).mean() >= 0.85
    # Neither does it claim less than it knows: the errors are as large as it says.
    spread = np.std([estimate.value for estimate in estimates])
    assert 0.5 < spread / np.mean([estimate.stderr for estimate in estimates]) < 2


def test_the_estimate_of_a_cross_matrix(B, points):
    Y = points[:70] + 0.1
    exact = bb.relative_error(B, points, bb.Gaussian(0.3), Y=Y).value
    estimates = [bb.relative_error(B, points, bb.Gaussian(0.3), Y=Y, n_rows=30, rng=seed) for seed in range(50)]
    inside = [abs(estimate.value - exact) < 4 * estimate.stderr for estimate in estimates]
    assert np.mean(inside) >= 0.95


def test_all_rows_are_exact_however_they_are_asked_for(A, points):
    exact = bb.relative_error(A, points, bb.Gaussian(0.3))
    assert bb.relative_error(A, points, bb.Gaussian(0.3), n_rows=160, rng=0) == exact


def test_more_rows_are_a_better_estimate(A, points):
    def stderr(n_rows):
        found = (bb.relative_error(A, points, bb.Gaussian(0.3), n_rows=n_rows, rng=seed).stderr for seed in range(20))
        return np.mean(list(found))

    # As 1 / sqrt(m), and by the correction for a finite population to nothing as all rows are drawn.
    assert stderr(10) > 1.5 * stderr(40) > 4 * stderr(150) > 0


def test_the_estimate_evaluates_its_rows_only(A, points, counting):
    bb.relative_error(A, points, counting, n_rows=10, rng=0)
    assert counting.seen == 10 * 160


def test_the_seed_decides_the_rows(A, points):
    first, same, other = (
        bb.relative_error(A, points, bb.Gaussian(0.3), n_rows=20, rng=seed).value for seed in (0, 0, 1)
    )
    assert first == same != other


def test_zero_matrices(points):
    def zero(X, Y):
        return np.zeros((len(X), len(Y)))

    nothing = np.zeros((160, 160))
    assert bb.relative_error(nothing, points, zero) == bb.ErrorEstimate(0.0, 0.0, True)
    assert bb.relative_error(np.eye(160), points, zero).value == np.inf
    assert bb.relative_error(nothing, points, zero, n_rows=9, rng=0) == bb.ErrorEstimate(0.0, 0.0, False)
    assert bb.relative_error(nothing, points, bb.Gaussian(0.3)).value == pytest.approx(1.0)
    A = bb.factorize(points, zero, n_clusters=3, rank=4, rng=0)
    assert bb.relative_error(A, points, zero).value == 0


def test_a_perfect_estimate_has_no_standard_error(points):
    class Same:
        shape = (160, 160)

        def __matmul__(self, V):
            return bb.Gaussian(0.3)(points) @ V

    error = bb.relative_error(Same(), points, bb.Gaussian(0.3), n_rows=10, rng=0)
    assert error.value < 1e-14
    assert error.stderr < 1e-14


@pytest.mark.parametrize(
    ("settings", "error", "parts"),
    [
        ({"n_rows": 1}, ValueError, ["'n_rows'", "at least 2 and at most 160", "Got 1"]),
        ({"n_rows": 0}, ValueError, ["'n_rows'", "at least 2", "Got 0"]),
        ({"n_rows": 161}, ValueError, ["'n_rows'", "at most 160", "Got 161"]),
        ({"n_rows": 2.5}, TypeError, ["'n_rows'", "integer", "Got 2.5"]),
        ({"n_rows": True}, TypeError, ["'n_rows'", "integer", "Got True"]),
        ({"n_rows": 5, "rng": "a"}, TypeError, ["'rng'", "Got 'a'"]),
        ({"X": np.zeros((159, 3))}, ValueError, ["'A'", "shape (159, 159)", "(160, 160)"]),
        ({"X": np.full((160, 3), np.nan)}, ValueError, ["'X'", "free of NaN"]),
        ({"Y": np.zeros((5, 3))}, ValueError, ["'A'", "shape (5, 160)", "(160, 160)"]),
        ({"Y": np.zeros((5, 2))}, ValueError, ["'Y'", "of 3 columns", "(5, 2)"]),
        ({"kernel": "rbf"}, TypeError, ["'kernel'", "'rbf'"]),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, dict) else "",
)
def test_bad_arguments(A, points, settings, error, parts):
    with pytest.raises(error) as caught:
        bb.relative_error(**{"A": A, "X": points, "kernel": bb.Gaussian(0.3), **settings})
    for part in ["parameter of relative_error must be", *parts]:
        assert part in str(caught.value)


def test_error_estimates_are_printed_with_what_is_known():
    assert f"{bb.ErrorEstimate(0.01234, 0.0, True)}" == "0.0123"
    assert f"{bb.ErrorEstimate(0.01234, 0.00056, False)}" == "0.0123 ± 0.0006"
    assert f"{bb.ErrorEstimate(0.01234, 0.0, True):.1%}" == "1.2%"
