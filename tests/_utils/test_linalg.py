from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from blockbasis._utils.linalg import (
    eigenpairs,
    leading_eigenpairs,
    negative_eigenpairs,
    nystrom_factor,
    shifted_cholesky,
)


def symmetric(seed, n=40):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M + M.T


@pytest.fixture(params=[(), ("evr",), ("evd",), ("evd", "evr")], ids=str)
def driver(request, monkeypatch):
    """LAPACK as it is, and with some of its drivers giving up, as they do on matrices with many equal eigenvalues."""
    eigh = linalg.eigh

    def sometimes(*arguments, driver, **options):
        if driver in request.param:
            raise linalg.LinAlgError("internal error")
        return eigh(*arguments, driver=driver, **options)

    monkeypatch.setattr(linalg, "eigh", sometimes)


@pytest.mark.parametrize("seed", range(3))
def test_leading_eigenpairs(driver, seed):
    M = symmetric(seed)
    for count in (1, 5, 7, 40):
        values, vectors = leading_eigenpairs(M, count)
        assert vectors.shape == (40, count)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(M)[::-1][:count], atol=1e-12)
        np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_all_eigenpairs(driver, seed):
    M = symmetric(seed)
    values, vectors = eigenpairs(M)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M), atol=1e-12)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-12)


def test_a_matrix_of_one_entry(driver):
    """SciPy 1.13 fails with its fastest driver."""
    values, vectors = eigenpairs(np.array([[3.0]]))
    assert values.tolist() == [3.0] and vectors.tolist() == [[1.0]]


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


def test_a_shifted_cholesky_factor_takes_the_shift_that_rounding_needs():
    half = np.random.default_rng(0).normal(size=(20, 5))
    M = half @ half.T  # semi-definite, of rank 5

    def shift_of(disturbed):
        L = shifted_cholesky(disturbed, 1e-9)
        shift = np.diagonal(L @ L.T - disturbed)
        np.testing.assert_allclose(L @ L.T, disturbed + shift.mean() * np.eye(20), atol=1e-12)
        return shift.mean()

    np.testing.assert_allclose(shift_of(M), 1e-9, rtol=1e-3)
    assert 1e-6 < shift_of(M - 1e-6 * np.eye(20)) < 1e-4
    assert shift_of(-M) > np.linalg.eigvalsh(M)[-1]
    np.testing.assert_allclose(shifted_cholesky(np.zeros((3, 3)), 0.0) ** 2, 1e-290 * np.eye(3), rtol=1e-9)


@pytest.mark.parametrize("n", [21, 26, 35, 59])
def test_equal_eigenvalues_of_which_lapack_returns_none(n):
    """dsyevr leaves out the largest eigenvalues of a projection of these sizes, without an error."""
    values, vectors = leading_eigenpairs(np.eye(n) - 1 / n, 2)
    np.testing.assert_allclose(values, 1, rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-12)
