from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dask.array")
from dask.sizeof import sizeof  # noqa: E402

import blockbasis as bb  # noqa: E402
from blockbasis.distributed.parts import evaluated_part  # noqa: E402
from blockbasis.distributed.sizes import register  # noqa: E402
from blockbasis.estimators._ridge_sums import RidgeSums  # noqa: E402
from blockbasis.streaming.functions import BasisFunctions  # noqa: E402


def test_dask_knows_the_bytes_of_what_workers_hold():
    register()
    X = np.random.default_rng(0).normal(size=(500, 2))
    functions = BasisFunctions.of(bb.factorize(X, bb.Gaussian(2.0), n_clusters=3, rank=10, diagonal=False, rng=0))
    part = evaluated_part(X, functions, np.float64, "block")
    assert sizeof(part) >= 8 * 500 * 11
    extensions = sum(each.points.nbytes + each.coefficients.nbytes for each in functions.extensions)
    assert sizeof(functions) >= extensions + functions.inner.nbytes
    assert 8 * 330 <= sizeof(RidgeSums.of(functions, X, X[:, :1], None, 1)) < 8 * 500
