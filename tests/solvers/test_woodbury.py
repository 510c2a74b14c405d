from __future__ import annotations

import numpy as np

from blockbasis.solvers import woodbury
from blockbasis.solvers.components import rank_slices


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
    for triangle, block in zip(triangles, rank_slices(A.ranks), strict=True):
        R[block, block] = triangle
    np.testing.assert_allclose(
        woodbury.congruent(A.inner, triangles), R @ C @ R.T, atol=1e-10 * np.abs(C).max() + 1e-12
    )
    well = tuple(triangle + 5 * np.eye(len(triangle)) for triangle in triangles)
    for triangle, block in zip(well, rank_slices(A.ranks), strict=True):
        R[block, block] = triangle
    W = rng.standard_normal((len(C), 2))
    np.testing.assert_allclose(R @ woodbury.triangular_solve(well, W), W, atol=1e-8)
    np.testing.assert_allclose(R.T @ woodbury.triangular_solve(well, W, transposed=True), W, atol=1e-8)
