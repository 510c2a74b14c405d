"""Rows of a basis that determine coordinates, the coordinates that they give, and pivoted columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import blockbasis as bb
from blockbasis.construction import coordinates
from blockbasis.construction.coordinates import determining_rows, important_columns, row_pseudo_inverse, tournament


def spans(columns, M):
    """Relative size of what the columns of M leave over."""
    Q = np.linalg.qr(M[:, columns])[0]
    return np.linalg.norm(M - Q @ (Q.T @ M)) / np.linalg.norm(M)


def test_important_columns_are_cut_at_the_rank():
    rng = np.random.default_rng(0)
    block = rng.normal(size=(10, 3)) @ rng.normal(size=(3, 25))
    assert len(important_columns(block, 8)) == 3
    assert len(important_columns(block, 2)) == 2
    assert important_columns(block, 2)[0] == np.linalg.norm(block, axis=0).argmax()


def test_important_columns_of_nothing():
    assert important_columns(np.zeros((4, 6)), 3).shape == (1,)
    assert important_columns(np.zeros((0, 6)), 3).shape == (0,)


# --- tournament pivoting ---------------------------------------------------------------------------------------------

#: Entries of a tile in these tests: so few that blocks of thousands of columns are several rounds.
_FEW_ENTRIES = 2**13


def wide_block(seed, height, width, bandwidth=0.5):
    """Entries of a Gaussian kernel between a few rows and points in clusters of very unlike sizes and spreads."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice(6, width, p=[0.4, 0.3, 0.2, 0.06, 0.03, 0.01]))
    X = rng.normal(size=(6, 4))[labels] + rng.normal(size=(width, 4)) * np.geomspace(0.03, 1, 6)[labels, np.newaxis]
    rows = rng.choice(width, height, replace=False)
    return bb.Gaussian(bandwidth).block(X[rows], X)


def plain_pivots(block, size):
    R, pivots = linalg.qr(block, mode="r", pivoting=True)
    diagonal = np.abs(np.diagonal(R))
    return pivots[: min(size, np.count_nonzero(diagonal > 1e-12 * diagonal[0]))]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(20, 500), (40, 3000), (30, 12), (1, 40)])
def test_blocks_of_one_tile_have_the_pivots_of_pivoted_qr(shape, order):
    height, width = shape
    block = np.asarray(wide_block(0, min(shape), max(shape)), order=order)
    block = block if height <= width else block.T
    before = block.copy()
    for size in (1, 7, 40):
        np.testing.assert_array_equal(important_columns(block, size), plain_pivots(block, size))
    np.testing.assert_array_equal(block, before)


@pytest.mark.parametrize("height", [20, 40])
def test_tournament_is_as_good_as_pivoted_qr(monkeypatch, height):
    """Volume, conditioning and what the columns leave over, for half as many columns as rows, and for as many.

    Neither is the best choice: of a single block now the one and now the other leaves less, so means are compared.
    """
    monkeypatch.setattr(coordinates, "_PIVOTED_ENTRIES", 2**15)  # some 40 columns for each one kept: 80 in earnest
    left, volumes = [], []
    for seed in range(30):
        block = wide_block(seed, height, 6000)
        for size in (height // 2, height):
            ours, plain = important_columns(block, size), plain_pivots(block, size)
            assert len(np.unique(ours)) == len(ours) == len(plain)
            values, of_plain = (np.linalg.svd(block[:, each], compute_uv=False) for each in (ours, plain))
            assert values[-1] > of_plain[-1] / 3
            volumes.append(np.exp(np.log(values / of_plain).mean()))  # for each of the columns
            if size < height:
                left.append(spans(ours, block) / spans(plain, block))
    assert np.mean(volumes) > 0.98
    assert min(volumes) > 0.9
    assert np.exp(np.mean(np.log(left))) < 1.05
    assert max(left) < 2.5


@pytest.mark.parametrize("seed", range(3))
def test_tournament_of_several_rounds_finds_what_spans(monkeypatch, seed):
    """Five of 5000 columns span the others, and stand anywhere."""
    monkeypatch.setattr(coordinates, "_PIVOTED_ENTRIES", 2**8)
    rng = np.random.default_rng(seed)
    block = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 5000))
    found = important_columns(block, 12)
    assert len(found) == 5
    assert spans(found, block) < 1e-12
    assert important_columns(np.zeros((20, 5000)), 12).shape == (1,)


def test_tournament_evaluates_every_column_once_and_few_at_a_time(monkeypatch):
    monkeypatch.setattr(coordinates, "_PIVOTED_ENTRIES", _FEW_ENTRIES)
    block, asked = wide_block(0, 20, 5000), []

    def evaluate(tile):
        asked.append((tile.start, tile.stop))
        return block[:, tile]

    found = tournament(evaluate, block.shape, 10)
    np.testing.assert_array_equal(found, important_columns(block, 10))
    starts, stops = zip(*asked, strict=True)
    assert starts == (0, *stops[:-1])
    assert stops[-1] == 5000
    assert max(stop - start for start, stop in asked) <= _FEW_ENTRIES // 20


# --- determining rows ------------------------------------------------------------------------------------------------


def orthonormal(height, rank, seed=0, dtype=np.float64):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(height, rank)))[0].astype(dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("height", "rank", "count"), [(40, 6, 6), (40, 6, 20), (500, 8, 32), (500, 8, 499)])
def test_rows_determine_the_coordinates(height, rank, count, seed):
    U = orthonormal(height, rank, seed)
    rows = determining_rows(U, count, np.random.default_rng(seed))
    assert len(rows) == count
    assert (np.diff(rows) > 0).all()
    values = np.random.default_rng(seed + 9).normal(size=rank)
    np.testing.assert_allclose(row_pseudo_inverse(U, rows) @ (U @ values)[rows], values, atol=1e-9)


def test_all_rows_where_as_many_are_asked_for():
    U = orthonormal(10, 3)
    np.testing.assert_array_equal(determining_rows(U, 10, np.random.default_rng(0)), np.arange(10))
    np.testing.assert_array_equal(determining_rows(U, 50, np.random.default_rng(0)), np.arange(10))
    np.testing.assert_array_equal(row_pseudo_inverse(U, np.arange(10)), U.T)


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
    np.testing.assert_allclose(row_pseudo_inverse(U, np.arange(5)), np.linalg.pinv(U[:5]), atol=1e-12)
    np.testing.assert_allclose(row_pseudo_inverse(U, np.arange(5, 7)), np.linalg.pinv(U[5:7]), atol=1e-12)


def test_coordinates_are_of_float64():
    assert row_pseudo_inverse(orthonormal(30, 4, dtype=np.float32), np.arange(9)).dtype == np.float64
