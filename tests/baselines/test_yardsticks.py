"""Errors on real data beside those of independent implementations."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.accuracy import relative_error
from blockbasis.baselines import approximate
from tests.repeating import first_of

SEEDS = range(3)
#: Relative errors at so many floats per point: of Abalone at h = 1, of Pendigits at h = 2.
BUDGETS = (20, 50, 100, 200)
ABALONE = {
    "svd": (0.206, 0.097, 0.051, 0.025),
    "nystrom": (0.41, 0.21, 0.10, 0.052),
    "nystrom-kmeans": (0.29, 0.145, 0.083, 0.044),
}
PENDIGITS = {"nystrom": (0.61, 0.39, 0.25, 0.16), "nystrom-kmeans": (0.47, 0.28, 0.18, 0.11)}


def errors(X, kernel, method):
    seeds = SEEDS if method != "svd" else [0]
    return [
        np.mean(
            [
                relative_error(
                    approximate(X, kernel, method, memory=floats * len(X), rng=seed), X, kernel, n_rows=1000, rng=seed
                ).value
                for seed in seeds
            ]
        )
        for floats in BUDGETS
    ]


@pytest.mark.parametrize("method", first_of(["nystrom", "nystrom-kmeans", "svd"], fast=2))
def test_errors_on_abalone_are_those_of_others(abalone, method):
    assert errors(abalone, bb.Gaussian(1.0), method) == pytest.approx(ABALONE[method], rel=0.1)


@pytest.mark.parametrize("method", first_of(PENDIGITS))
def test_errors_on_pendigits_are_those_of_others(pendigits, method):
    assert errors(pendigits, bb.Gaussian(2.0), method) == pytest.approx(PENDIGITS[method], rel=0.1)
