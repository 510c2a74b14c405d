from __future__ import annotations

import numpy as np
import pytest

from blockbasis.operators import InnerMatrix
from blockbasis.solvers import components
from blockbasis.solvers.skyline import SkylineFactorization, envelope


def band(n_blocks, rank, seed=0):
    """A symmetric, definite matrix of blocks on the diagonal and beside it, the blocks shuffled."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(n_blocks)
    beside = {tuple(sorted((place[i], place[i + 1]))) for i in range(n_blocks - 1)}
    kept = tuple(np.array([i, *sorted(j for a, j in beside if a == i)]) for i in range(n_blocks))
    panels = [
        np.concatenate([30 * np.eye(rank), *(rng.normal(size=(rank, rank)) for _ in columns[1:])], axis=1)
        for columns in kept
    ]
    offsets = rank * np.arange(n_blocks + 1)
    return InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=True)


def test_the_order_brings_neighbours_together():
    shape = envelope(band(40, 20))
    np.testing.assert_array_equal(np.sort(shape.columns), np.arange(800))
    assert (np.arange(len(shape.first)) - shape.first <= 1).all()
    assert shape.is_faster_than_dense


def test_small_matrices_and_full_ones_are_left_to_dense_factorizations():
    assert not envelope(band(10, 20)).is_faster_than_dense
    offsets = 100 * np.arange(9)
    kept = tuple(np.arange(i, 8) for i in range(8))
    panels = [np.ones((100, 100 * len(columns))) for columns in kept]
    assert not envelope(
        InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=True)
    ).is_faster_than_dense


@pytest.mark.parametrize("seed", range(2))
def test_solutions_and_blocks_of_the_inverse_are_those_of_the_dense_matrix(seed):
    C = band(40, 20, seed)
    (form,) = components.factorize_shifted(C, tuple(np.eye(20) for _ in range(40))).factorizations
    assert isinstance(form, SkylineFactorization)
    M, W = np.eye(800) + C.todense(), np.random.default_rng(1).normal(size=(800, 3))
    np.testing.assert_allclose(form.solve(W), np.linalg.solve(M, W), atol=1e-10)
    inverse, blocks = np.linalg.inv(M), components.rank_slices(np.full(40, 20))
    for block, found in zip(blocks, form.inverse_blocks(blocks), strict=True):
        np.testing.assert_allclose(found, inverse[block, block], atol=1e-12)
