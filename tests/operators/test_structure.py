"""Each part of a factorization that does not fit is refused by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators.archive import StorageError
from blockbasis.operators.extension import Extension
from blockbasis.operators.structure import (
    check_basis_size,
    check_extensions,
    check_inner,
    check_partition,
    integers,
    numbers,
)


@pytest.fixture(scope="module")
def A(points):
    return bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=6, rng=0)


def test_what_a_factorization_holds_is_accepted(A):
    check_partition(A.partition, "")
    check_basis_size(A.ranks, A.partition, A.basis.size, "")
    check_inner(A.inner, A.basis, A.basis)
    check_extensions(A.extensions, A.basis)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(3.0), "ends must be of int64, and is of float64"),
        (np.arange(4), r"ends must be of shape \(3,\), and is of \(4,\)"),
        (np.arange(3) - 1, "ends must be at least 0"),
    ],
)
def test_integers_of_another_kind(array, message):
    with pytest.raises(StorageError, match=message):
        integers(array, "ends", (3,))


@pytest.mark.parametrize(
    ("array", "dtype", "message"),
    [
        (np.arange(6).reshape(2, 3), None, "values must be of float32 or float64, and is of int64"),
        (np.zeros((2, 3)), np.float32, "values must be of float32, and is of float64"),
        (np.zeros(2), None, r"values must be of shape \(None, 3\)"),
        (np.full((2, 3), np.nan), None, "values must be finite"),
    ],
)
def test_numbers_of_another_kind(array, dtype, message):
    with pytest.raises(StorageError, match=message):
        numbers(array, "values", (None, 3), dtype)


def test_points_that_are_in_no_cluster_or_in_two(A):
    twice = A.partition.order.copy()
    twice[0] = twice[1]
    with pytest.raises(StorageError, match=r"row\.partition\.order must be a permutation"):
        check_partition(replace(A.partition, order=twice), "row.")
    with pytest.raises(StorageError, match=r"partition\.starts must be ascending from 0 to 160"):
        check_partition(replace(A.partition, starts=A.partition.starts[::-1].copy()), "")


def test_ranks_that_the_values_do_not_have(A):
    with pytest.raises(StorageError, match=r"basis\.ranks must be those of 7 values"):
        check_basis_size(A.ranks, A.partition, 7, "")
    with pytest.raises(StorageError, match=r"basis\.ranks must be at least 0"):
        check_basis_size(-A.ranks, A.partition, A.basis.size, "")


def test_an_inner_matrix_of_other_ranks(A, points):
    other = bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=5, rng=0)
    with pytest.raises(StorageError, match=r"inner\.row_offsets must be the sums of the ranks"):
        check_inner(other.inner, A.basis, A.basis)


def test_extensions_of_other_clusters(A):
    with pytest.raises(StorageError, match=r"extension\.sizes must be one for each cluster"):
        check_extensions(A.extensions[1:], A.basis)
    first = A.extensions[0]
    short = Extension(first.points, first.coefficients[:, 1:])
    with pytest.raises(StorageError, match=r"extension\.coefficients must be of shape"):
        check_extensions([short, *A.extensions[1:]], A.basis)
