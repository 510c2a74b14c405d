from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from blockbasis._linalg import leading_eigenpairs, negative_eigenpairs


def symmetric(seed, n=40):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M + M.T


@pytest.fixture(params=["part", "whole"])
def driver(request, monkeypatch):
    """Both ways: the driver for a part, and the one for the whole after the first has given up."""
    if request.param == "whole":

        def give_up(*arguments, **options):
            raise linalg.LinAlgError("internal error")

        monkeypatch.setattr(linalg, "eigh", give_up)


@pytest.mark.parametrize("seed", range(3))
def test_leading_eigenpairs(driver, seed):
    M = symmetric(seed)
    values, vectors = leading_eigenpairs(M, 7)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M)[::-1][:7], atol=1e-12)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_negative_eigenpairs(driver, seed):
    M = symmetric(seed)
    values, vectors = negative_eigenpairs(M)
    np.testing.assert_allclose(values, [v for v in np.linalg.eigvalsh(M) if v < 0], atol=1e-12)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-12)


def test_no_negative_eigenpairs(driver):
    values, vectors = negative_eigenpairs(np.eye(3))
    assert values.shape == (0,)
    assert vectors.shape == (3, 0)
