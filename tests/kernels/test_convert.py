from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp

import blockbasis as bb
from blockbasis.kernels import CallableKernel, as_kernel, from_sklearn

EQUALS = [
    gp.RBF(0.7),
    gp.RBF([0.7, 2.0, 5.0]),
    gp.RBF([0.7]),
    gp.Matern(1.3, nu=0.5),
    gp.Matern([1.3, 2.0, 0.4], nu=1.5),
    gp.Matern(1.3, nu=2.5),
    gp.Matern([1.0, 2.0, 3.0], nu=np.inf),
    gp.RationalQuadratic(length_scale=0.9, alpha=0.4),
    gp.WhiteKernel(0.3),
    gp.ConstantKernel(2.0) * gp.RBF([1.0, 2.0, 3.0]) + gp.WhiteKernel(0.1),
    gp.RBF(1.0) * gp.Matern(2.0, nu=1.5) * gp.ConstantKernel(0.5),
    (gp.RBF(1.0) + gp.RBF(3.0)) * gp.RationalQuadratic() + 2.0 * gp.WhiteKernel(0.2),
]
UNEQUAL = [
    gp.Matern(1.0, nu=0.7),
    gp.DotProduct(),
    gp.ExpSineSquared(),
    gp.ConstantKernel(2.0),
    gp.RBF(1.0) + 2.0,
    gp.RBF(1.0) ** 2,
    gp.RBF(1.0) * gp.DotProduct(),
    gp.CompoundKernel([gp.RBF()]),
]


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize("theirs", EQUALS, ids=repr)
def test_equal_kernels_have_equal_values_both_ways(theirs, X):
    ours = from_sklearn(theirs)
    assert as_kernel(theirs, caller="f") == ours
    for kernel in (ours, ours.to_sklearn(), from_sklearn(ours.to_sklearn())):
        np.testing.assert_allclose(kernel(X), theirs(X), rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(kernel(X, X[::2]), theirs(X, X[::2]), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    "ours",
    [
        bb.Gaussian(2.0),
        bb.Gaussian([1.0, 2.0, 3.0]),
        bb.Laplacian([1.0, 2.0, 3.0]),
        bb.Cauchy(1.7),
        bb.InverseMultiquadric(1.7),
        bb.RationalQuadratic(1.7, 0.3),
        2.0 * (bb.Gaussian(1.0) + bb.White(0.5)) * bb.Matern(2.0, 2.5) * bb.Cauchy(1.0),
    ],
    ids=repr,
)
def test_ours_have_equals_there(ours, X):
    np.testing.assert_allclose(ours.to_sklearn()(X), ours(X), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("theirs", UNEQUAL, ids=repr)
def test_unequal_ones_are_refused_and_taken_as_functions(theirs):
    with pytest.raises(ValueError, match="'kernel' parameter of from_sklearn must be an RBF"):
        from_sklearn(theirs)
    assert as_kernel(theirs, caller="f") == CallableKernel(theirs)


@pytest.mark.parametrize("bad", ["rbf", None, np.dot, bb.Gaussian(1.0)])
def test_what_is_none_of_theirs(bad):
    with pytest.raises(ValueError, match="'kernel' parameter of from_sklearn must be"):
        from_sklearn(bad)


def test_a_users_own_subclass_is_a_function():
    class Louder(gp.RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            return 2 * super().__call__(X, Y)

    assert isinstance(as_kernel(Louder(1.0), caller="f"), CallableKernel)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (bb.Gaussian(1.0).with_metric(np.eye(3)), "it takes no metric"),
        (bb.Cauchy([1.0, 2.0]), "no such Cauchy"),
        (bb.Gaussian(1.0) + bb.RationalQuadratic([1.0, 2.0], 2.0), "no such RationalQuadratic"),
        (CallableKernel(np.dot), "no such CallableKernel"),
    ],
)
def test_no_equal_there(kernel, reason):
    with pytest.raises(ValueError, match=f"scikit-learn has no kernel that equals .*{reason}"):
        kernel.to_sklearn()


def test_theirs_add_to_ours():
    assert bb.Gaussian(1.0) + gp.WhiteKernel(0.5) == bb.Gaussian(1.0) + bb.White(0.5)
    assert bb.Gaussian(1.0) * gp.Matern(2.0) == bb.Gaussian(1.0) * bb.Matern(2.0)
    with pytest.raises(ValueError, match="from_sklearn"):
        bb.Gaussian(1.0) + gp.DotProduct()


def test_kernels_and_functions_pass_as_kernels():
    kernel = bb.Cauchy(1.0)
    assert as_kernel(kernel, caller="f") is kernel

    def own(X, Y):
        return X @ Y.T

    assert as_kernel(own, caller="f") == CallableKernel(own)


@pytest.mark.parametrize("bad", [bb.Gaussian, "gaussian", None, 1.0, np.eye(2)])
def test_what_is_not_a_kernel(bad):
    with pytest.raises(TypeError) as caught:
        as_kernel(bad, caller="factorize")
    message = str(caught.value)
    assert "'kernel' parameter of factorize must be a kernel such as blockbasis.Gaussian(1.0)" in message
    assert f"Got {bad!r} instead" in message
