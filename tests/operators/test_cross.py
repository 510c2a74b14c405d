"""Operators of two sets of points, beside the contract of all operators in tests/test_contract.py."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb


@pytest.fixture(scope="module")
def B(points):
    return bb.factorize_cross(points[:70] + 0.1, points, bb.Gaussian(0.5), n_clusters=(3, 4), rank=6, rng=0)


def test_it_is_the_product_of_its_factors(B):
    U, V = (basis.expand(np.eye(basis.shape[1])) for basis in (B.row_basis, B.column_basis))
    np.testing.assert_allclose(B.todense(), U @ B.inner.todense() @ V.T, atol=1e-12)
    np.testing.assert_allclose(B.T @ np.ones(70), V @ (B.inner.todense().T @ (U.T @ np.ones(70))), atol=1e-12)


def test_stored_and_bytes_are_those_of_the_factors(B):
    assert B.stored == B.row_basis.size + B.inner.stored + B.column_basis.size
    assert B.nbytes == B.row_basis.nbytes + B.inner.nbytes + B.column_basis.nbytes


def test_the_transpose_of_the_transpose_is_the_operator(B):
    assert B.T.T is B
    assert B.H.H is B
    assert B.T.shape == (160, 70)


def test_its_arrays_cannot_be_changed(B):
    for basis in (B.row_basis, B.column_basis):
        with pytest.raises(ValueError, match="read-only"):
            basis.block(0)[0, 0] = 1.0


def test_entries_are_counted_where_it_was_built_and_errors_where_it_extends(B, points):
    assert B.entries.total > 0
    assert B.error_estimate is None
    extended = bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=6, rng=0).extend(points[:30] + 0.1)
    assert extended.entries is None
    exact = bb.Gaussian(0.5)(points[:30] + 0.1, points)
    true = np.linalg.norm(extended.todense() - exact) / np.linalg.norm(exact)
    assert extended.error_estimate.value == pytest.approx(true, rel=0.5)
