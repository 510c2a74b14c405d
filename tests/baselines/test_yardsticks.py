"""Errors on Abalone beside those of independent implementations."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.accuracy import relative_error
from blockbasis.baselines import approximate

SEEDS = range(3)
#: Relative errors at h = 1, at so many floats per point.
BUDGETS = (20, 100)
KNOWN = {"svd": (0.206, 0.051), "nystrom": (0.41, 0.10), "nystrom-kmeans": (0.29, 0.083)}


@pytest.mark.parametrize("method", KNOWN)
def test_errors_are_those_of_others(abalone, method):
    kernel = bb.Gaussian(1.0)
    for floats, known in zip(BUDGETS, KNOWN[method], strict=True):
        runs = [
            approximate(abalone, kernel, method, memory=floats * len(abalone), rng=seed)
            for seed in (SEEDS if method != "svd" else [0])
        ]
        found = np.mean([relative_error(A, abalone, kernel, n_rows=1000, rng=0).value for A in runs])
        assert found == pytest.approx(known, rel=0.1)
