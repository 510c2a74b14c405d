from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.kernels.hyperparameters import log_parameters, sensitivities, with_log_parameters

METRIC = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]])
KERNELS = {
    "one length": (bb.Gaussian(1.3), 1),
    "lengths": (bb.Gaussian([0.5, 1.0, 4.0]), 3),
    "laplacian": (bb.Laplacian([0.5, 1.0, 4.0]), 3),
    "matern": (bb.Matern([0.5, 1.0, 4.0], 2.5), 3),
    "cauchy": (bb.Cauchy([2.0, 1.0, 4.0]), 3),
    "inverse multiquadric": (bb.InverseMultiquadric(2.0), 1),
    "rational quadratic": (bb.RationalQuadratic([2.0, 1.0, 4.0], 0.7), 3),
    "metric": (bb.Gaussian([1.0, 2.0]).with_metric(METRIC), 2),
    "sum": (2.0 * bb.Gaussian([0.5, 1.0, 4.0]) + bb.Laplacian(3.0) + bb.White(0.3), 6),
    "product": (bb.Matern(2.0) * (0.5 * bb.Cauchy(1.0)), 3),
    "scaled noise": (3.0 * (bb.Gaussian(1.0) + bb.White(0.2)), 3),
    "product with noise": (bb.Gaussian(1.0) * (bb.Cauchy(1.0) + bb.White(0.2)), 0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_are_those_of_differences(name):
    kernel, count = KERNELS[name]
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(40, 3)), rng.normal(size=(40, 40))
    G = G + G.T
    theta = log_parameters(kernel)
    assert theta.shape == (count,)
    found = sensitivities(kernel, X, G)
    for j, step in enumerate(1e-5 * np.eye(count)):
        ahead, behind = (np.vdot(G, with_log_parameters(kernel, theta + sign * step)(X)) for sign in (1, -1))
        assert found[j] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_numbers_make_the_same_kernel(name):
    kernel, _ = KERNELS[name]
    X = np.random.default_rng(1).normal(size=(5, 3))
    again = with_log_parameters(kernel, log_parameters(kernel))
    assert type(again) is type(kernel)
    np.testing.assert_allclose(again(X), kernel(X), rtol=1e-12)


def test_a_function_has_none():
    kernel = bb.kernels.CallableKernel(lambda X, Y: X @ Y.T)
    X = np.ones((3, 2))
    assert log_parameters(kernel).size == sensitivities(kernel, X, np.ones((3, 3))).size == 0
    assert with_log_parameters(kernel, np.empty(0)) is kernel
