from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import rbf_kernel

import blockbasis as bb
from blockbasis.kernels import RADIAL_KERNELS, RadialKernel, kernel_parameters, squared_distances

CLASSES = [bb.Gaussian, bb.Laplacian, bb.Matern, bb.Cauchy, bb.InverseMultiquadric, bb.RationalQuadratic]


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(30, 3))


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.05, 0.7, 30.0])
def test_equals_its_formula(radial, X, Y, h):
    np.testing.assert_allclose(radial.make(h)(X, Y), radial.matrix(X, Y, h), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("h", [0.05, 0.7, 30.0])
def test_matrix_with_itself_is_symmetric_with_unit_diagonal(radial, X, h):
    K = radial.make(h)(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diagonal(K), 1)
    np.testing.assert_allclose(K, radial.matrix(X, X, h), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("offset", [1e3, -1e5])
def test_points_far_from_the_origin_keep_their_digits(radial, X, Y, offset):
    near, far = X + offset, Y + offset
    np.testing.assert_allclose(radial.make(1.0)(near, far), radial.matrix(near, far, 1.0), atol=1e-12)


def test_values_never_exceed_one(radial):
    rng = np.random.default_rng(2)
    base = rng.normal(size=(60, 5)) + 1e3
    near = np.concatenate((base, base + 1e-9 * rng.normal(size=base.shape), base[::-1]))
    K = radial.make(0.3)(near, near.copy())
    assert K.max() <= 1
    assert K.min() >= 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_profile_falls_from_one(radial, dtype):
    """Also where rounding could lift it above: (1 + s) exp(-s) for tiny s."""
    squared = np.concatenate(([0.0], np.logspace(-37, 6, 5000))).astype(dtype)
    values = radial.make(0.3).profile(squared.copy())
    assert values.dtype == dtype
    assert values[0] == values.max() == 1
    assert values.min() >= 0
    assert np.diff(values).max() <= 4 * np.finfo(dtype).eps
    exact = radial.formula(np.sqrt(squared.astype(np.float64)), 0.3)
    np.testing.assert_allclose(values, exact, atol=1e-14 if dtype is np.float64 else 1e-6)


def test_float32_in_float32_out(radial, X, Y):
    K = radial.make(0.7)(X.astype(np.float32), Y.astype(np.float32))
    assert K.dtype == np.float32
    assert K.max() <= 1
    np.testing.assert_allclose(K, radial.matrix(X.astype(np.float32), Y.astype(np.float32), 0.7), atol=2e-5)
    np.testing.assert_array_equal(np.diagonal(radial.make(0.7)(X.astype(np.float32))), 1)


@pytest.mark.parametrize("d", [1, 5, 50])
def test_float32_is_for_tolerances_of_1e_5(radial, d):
    """Near points in a cluster some bandwidths wide, where a root of a squared distance magnifies rounding."""
    X = (np.random.default_rng(0).uniform(-5, 5, size=(600, d)) / d**0.5).astype(np.float32)
    exact = radial.matrix(X.astype(np.float64), X.astype(np.float64), 1.0)
    assert np.linalg.norm(radial.make(1.0)(X) - exact) < 1e-5 * np.linalg.norm(exact)


@pytest.mark.parametrize(("d", "h"), [(2, 1e-3), (50, 1e-2), (2, 0.1)])
def test_float32_tells_near_points_apart_among_far_ones(radial, d, h):
    """In float32 the squared distances of a cluster 10,000 bandwidths wide round to ten squared bandwidths and more."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(100, d))
    X = np.concatenate((base, base, base + h * rng.normal(size=base.shape) / d**0.5)).astype(np.float32)
    K = radial.make(h)(X[50:], X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, radial.matrix(X[50:], X, h), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 20, 1000])
@pytest.mark.parametrize("make", [bb.Laplacian, lambda h: bb.Matern(h, 0.5)], ids=["laplacian", "matern-0.5"])
def test_duplicates_are_at_distance_zero(make, d, dtype):
    """The square root would turn rounding of 1e-16 in a squared distance into 1e-8 of the kernel."""
    rng = np.random.default_rng(d)
    for offset in (0.0, 1e3):
        base = (rng.normal(size=(200, d)) + offset).astype(dtype)
        values = make(1.0)(base, base[::-1])
        np.testing.assert_array_equal(values[np.arange(200), np.arange(200)[::-1]], 1)


@pytest.mark.parametrize(("make", "outlier", "lost"), [(bb.Gaussian, 1e6, 1e-6), (bb.Laplacian, 1e7, 0.05)])
def test_one_outlier_does_not_spoil_the_others(make, outlier, lost, X):
    """Digits cancel when one far point moves the mean; but what is not zero must not be taken for zero."""
    with_outlier = np.concatenate((X, np.full((1, 3), outlier)))
    np.testing.assert_allclose(make(1.0)(with_outlier)[:40, :40], make(1.0)(X), atol=lost)


@pytest.mark.parametrize("h", [1e-200, 1e200])
def test_extreme_bandwidths_give_the_limits(radial, X, h):
    """A bandwidth that the constructor takes must be one that the kernel can be evaluated with."""
    K = radial.make(h)(X)
    np.testing.assert_allclose(K, np.eye(40) if h < 1 else np.ones((40, 40)), atol=1e-15)


def test_extreme_bandwidths_give_the_limits_in_float32(radial, X):
    np.testing.assert_allclose(radial.make(1e-25)(X.astype(np.float32)), np.eye(40), atol=1e-15)
    np.testing.assert_array_equal(radial.make(5e167)(X.astype(np.float32)), np.ones((40, 40)))


@given(arrays(np.float64, (8, 2), elements=st.floats(-10, 10, width=32)), st.floats(-1e4, 1e4))
def test_squared_distances_are_those_of_cdist(X, offset):
    X = X + offset
    expected = cdist(X, X, "sqeuclidean")
    for error in (0.0, 1e-6):
        squared = squared_distances(X, X[::-1], X.mean(axis=0), error=error)[:, ::-1]
        assert squared.min() >= 0
        np.testing.assert_allclose(squared, expected, atol=1e-12)


# --- scikit-learn's names --------------------------------------------------------------------------------------------


def test_gaussian_is_scikit_learns_rbf(X, Y):
    for gamma in (0.03, 1.0, 7.0):
        kernel = bb.Gaussian.from_gamma(gamma)
        np.testing.assert_allclose(kernel(X, Y), rbf_kernel(X, Y, gamma=gamma), rtol=1e-11)
        assert kernel.gamma == pytest.approx(gamma, rel=1e-14)
    for length in (0.3, 2.0):
        kernel = bb.Gaussian.from_length_scale(length)
        np.testing.assert_allclose(kernel(X, Y), gp.RBF(length)(X, Y), rtol=1e-11)
        assert kernel.length_scale == pytest.approx(length, rel=1e-14)


def test_laplacian_is_scikit_learns_matern_of_one_half(X, Y):
    kernel = bb.Laplacian.from_length_scale(0.8)
    np.testing.assert_allclose(kernel(X, Y), gp.Matern(0.8, nu=0.5)(X, Y), rtol=1e-12)
    assert kernel.length_scale == 0.8


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_scikit_learns(X, Y, nu):
    kernel = bb.Matern.from_length_scale(0.8, nu)
    np.testing.assert_allclose(kernel(X, Y), gp.Matern(0.8, nu=nu)(X, Y), rtol=1e-11)
    assert kernel.length_scale == 0.8
    assert kernel.nu == nu


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
def test_rational_quadratic_is_scikit_learns(X, Y, alpha):
    kernel = bb.RationalQuadratic.from_length_scale(0.8, alpha)
    expected = gp.RationalQuadratic(length_scale=0.8, alpha=alpha)(X, Y)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-11)
    assert kernel.length_scale == pytest.approx(0.8, rel=1e-14)


def test_rational_quadratic_tends_to_the_gaussian(X, Y):
    """(1 + s / alpha)^-alpha is above exp(-s), by at most 2 / (e^2 alpha)."""
    for alpha in (1e2, 1e4):
        above = bb.RationalQuadratic(1.3, alpha)(X, Y) - bb.Gaussian(1.3)(X, Y)
        assert above.min() >= -1e-12
        assert above.max() <= 0.3 / alpha


# --- value objects ---------------------------------------------------------------------------------------------------


def test_kernels_are_frozen_values():
    assert bb.Gaussian(2.0) == bb.Gaussian(2.0)
    assert bb.Gaussian(2.0) != bb.Gaussian(3.0)
    assert bb.Gaussian(2.0) != bb.Cauchy(2.0)
    assert len({bb.Matern(1.0, 1.5), bb.Matern(1.0, 1.5), bb.Matern(1.0, 2.5)}) == 2
    assert repr(bb.Matern(1.0, 2.5)) == "Matern(bandwidth=1.0, nu=2.5)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        bb.Gaussian(2.0).bandwidth = 3.0


def test_parameters_make_the_kernel_again(radial):
    kernel = radial.make(0.37)
    assert RADIAL_KERNELS[type(kernel).__name__](**kernel_parameters(kernel)) == kernel


def test_a_users_own_profile_is_a_kernel(X):
    class Wendland(RadialKernel):
        def profile(self, squared):
            t = np.sqrt(squared) / self.bandwidth
            return np.maximum(1 - t, 0) ** 4 * (4 * t + 1)

    t = cdist(X, X) / 3
    np.testing.assert_allclose(Wendland(3.0)(X), np.maximum(1 - t, 0) ** 4 * (4 * t + 1), atol=1e-12)


def test_every_kind_of_number_is_a_bandwidth(radial, X):
    for bandwidth in (2, np.float32(2), np.int64(2), Fraction(2)):
        np.testing.assert_array_equal(radial.make(bandwidth)(X), radial.make(2.0)(X))


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 0.0, -1.0, np.nan, np.inf, -np.inf, "1.0", True, None, 1j])
def test_bad_bandwidth(bad):
    for cls in CLASSES:
        with pytest.raises((TypeError, ValueError)) as caught:
            cls(bad)
        message = str(caught.value)
        assert f"'bandwidth' parameter of {cls.__name__} must be a positive" in message
        assert f"Got {bad!r} instead" in message


@pytest.mark.parametrize("bad", [0, -0.5, 1, 2, 3.5, np.nan, np.inf, "1.5", None, True])
def test_bad_nu(bad):
    with pytest.raises(ValueError) as caught:
        bb.Matern(1.0, bad)
    assert str(caught.value) == f"The 'nu' parameter of Matern must be one of 0.5, 1.5, 2.5. Got {bad!r} instead."


@pytest.mark.parametrize("bad", [0, -0.5, np.nan, np.inf, "1.5", None, True])
def test_bad_alpha(bad):
    with pytest.raises((TypeError, ValueError)) as caught:
        bb.RationalQuadratic(1.0, bad)
    assert "'alpha' parameter of RationalQuadratic must be a positive" in str(caught.value)
    assert repr(bad) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (bb.Gaussian.from_gamma, "'gamma' parameter of Gaussian.from_gamma"),
        (bb.Gaussian.from_length_scale, "'length_scale' parameter of Gaussian.from_length_scale"),
        (bb.Laplacian.from_length_scale, "'length_scale' parameter of Laplacian.from_length_scale"),
        (bb.Matern.from_length_scale, "'length_scale' parameter of Matern.from_length_scale"),
        (bb.RationalQuadratic.from_length_scale, "'length_scale' parameter of RationalQuadratic.from_length_scale"),
    ],
)
def test_bad_conversion(make, name):
    for bad in (0, -2.0, np.nan, "a"):
        with pytest.raises((TypeError, ValueError), match=name):
            make(bad)


def test_points_of_another_dimension(X):
    with pytest.raises(ValueError, match=r"'Y' parameter of Gaussian must be of 3 columns.*\(5, 2\)"):
        bb.Gaussian(1.0)(X, np.zeros((5, 2)))


@pytest.mark.parametrize("alpha", [1e3, 1e8, 1e16])
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_rational_quadratic_of_a_large_alpha(alpha, dtype, accuracy):
    distances = np.linspace(0, 5, 40)
    values = bb.RationalQuadratic(1.0, alpha)(np.zeros((1, 1), dtype=dtype), distances[:, np.newaxis].astype(dtype))
    np.testing.assert_allclose(values[0], np.exp(-alpha * np.log1p(distances**2 / alpha)), atol=accuracy)
