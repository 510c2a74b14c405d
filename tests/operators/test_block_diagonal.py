from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from blockbasis.operators import BlockDiagonal
from blockbasis.operators import block_diagonal as module
from blockbasis.partition import from_labels


def case(sizes=(40, 60, 60), ranks=(3, 5, 1), *, dtype=np.float64, shuffled=True, seed=0):
    """Random blocks over shuffled points, and the same matrix as an array."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.permutation(labels) if shuffled else labels
    partition = from_labels(rng.normal(size=(len(labels), 2)), labels)
    blocks = [rng.normal(size=(size, rank)).astype(dtype) for size, rank in zip(sizes, ranks, strict=True)]
    dense, end = np.zeros((len(labels), sum(ranks)), dtype=dtype), 0
    for i, block in enumerate(blocks):
        dense[partition.order[partition.cluster(i)], end : end + ranks[i]] = block
        end += ranks[i]
    return BlockDiagonal.from_blocks(partition, blocks), dense, blocks


# --- data ------------------------------------------------------------------------------------------------------------


def test_values_are_one_array_block_after_block():
    U, _, blocks = case()
    np.testing.assert_array_equal(U.values, np.concatenate([block.ravel() for block in blocks]))
    assert U.values.flags.c_contiguous
    assert U.size == 40 * 3 + 60 * 5 + 60
    assert U.nbytes == 8 * U.size
    assert U.shape == (160, 9)
    np.testing.assert_array_equal(U.offsets, [0, 3, 8, 9])
    for i, block in enumerate(blocks):
        np.testing.assert_array_equal(U.blocks[i], block)
        assert np.shares_memory(U.blocks[i], U.values)
        assert not U.blocks[i].flags.writeable
    assert U.blocks is U.blocks


def test_blocks_are_filled_in_place_until_frozen():
    U, dense, blocks = case()
    V = BlockDiagonal.empty(U.partition, U.ranks, np.float32)
    for i, block in enumerate(blocks):
        V.block(i)[...] = block
    assert V.freeze() is V
    with pytest.raises(ValueError, match="read-only"):
        V.block(0)[0, 0] = 1
    np.testing.assert_array_equal(V.expand(np.eye(9, dtype=np.float32)), dense.astype(np.float32))


def test_values_must_fit():
    U, _, _ = case()
    with pytest.raises(ValueError, match=r"shape \(480,\)"):
        BlockDiagonal(U.partition, U.ranks, np.zeros(479))
    with pytest.raises(ValueError, match="contiguous"):
        BlockDiagonal(U.partition, U.ranks, np.zeros(960)[::2])


def test_pickles_hold_no_copies():
    U, dense, _ = case()
    before = len(pickle.dumps(U))
    U.project(np.ones((160, 1)))
    assert len(pickle.dumps(U)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(U)).expand(np.eye(9)), dense)


def test_row_pieces_cover_all_rows_in_order():
    U, _, blocks = case()
    for floats in (1, 7, 10**6):
        pieces = list(U.row_pieces(floats))
        assert [row for _, rows, _ in pieces for row in range(rows.start, rows.stop)] == list(range(160))
        assert all(values.size <= max(floats, values.shape[1]) for _, _, values in pieces)
        np.testing.assert_array_equal(np.concatenate([v.ravel() for _, _, v in pieces]), U.values)


# --- products --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["one piece", "small tiles", "small pieces", "groups of pieces"])
def division(request, monkeypatch):
    """How the work is divided."""
    if request.param != "one piece":
        monkeypatch.setattr(module, "_VECTOR_TILE", 100)
        monkeypatch.setattr(module, "_MATRIX_TILE", 50)
    if request.param in ("small pieces", "groups of pieces"):
        monkeypatch.setattr(module, "_PIECE", 130)
        monkeypatch.setattr(module, "_PERMUTED", 50)
        monkeypatch.setattr(module, "_MIN_GROUP", 1 if request.param == "small pieces" else 300)
        monkeypatch.setattr(module, "_THREADED", 0)


@pytest.mark.usefixtures("division")
@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("width", [0, 1, 4])
@pytest.mark.parametrize("ranks", [(3, 5, 1), (20, 17, 30), (40, 2, 16)])
def test_products_are_dense_ones(ranks, width, shuffled):
    U, dense, _ = case(ranks=ranks, shuffled=shuffled)
    assert U._in_order != shuffled
    rng = np.random.default_rng(1)
    V, W = rng.normal(size=(160, width)), rng.normal(size=(sum(ranks), width))
    np.testing.assert_allclose(U.project(V), dense.T @ V, atol=1e-12)
    np.testing.assert_allclose(U.expand(W), dense @ W, atol=1e-12)


@pytest.mark.usefixtures("division")
@pytest.mark.parametrize("width", [1, 3])
def test_precision_of_products(width):
    """float32 values with float64 vectors: the sums are float64."""
    U, dense, _ = case(ranks=(20, 5, 30), dtype=np.float32)
    V = np.random.default_rng(1).normal(size=(160, width))
    assert U.project(V.astype(np.float32)).dtype == np.float32
    assert U.project(V).dtype == np.float64
    np.testing.assert_allclose(U.project(V), dense.astype(np.float64).T @ V, atol=1e-12)
    W = U.project(V)
    assert U.expand(W.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(U.expand(W), dense.astype(np.float64) @ W, atol=1e-11)


@pytest.mark.usefixtures("division")
def test_empty_clusters_and_ranks():
    U, dense, _ = case(sizes=(30, 20), ranks=(4, 0))
    np.testing.assert_allclose(U.expand(np.ones((4, 2))), dense @ np.ones((4, 2)))
    parts = U.partition.regroup(np.full((7, 2), 100.0))
    empty = BlockDiagonal.empty(parts, [4, 3], np.float64)
    assert sorted(len(block) for block in empty.blocks) == [0, 7]
    empty.values[...] = 1
    projected = empty.project(np.ones((7, 1)))
    assert sorted(set(projected.ravel())) == [0, 7]


@pytest.mark.parametrize("width", [1, 5])
def test_the_same_bits_for_every_number_of_threads(width, monkeypatch):
    U, _, _ = case(sizes=(500, 3, 200), ranks=(20, 3, 16))
    monkeypatch.setattr(module, "_PIECE", 1000)
    monkeypatch.setattr(module, "_MIN_GROUP", 500)
    monkeypatch.setattr(module, "_THREADED", 0)
    V, W = np.random.default_rng(1).normal(size=(703, width)), np.random.default_rng(2).normal(size=(39, width))
    results = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(module, "cores", lambda cores=cores: cores)
        results.append((U.project(V), U.expand(W)))
    for project, expand in results[1:]:
        np.testing.assert_array_equal(project, results[0][0])
        np.testing.assert_array_equal(expand, results[0][1])


def test_no_rows_at_all():
    U, _, _ = case(sizes=(30, 20), ranks=(4, 3))
    nothing = replace(U.partition, order=np.empty(0, dtype=np.intp), starts=np.zeros(3, dtype=np.intp))
    empty = BlockDiagonal.empty(nothing, [4, 3], np.float64)
    np.testing.assert_array_equal(empty.project(np.empty((0, 2))), np.zeros((7, 2)))
    assert empty.expand(np.ones((7, 2))).shape == (0, 2)


def test_products_leave_their_argument_alone():
    U, _, _ = case()
    V = np.random.default_rng(1).normal(size=(160, 2))
    before = V.copy()
    U.expand(U.project(V))
    np.testing.assert_array_equal(V, before)
