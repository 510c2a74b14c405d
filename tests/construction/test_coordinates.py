"""Rows of a basis that determine coordinates, and the coordinates that they give."""

from __future__ import annotations

import numpy as np
import pytest

from blockbasis.construction.coordinates import determining_rows, interpolate


def orthonormal(height, rank, seed=0, dtype=np.float64):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(height, rank)))[0].astype(dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("height", "rank", "count"), [(40, 6, 6), (40, 6, 20), (500, 8, 32), (500, 8, 499)])
def test_rows_determine_the_coordinates(height, rank, count, seed):
    U = orthonormal(height, rank, seed)
    rows = determining_rows(U, count, np.random.default_rng(seed))
    assert len(rows) == count
    assert (np.diff(rows) > 0).all()
    coordinates = np.random.default_rng(seed + 9).normal(size=rank)
    np.testing.assert_allclose(interpolate(U, rows) @ (U @ coordinates)[rows], coordinates, atol=1e-9)


def test_all_rows_where_as_many_are_asked_for():
    U = orthonormal(10, 3)
    np.testing.assert_array_equal(determining_rows(U, 10, np.random.default_rng(0)), np.arange(10))
    np.testing.assert_array_equal(determining_rows(U, 50, np.random.default_rng(0)), np.arange(10))
    np.testing.assert_array_equal(interpolate(U, np.arange(10)), U.T)


@pytest.mark.parametrize("seed", range(3))
def test_the_few_rows_that_hold_everything_are_found(seed):
    """Most rows vanish: rows drawn uniformly alone would miss the four that do not."""
    U = np.zeros((400, 4))
    held = np.random.default_rng(seed).choice(400, 4, replace=False)
    U[held] = orthonormal(4, 4, seed)
    rows = determining_rows(U, 16, np.random.default_rng(seed))
    assert set(held) <= set(rows)


def test_rows_that_do_not_determine_all_coordinates_have_a_pseudo_inverse():
    U = orthonormal(30, 4)
    U[[0, 1, 2, 3, 4]] = U[0]
    np.testing.assert_allclose(interpolate(U, np.arange(5)), np.linalg.pinv(U[:5]), atol=1e-12)
    np.testing.assert_allclose(interpolate(U, np.arange(5, 7)), np.linalg.pinv(U[5:7]), atol=1e-12)


def test_coordinates_are_of_float64():
    assert interpolate(orthonormal(30, 4, dtype=np.float32), np.arange(9)).dtype == np.float64
