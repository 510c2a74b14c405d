from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.kernels import CallableKernel
from tests.repeating import first_of

FAMILIES = [bb.Gaussian, bb.Laplacian, bb.Matern, bb.Cauchy, bb.InverseMultiquadric, bb.RationalQuadratic]


# --- values ----------------------------------------------------------------------------------------------------------


def test_values_are_those_of_the_formula(kind, X, Y):
    np.testing.assert_allclose(kind.kernel(X, Y), kind.values(X, Y), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(kind.kernel(X), kind.matrix(X), rtol=1e-11, atol=1e-14)


def test_coordinates_and_core_are_the_kernel(kind, X, Y):
    kernel = kind.kernel
    values = kernel.core.block(kernel.coordinates(X), kernel.coordinates(Y))
    np.testing.assert_allclose(values, kind.values(X, Y), rtol=1e-11, atol=1e-14)
    assert kernel.core.map is None and kernel.core.noise == 0
    assert kernel.core.core == kernel.core
    assert kernel.coordinates(X).shape[1] <= 3


def test_the_diagonal_is_exact_and_nothing_exceeds_it(kind, X):
    kernel = kind.kernel
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diagonal(K), kernel.at_zero + kernel.noise)
    np.testing.assert_array_equal(kernel.diagonal(X), np.diagonal(K))
    twins = np.concatenate((X, X + 1e-9 * X, X[::-1]))
    for dtype in (np.float64, np.float32):
        values = kernel(twins.astype(dtype), twins.astype(dtype).copy())
        assert values.dtype == dtype
        assert values.max() <= dtype(kernel.at_zero)


@pytest.mark.parametrize("offset", [1e3, -1e5])
def test_points_far_from_the_origin_keep_their_digits(kind, X, Y, offset):
    near, far = X + offset, Y + offset
    np.testing.assert_allclose(kind.kernel(near, far), kind.values(near, far), atol=1e-9)


def test_float32(kind, X, Y):
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    np.testing.assert_allclose(kind.kernel(X, Y), kind.values(X, Y), atol=3e-5)


def test_bounds_hold(kind, X, Y):
    kernel = kind.kernel
    for used, values in (
        ((X, Y), kernel(X, Y)),
        ((kernel.coordinates(X), kernel.coordinates(Y)), kernel(X, Y)),
    ):
        apart = np.linalg.norm(used[0][:, np.newaxis] - used[1], axis=2)
        bound = (kernel if used[0] is X else kernel.core).bound(apart)
        assert (np.abs(values) <= bound * (1 + 1e-12)).all()
    assert float(kernel.core.bound(np.zeros(1))[0]) == pytest.approx(kernel.at_zero)


# --- gradients -------------------------------------------------------------------------------------------------------


def finite_differences(kernel, X, Y, weights):
    slopes = np.empty((*X.shape, weights.shape[1]))
    for j, scale in enumerate(X.std(axis=0)):
        step = np.zeros(X.shape[1])
        step[j] = 1e-5 * scale
        slopes[:, j] = (kernel(X + step, Y) - kernel(X - step, Y)) @ weights / (2 * step[j])
    return slopes


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_gradient_is_that_of_finite_differences(kind, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(700, 3)) * [1, 10, 200], rng.normal(size=(550, 3)) * [1, 10, 200] + 1.0
    weights = rng.normal(size=(550, 2))
    found = kind.kernel.gradient(X, Y, weights)
    expected = finite_differences(kind.kernel, X, Y, weights)
    scale = np.abs(expected).max(axis=(0, 2), keepdims=True)
    assert found.shape == (700, 3, 2)
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-6)
    np.testing.assert_allclose(kind.kernel.gradient(X, Y, weights[:, 0]), found[..., 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("h", [0.3, 2.0])
def test_gradient_of_every_family(radial, h, seed):
    rng = np.random.default_rng(seed)
    X, Y, weights = rng.normal(size=(20, 4)), rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    kernel = radial.make(h)
    expected = finite_differences(kernel, X, Y, weights)
    np.testing.assert_allclose(kernel.gradient(X, Y, weights), expected, atol=1e-7 * np.abs(expected).max())


def test_gradient_of_white_noise_is_zero(X):
    np.testing.assert_array_equal(bb.White(1.0).gradient(X, X, np.ones(60)), 0)


@pytest.mark.parametrize("kernel", [CallableKernel(lambda X, Y: X @ Y.T), bb.Gaussian(1.0) + CallableKernel(np.dot)])
def test_a_function_has_no_gradient(kernel, X):
    with pytest.raises(NotImplementedError, match="has no gradient"):
        kernel.gradient(X, X, np.ones(60))


# --- value objects ---------------------------------------------------------------------------------------------------


def test_kinds_are_hashable_and_equal_to_their_copies(kind):
    kernel = kind.kernel
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert other == kernel and hash(other) == hash(kernel)
    assert kernel != 2.0 * kernel
    assert len(repr(kernel)) < 200


# --- refused ---------------------------------------------------------------------------------------------------------


def test_points_of_other_columns(kind, X):
    kernel = kind.kernel
    for ask in (
        lambda: kernel(X[:, :2]),
        lambda: bb.factorize(X[:, :2], kernel, rank=3),
        lambda: kernel.coordinates(X.T),
    ):
        with pytest.raises(ValueError, match="must have 3 columns"):
            ask()


def test_bad_weights_of_a_gradient(X, Y):
    with pytest.raises(ValueError, match=r"'weights' parameter of Gaussian.gradient must be of shape \(45,\)"):
        bb.Gaussian(1.0).gradient(X, Y, np.ones(7))
