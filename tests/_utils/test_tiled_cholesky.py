from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import blockbasis as bb
from blockbasis._utils import tiled_cholesky
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.tiled_cholesky import factorize_in_place, inverse_diagonal

TILE = tiled_cholesky._TILE


def kernel_matrix(n, ridge=0.1, dtype=np.float64):
    K = bb.Gaussian(1.0)(np.random.default_rng(0).normal(size=(n, 4)))
    return np.asfortranarray((K + ridge * np.eye(n)).astype(dtype))


@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 2 * TILE + 100])
@pytest.mark.parametrize(("dtype", "precision"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_factor_and_diagonal_of_the_inverse_are_those_of_lapack(n, dtype, precision):
    M = kernel_matrix(n, dtype=dtype)
    exact = kernel_matrix(n)
    with single_threaded():
        factor = factorize_in_place(M, 1)
        diagonal = inverse_diagonal(factor, 1)
    assert factor is M and factor.dtype == diagonal.dtype == dtype
    np.testing.assert_allclose(np.tril(factor), linalg.cholesky(exact, lower=True), atol=precision)
    np.testing.assert_allclose(diagonal, np.diagonal(np.linalg.inv(exact)), rtol=100 * precision)


def test_results_do_not_depend_on_the_number_of_threads():
    results = []
    for n_jobs in (1, 2, 3):
        M = kernel_matrix(3 * TILE + 50)
        with single_threaded():
            factor = np.tril(factorize_in_place(M, n_jobs))
            results.append((factor, inverse_diagonal(factor, n_jobs)))
    for factor, diagonal in results[1:]:
        np.testing.assert_array_equal(factor, results[0][0])
        np.testing.assert_array_equal(diagonal, results[0][1])


@pytest.mark.parametrize("place", [0, TILE + 5, 2 * TILE])
def test_an_indefinite_matrix_is_refused(place):
    M = kernel_matrix(2 * TILE + 10)
    M[place, place] = -1.0
    with pytest.raises(linalg.LinAlgError, match="not positive definite"):
        factorize_in_place(M, 2)
