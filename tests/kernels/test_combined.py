from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.kernels import CallableKernel, Product, Scaled, Sum

G, C, W = bb.Gaussian(1.0), bb.Cauchy(2.0), bb.White(0.25)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 2))


def test_operators(X):
    np.testing.assert_allclose((2.0 * G + C)(X), 2 * G(X) + C(X), atol=1e-15)
    np.testing.assert_allclose((G * C * 3)(X), 3 * G(X) * C(X), atol=1e-15)
    np.testing.assert_allclose(((G + C) * (G + C))(X), (G(X) + C(X)) ** 2, rtol=1e-14)
    np.testing.assert_allclose((np.float64(2) * G)(X), 2 * G(X), rtol=1e-15)


def test_structure():
    assert 2.0 * (3.0 * G) == Scaled(G, 6.0) == G * 6
    assert G + C + W == Sum((G, C, W)) == G + (C + W)
    assert G * C * G == Product((G, C, G)) == G * (C * G)
    assert Product((Sum((G, C)), W)) == (G + C) * W
    assert G + C != C + G


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * G + C,
        (G + C) * W,
        G * (2.0 * C) * (G + W),
        2.0 * G * C,
        2.0 * (G * C),
        0.5 * (G + C),
        (2.0 * G + C).with_metric([[1.0, 2.0]]) + bb.Matern([1.0, 2.0], nu=2.5),
    ],
)
def test_what_is_shown_makes_the_kernel_again(kernel):
    assert eval(repr(kernel), vars(bb)) == kernel


def test_noise_is_in_the_diagonal_of_symmetric_matrices_only(X):
    kernel = G + 2.0 * W
    assert kernel.noise == 0.5
    np.testing.assert_allclose(kernel(X), G(X) + 0.5 * np.eye(40), atol=1e-15)
    np.testing.assert_array_equal(kernel(X, X), G(X, X))
    np.testing.assert_array_equal(W(X), 0.25 * np.eye(40))
    assert kernel.without_noise() == G


def test_noise_of_products(X):
    """On the diagonal a product has the product of its factors' diagonals, as in scikit-learn."""
    for kernel, noise in (((2.0 * G) * W, 0.5), ((G + W) * (C + W), 1.25**2 - 1), (W * W, 0.0625)):
        assert kernel.noise == pytest.approx(noise)
        assert kernel.without_noise().noise == 0
        expected = np.prod([part(X) for part in kernel.parts], axis=0)
        np.testing.assert_allclose(kernel(X), expected, atol=1e-15)


def test_noise_beside_a_function(X):
    kernel = CallableKernel(lambda A, B: A @ B.T) + W
    np.testing.assert_allclose(kernel(X), X @ X.T + 0.25 * np.eye(40), atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), (X**2).sum(axis=1) + 0.25)
    assert kernel.at_zero is None
    with pytest.raises(ValueError, match=r"must have the same k\(x, x\) for all x"):
        CallableKernel(lambda A, B: A @ B.T) * W


def test_coordinates_of_parts(X):
    """One map where all parts have the same, and otherwise one whose squared distances are the sums of theirs."""
    assert (G + bb.Laplacian(3.0)).map is None
    lengths = np.array([1.0, 50.0])
    same = bb.Gaussian(lengths) + bb.Laplacian(4 * lengths)
    assert same.map == bb.Gaussian(lengths).map
    mixed = bb.Gaussian(lengths) * bb.Cauchy([3.0, 2.0]) + W
    apart = np.linalg.norm(mixed.coordinates(X)[:1] - mixed.coordinates(X), axis=1) ** 2
    expected = (((X - X[0]) / lengths) ** 2).sum(axis=1) + (((X - X[0]) / [3.0, 2.0]) ** 2).sum(axis=1)
    np.testing.assert_allclose(apart, expected, rtol=1e-12)
    function = CallableKernel(lambda A, B: np.ones((len(A), len(B))))
    assert (bb.Gaussian(lengths) + function).coordinates(X) is X


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf])
def test_bad_scales(bad):
    with pytest.raises(ValueError, match=r"'scale' parameter of Scaled must be a positive finite number.*Got"):
        bad * G


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_bad_noise(bad):
    with pytest.raises(ValueError, match=r"'variance' parameter of White must be a positive finite number.*Got"):
        bb.White(bad)


@pytest.mark.parametrize("bad", ["a", None, np.eye(2), int])
def test_what_does_not_add_or_multiply(bad):
    with pytest.raises(TypeError):
        G + bad
    with pytest.raises(TypeError):
        G * bad


def test_bad_parts():
    with pytest.raises(ValueError, match="points of the same number of columns. Got 2 and 3 instead"):
        bb.Gaussian([1.0, 2.0]) + bb.Gaussian([1.0, 2.0, 3.0])
    for bad in ((G,), (G, 2.0)):
        with pytest.raises(TypeError, match="'parts' parameter of Sum must be two kernels or more"):
            Sum(bad)


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_a_scale_that_float32_cannot_hold_is_refused(scale):
    X = np.zeros((2, 1), dtype=np.float32)
    with pytest.raises(ValueError, match="'scale' parameter of Scaled must be a number that float32 can hold. Got 1e"):
        (scale * bb.Gaussian(1.0))(X)
    assert (scale * bb.Gaussian(1.0))(X.astype(np.float64))[0, 0] == scale


def test_a_function_is_added_and_multiplied(X):
    def function(A, B):
        return np.exp(-np.abs(A[:, np.newaxis] - B).sum(axis=2))

    expected = bb.Gaussian(1.0)(X, X)
    for kernel in (bb.Gaussian(1.0) + function, function + bb.Gaussian(1.0)):
        np.testing.assert_allclose(kernel(X, X), expected + function(X, X), atol=1e-14)
    np.testing.assert_allclose((bb.Gaussian(1.0) * function)(X, X), expected * function(X, X), atol=1e-14)
