from __future__ import annotations

import numpy as np
import pytest

from blockbasis._utils.linalg import eigenpairs
from blockbasis.solvers import shifted

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture
def S(rng):
    half = rng.standard_normal((12, 9))
    return half @ half.T


def test_both_factored_forms_agree(S, rng):
    M, W = np.eye(12) + S, rng.standard_normal((12, 2))
    blocks = [slice(0, 5), slice(5, 6), slice(6, 12)]
    for form in (shifted.cholesky_factorization(S.copy()), shifted.spectral_factorization(*eigenpairs(S.copy()), EPS)):
        np.testing.assert_allclose(form.solve(W), np.linalg.solve(M, W), rtol=1e-9)
        assert form.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-12)
        for block, found in zip(blocks, form.inverse_blocks(blocks), strict=True):
            np.testing.assert_allclose(found, np.linalg.inv(M)[block, block], atol=1e-10)


def test_no_cholesky_factor_of_what_is_not_definite(S):
    assert shifted.cholesky_factorization(-2 * np.eye(12) - S) is None


def test_eigenvalues_that_compete_with_the_ridge():
    vectors = np.eye(3)
    kept = shifted.spectral_factorization(np.array([-0.4, 1.0, 1e10]), vectors, EPS)
    assert kept.values[0] == -0.4
    rounding = shifted.spectral_factorization(np.array([-0.9, 1.0, 1e13]), vectors, EPS)
    assert rounding.values[0] == 0
    rounding = shifted.spectral_factorization(np.array([-5.0, 1.0, 1e7]), vectors, float(np.finfo(np.float32).eps))
    assert rounding.values[0] == 0
    assert shifted.spectral_factorization(np.array([-0.9, 1.0, 1e3]), vectors, EPS).values[0] == -0.9
    with pytest.raises(np.linalg.LinAlgError, match="down to about -5 times the ridge"):
        shifted.spectral_factorization(np.array([-5.0, 1.0, 1e7]), vectors, EPS)


@pytest.mark.parametrize("largest", [1e17, np.inf, np.nan])
def test_what_float64_cannot_solve(largest):
    with pytest.raises(np.linalg.LinAlgError, match="working precision"):
        shifted.check_conditioning(largest)
