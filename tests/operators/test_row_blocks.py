from __future__ import annotations

import numpy as np
import pytest

from blockbasis.operators.row_blocks import RowBlocks


@pytest.fixture
def N():
    rng = np.random.default_rng(0)
    rows = (np.array([0, 3]), np.array([], dtype=np.intp), np.array([1, 3, 4]))
    return RowBlocks(5, rows, (rng.normal(size=(2, 2)), np.empty((0, 1)), rng.normal(size=(3, 4))))


@pytest.fixture
def dense(N):
    matrix = np.zeros((5, 7))
    matrix[[0, 3], :2] = N.blocks[0]
    matrix[[1, 3, 4], 3:] = N.blocks[2]
    return matrix


def test_products_are_those_of_the_dense_matrix(N, dense):
    np.testing.assert_allclose(N.expand(np.eye(7)), dense)
    np.testing.assert_allclose(N.project(np.eye(5)), dense.T)


def test_only_nonzero_blocks_are_stored(N):
    assert N.size == 2 * 2 + 3 * 4
    assert N.nbytes == 8 * (N.size + 5)


def test_its_arrays_cannot_be_changed(N):
    with pytest.raises(ValueError, match="read-only"):
        N.blocks[0][0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        N.rows[0][0] = 1
