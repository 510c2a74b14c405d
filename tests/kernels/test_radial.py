from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.kernels import RadialKernel

FAMILIES = [bb.Gaussian, bb.Laplacian, bb.Matern, bb.Cauchy, bb.InverseMultiquadric, bb.RationalQuadratic]


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_lengths_are_one_bandwidth(family, X, Y):
    one, many = family(30.0), family([30.0] * 3)
    np.testing.assert_allclose(many(X, Y), one(X, Y), atol=1e-12)
    assert many.map is None and many.core == one


def test_extreme_lengths(X):
    np.testing.assert_allclose(bb.Gaussian([1e-200] * 3)(X), np.eye(60), atol=1e-15)
    np.testing.assert_allclose(bb.Gaussian([1e200, 1.0, 1e200])(X), bb.Gaussian(1.0)(X[:, 1:2]), atol=1e-12)


def test_coincident_points_add_nothing(radial, X):
    """Where a kernel has a kink, by convention; elsewhere because the slope is zero."""
    kernel, weights = radial.make(40.0), np.arange(1.0, 61.0)
    with_own = kernel.gradient(X, X, weights)
    for i in range(0, 60, 7):
        others = np.arange(60) != i
        alone = kernel.gradient(X[i : i + 1], X[others], weights[others])
        np.testing.assert_allclose(with_own[i], alone[0], rtol=1e-8, atol=1e-11)
    np.testing.assert_array_equal(kernel.gradient(X[:1], X[:1], [2.0]), 0)


def test_a_users_own_profile_takes_lengths_and_a_derivative(X, Y):
    class Wave(RadialKernel):
        def profile(self, squared):
            return np.exp(-squared / self.bandwidth**2)

        def derivative(self, squared):
            return -np.exp(-squared / self.bandwidth**2) / self.bandwidth**2

    lengths = [1.0, 20.0, 300.0]
    np.testing.assert_allclose(Wave(lengths)(X, Y), bb.Gaussian(lengths)(X, Y), atol=1e-14)
    weights = np.ones(45)
    np.testing.assert_allclose(
        Wave(lengths).gradient(X, Y, weights), bb.Gaussian(lengths).gradient(X, Y, weights), atol=1e-12
    )


def test_lengths_are_a_value():
    first, second = bb.Gaussian(np.array([1.0, 2.0, 5.0])), bb.Gaussian([1, 2, 5])
    assert first == second and hash(first) == hash(second)
    assert first != bb.Gaussian([1.0, 2.0, 6.0])
    assert first.bandwidth == (1.0, 2.0, 5.0)
    assert repr(first) == "Gaussian(bandwidth=(1.0, 2.0, 5.0))"
    assert type(bb.Gaussian(np.array(2.0)).bandwidth) is float


def test_lengths_do_not_follow_the_array_they_came_from():
    lengths = np.array([1.0, 2.0])
    kernel = bb.Gaussian(lengths)
    lengths[:] = 7
    assert kernel.bandwidth == (1.0, 2.0)


def test_many_lengths_are_shown_in_short():
    shown = repr(bb.Matern(np.arange(1.0, 101.0), nu=2.5))
    assert shown == "Matern(bandwidth=(1, 2, 3, ..., 100: 100 lengths), nu=2.5)"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("bad", "got"),
    [
        ([1.0, 0.0], "0.0 for column 1"),
        (np.array([1.0, -2.0, 3.0]), "-2.0 for column 1"),
        ((np.nan, 1.0), "nan for column 0"),
        ([np.inf], "inf for column 0"),
        ([], "shape (0,)"),
        ([[1.0, 2.0]], "shape (1, 2)"),
        (["a", "b"], "dtype"),
        ([True, True], "dtype bool"),
    ],
)
def test_bad_lengths(family, bad, got):
    with pytest.raises((TypeError, ValueError)) as caught:
        family(bad)
    message = str(caught.value)
    assert f"The 'bandwidth' parameter of {family.__name__} must be" in message
    assert got in message and message.endswith("instead.")


def users_kernel(function, bandwidth=2.0):
    """A kernel of a user's class whose profile is a function of |x - y| / h."""

    class Users(RadialKernel):
        def profile(self, squared):
            return function(np.sqrt(squared) / self.bandwidth)

    return Users(bandwidth)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda r: 3 * np.exp(-r),
            "'profile' method of Users must be 1 at distance 0; .* 2.0 \\* kernel. Got 3 instead",
        ),
        (lambda r: 1 + r**2, "must decrease with the distance. Got .* at distance .* and 101 at distance .* instead"),
        (lambda r: np.where(r > 1, np.nan, 1.0), "return a finite value for each squared distance"),
        (lambda r: 1.0, "return a finite value for each squared distance"),
    ],
)
def test_profiles_that_are_none(function, message, X):
    for kernel in (users_kernel(function), 2.0 * users_kernel(function, [1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match=message):
            bb.factorize(X, kernel, n_clusters=2, rank=5)
    with pytest.raises(ValueError, match=message):
        bb.KernelRidgeCV(kernel=users_kernel(function)).fit(X, X[:, 0])


def test_a_users_kernel_must_be_semidefinite(X):
    with pytest.raises(ValueError, match="must be positive semi-definite"):
        bb.factorize(X / 9, users_kernel(lambda r: (r < 1).astype(float)), n_clusters=2, rank=5, rng=0)


def test_a_users_kernel_must_depend_on_the_distance_in_bandwidths(X):
    class Users(RadialKernel):
        def profile(self, squared):
            return np.exp(-squared)

    with pytest.raises(ValueError, match="must depend on the distance divided by the bandwidth. Got .* instead"):
        bb.factorize(X, Users(1.0), n_clusters=2, rank=5)


def test_entries_of_a_users_kernel_that_are_not_finite(X):
    kernel = users_kernel(lambda r: np.where(r > 12, np.nan, np.exp(-r)))
    with pytest.raises(ValueError, match="The 'profile' method of Users must return finite values"):
        bb.ExactKernel(np.concatenate([X, X[:1] + 100]), kernel).todense()


@pytest.mark.parametrize("h", [1e-170, 1e160])
def test_a_users_kernel_of_extreme_bandwidth(X, h):
    kernel = users_kernel(lambda r: (1 - np.minimum(r, 1)) ** 4 * (4 * np.minimum(r, 1) + 1), h)
    assert np.isfinite(bb.factorize(X, kernel, n_clusters=2, rank=5, rng=0).todense()).all()


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-10), (np.float32, 1e-5)])
@pytest.mark.parametrize("scale", [0.5, 30.0])
def test_a_users_kernel_with_a_kink_at_zero(dtype, error, scale):
    """Rounding of products would be amplified between equal points."""
    for seed in range(3):
        X = np.repeat(scale * np.random.default_rng(seed).normal(size=(100, 3)), 2, axis=0).astype(dtype)
        exact = bb.Laplacian(2.0)(X.astype(np.float64))
        np.testing.assert_allclose(users_kernel(lambda r: np.exp(-r))(X), exact, atol=error)
    assert users_kernel(lambda r: np.exp(-(r**2)))._smooth_at_zero
