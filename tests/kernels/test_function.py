from __future__ import annotations

import numpy as np
import pytest

from blockbasis.kernels import CallableKernel


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(30, 3))


def test_callable_is_evaluated_as_it_is(X, Y):
    values = CallableKernel(lambda A, B: (A @ B.T).astype(np.float32))(X, Y)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, X @ Y.T, rtol=1e-5, atol=1e-5)


def test_callable_with_itself_keeps_its_own_diagonal(X):
    K = CallableKernel(lambda A, B: A @ B.T)(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, X @ X.T, rtol=1e-12, atol=1e-12)


def test_callable_of_integers_and_lists(X, Y):
    values = CallableKernel(lambda A, B: [[1] * len(B)] * len(A))(X, Y)
    np.testing.assert_array_equal(values, np.ones((40, 30)))


def test_a_cached_answer_is_not_written_to(X):
    cached = np.full((40, 40), 0.5)
    block = CallableKernel(lambda A, B: cached).block(X, X)
    block[:] = 7
    np.testing.assert_array_equal(cached, 0.5)


@pytest.mark.parametrize(
    ("function", "error", "parts"),
    [
        (lambda A, B: np.ones((len(B), len(A))), ValueError, ["shape (40, 30)", "shape (30, 40)"]),
        (lambda A, B: np.ones(len(A)), ValueError, ["shape (40, 30)", "shape (40,)"]),
        (lambda A, B: 1.0, ValueError, ["shape (40, 30)", "shape ()"]),
        (lambda A, B: np.full((len(A), len(B)), np.nan), ValueError, ["finite values", "NaN or infinity"]),
        (lambda A, B: np.full((len(A), len(B)), np.inf), ValueError, ["finite values", "NaN or infinity"]),
        (lambda A, B: np.ones((len(A), len(B)), dtype=complex), TypeError, ["real numbers", "dtype complex128"]),
        (lambda A, B: np.full((len(A), len(B)), "x"), TypeError, ["real numbers", "dtype <U1"]),
        (lambda A, B: np.full((len(A), len(B)), None), TypeError, ["real numbers", "dtype object"]),
    ],
    ids=["transposed", "one-dimensional", "scalar", "nan", "inf", "complex", "text", "object"],
)
def test_bad_callable(X, Y, function, error, parts):
    with pytest.raises(error) as caught:
        CallableKernel(function).block(X, Y)
    for part in ["The kernel callable must return", *parts]:
        assert part in str(caught.value)


def test_asymmetric_callable_is_found_with_its_values(X):
    with pytest.raises(ValueError) as caught:
        CallableKernel.check_symmetric(X[:, :1] - X[:, 0])
    assert "must be symmetric, k(x, y) = k(y, x)" in str(caught.value)
    assert "factorize_cross" in str(caught.value)
    worst = np.ptp(X[:, 0])  # of the pair at the two ends
    assert f"{worst:.10f}"[:-2] in str(caught.value)


def test_rounding_is_not_asymmetry(X):
    noise = np.random.default_rng(0)
    CallableKernel.check_symmetric(X @ X.T + 1e-12 * noise.random((len(X), len(X))))
    with pytest.raises(ValueError, match="must be symmetric"):
        CallableKernel.check_symmetric(X @ X.T + 1e-3 * noise.random((len(X), len(X))))
