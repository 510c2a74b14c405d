from __future__ import annotations

import numpy as np
import pytest

from blockbasis.solvers import woodbury

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture
def S(rng):
    half = rng.standard_normal((12, 9))
    return half @ half.T


def test_both_factored_forms_agree(S, rng):
    M, W = np.eye(12) + S, rng.standard_normal((12, 2))
    blocks = [slice(0, 5), slice(5, 6), slice(6, 12)]
    for form in (woodbury.cholesky(S.copy()), woodbury.spectral(*woodbury.eigenpairs(S.copy()), EPS)):
        np.testing.assert_allclose(form.solve(W), np.linalg.solve(M, W), rtol=1e-9)
        assert form.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-12)
        for block, found in zip(blocks, form.inverse_blocks(blocks), strict=True):
            np.testing.assert_allclose(found, np.linalg.inv(M)[block, block], atol=1e-10)


def test_no_cholesky_factor_of_what_is_not_definite(S):
    assert woodbury.cholesky(-2 * np.eye(12) - S) is None


def test_eigenvalues_that_compete_with_the_ridge():
    vectors = np.eye(3)
    kept = woodbury.spectral(np.array([-0.4, 1.0, 1e10]), vectors, EPS)
    assert kept.values[0] == -0.4
    rounding = woodbury.spectral(np.array([-0.9, 1.0, 1e13]), vectors, EPS)
    assert rounding.values[0] == 0
    rounding = woodbury.spectral(np.array([-5.0, 1.0, 1e7]), vectors, float(np.finfo(np.float32).eps))
    assert rounding.values[0] == 0
    assert woodbury.spectral(np.array([-0.9, 1.0, 1e3]), vectors, EPS).values[0] == -0.9
    with pytest.raises(np.linalg.LinAlgError, match="down to about -5 times the ridge"):
        woodbury.spectral(np.array([-5.0, 1.0, 1e7]), vectors, EPS)


@pytest.mark.parametrize("largest", [1e17, np.inf, np.nan])
def test_what_float64_cannot_solve(largest):
    with pytest.raises(np.linalg.LinAlgError, match="working precision"):
        woodbury.check_conditioning(largest)


def test_triangles_make_the_scaled_basis_orthonormal(A, rng):
    diagonal = 10.0 ** rng.uniform(-3, 3, size=A.shape[0])
    triangles = woodbury.orthonormalizing(A.basis, diagonal)
    for U, R, cluster in zip(A.bases, triangles, A.partition.clusters, strict=True):
        scaled = U / np.sqrt(diagonal[A.partition.order[cluster]])[:, np.newaxis]
        Q = scaled @ np.linalg.inv(R)
        np.testing.assert_allclose(Q.T @ Q, np.eye(R.shape[0]), atol=1e-9)
        assert R.dtype == np.float64


def test_the_congruent_matrix(A, rng):
    triangles = tuple(np.triu(rng.standard_normal((rank, rank))) for rank in A.ranks)
    C = A.inner.todense().astype(np.float64)
    R = np.zeros_like(C)
    for triangle, block in zip(triangles, woodbury.rank_slices(A.ranks), strict=True):
        R[block, block] = triangle
    np.testing.assert_allclose(
        woodbury.congruent(A.inner, triangles), R @ C @ R.T, atol=1e-10 * np.abs(C).max() + 1e-12
    )
    well = tuple(triangle + 5 * np.eye(len(triangle)) for triangle in triangles)
    for triangle, block in zip(well, woodbury.rank_slices(A.ranks), strict=True):
        R[block, block] = triangle
    W = rng.standard_normal((len(C), 2))
    np.testing.assert_allclose(R @ woodbury.triangular_solve(well, W), W, atol=1e-8)
    np.testing.assert_allclose(R.T @ woodbury.triangular_solve(well, W, transposed=True), W, atol=1e-8)
