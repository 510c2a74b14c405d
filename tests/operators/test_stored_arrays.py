from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators import stored_arrays
from blockbasis.operators.archive import StorageError


@pytest.fixture(scope="module")
def A(points):
    return bb.factorize(points, bb.Gaussian(0.2), n_clusters=4, tol=1e-2, rng=0)


def test_a_basis_is_restored_from_its_arrays(A):
    restored = stored_arrays.restore_basis(stored_arrays.basis_arrays(A.basis, "rows."), "rows.")
    np.testing.assert_array_equal(restored.values, A.basis.values)
    np.testing.assert_array_equal(restored.ranks, A.ranks)
    np.testing.assert_array_equal(restored.partition.order, A.partition.order)


def test_an_inner_matrix_is_restored_from_its_arrays(A):
    restored = stored_arrays.restore_inner(stored_arrays.inner_arrays(A.inner), len(A.ranks), symmetric=True)
    np.testing.assert_array_equal(restored.todense(), A.inner.todense())


def test_extensions_are_restored_from_their_arrays(A):
    restored = stored_arrays.restore_extensions(stored_arrays.extension_arrays(A.extensions), A.basis)
    for own, saved in zip(restored, A.extensions, strict=True):
        np.testing.assert_array_equal(own.points, saved.points)
        np.testing.assert_array_equal(own.coefficients, saved.coefficients)


def test_parts_that_are_absent_have_no_arrays(A):
    assert stored_arrays.near_arrays(None) == stored_arrays.single_arrays(None) == {}
    assert stored_arrays.restore_near({}, A.basis, A.basis) is None
    assert stored_arrays.restore_single({}, A.basis, A.basis) is None


@pytest.mark.parametrize("change", [1, -1])
def test_arrays_that_are_longer_or_shorter_than_their_parts_are_refused_by_name(A, change):
    arrays = stored_arrays.extension_arrays(A.extensions)
    arrays["extension.sizes"] = arrays["extension.sizes"] + change
    with pytest.raises(StorageError, match="extension.points must be as long as its parts"):
        stored_arrays.restore_extensions(arrays, A.basis)


def test_columns_of_single_entries_must_exist(A):
    single = {
        "single.starts": np.append(np.zeros(len(A.partition.order), dtype=np.int64), 1),
        "single.columns": np.array([len(A.partition.order)]),
        "single.values": np.ones(1),
    }
    with pytest.raises(StorageError, match=r"single.columns must be below 160"):
        stored_arrays.restore_single(single, A.basis, A.basis)
