from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.experiments.framework import spectra


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(400, 2))


def test_all_singular_values(X):
    exact = np.linalg.svd(bb.Gaussian(0.5)(X), compute_uv=False)
    assert spectra.singular_values(X, 0.5) == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize(("h", "tol", "count"), [(2.0, 1e-4, spectra._LANCZOS_VALUES), (0.05, 1e-1, 400)])
def test_leading_singular_values_reach_below_the_tolerance(X, h, tol, count):
    found = spectra.leading_singular_values(X, h, tol, np.random.default_rng(0))
    assert len(found) == count
    assert found[-1] < tol * found[0]
    exact = spectra.singular_values(X, h)
    assert found == pytest.approx(exact[:count], abs=1e-8 * exact[0])
    assert spectra.rank_from_values(found, tol) == spectra.rank_from_values(exact, tol)
