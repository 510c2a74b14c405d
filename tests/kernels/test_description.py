from __future__ import annotations

import json

import numpy as np

import blockbasis as bb
from blockbasis.kernels import CallableKernel
from blockbasis.kernels.description import describe_kernel, restored_kernel


def test_round_trip_through_json(kind, X):
    saved = json.loads(json.dumps(describe_kernel(kind.kernel)))
    kernel = restored_kernel(saved)
    assert kernel == kind.kernel and hash(kernel) == hash(kind.kernel)
    np.testing.assert_array_equal(kernel(X), kind.kernel(X))


def test_what_older_files_hold():
    assert describe_kernel(bb.Matern(2.0, 2.5)) == {"name": "Matern", "parameters": {"bandwidth": 2.0, "nu": 2.5}}
    assert restored_kernel({"name": "Gaussian", "parameters": {"bandwidth": 3.0}}) == bb.Gaussian(3.0)


def test_a_users_own_kernel_is_not_described():
    class Gaussian(bb.Gaussian):
        pass

    function = CallableKernel(np.dot)
    for kernel in (None, function, Gaussian(1.0), bb.Cauchy(1.0) + function, 2.0 * Gaussian(1.0)):
        assert describe_kernel(kernel) is None
    assert describe_kernel(function.with_metric(np.eye(2))) is None
