from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from blockbasis._linalg import leading_eigenpairs, negative_eigenpairs, nystrom_factor


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


def test_factor_of_some_columns():
    B = np.random.default_rng(0).standard_normal((12, 5))
    K = B @ B.T
    whole = nystrom_factor(K[:, :7], K[:7, :7], floor=1e-10)
    assert whole.shape == (12, 5)  # two eigenvalues of the core are rounding
    np.testing.assert_allclose(whole @ whole.T, K, atol=1e-9)
    cut = nystrom_factor(K[:, :7], K[:7, :7], floor=1e-10, rank=2)
    values, vectors = np.linalg.eigh(K[:7, :7])
    inverse = (vectors[:, -2:] / values[-2:]) @ vectors[:, -2:].T
    np.testing.assert_allclose(cut @ cut.T, K[:, :7] @ inverse @ K[:7], atol=1e-10)
