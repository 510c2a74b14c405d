from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockbasis.operators import InnerMatrix
from blockbasis.operators import inner as module

RANKS = np.array([3, 1, 4, 2, 2])
OFFSETS = np.concatenate(([0], np.cumsum(RANKS)))


def blocks_mask(kept, rows, columns):
    """The dense mask of the kept blocks."""
    mask = np.zeros((rows[-1], columns[-1]), dtype=bool)
    for i, members in enumerate(kept):
        for j in members:
            mask[rows[i] : rows[i + 1], columns[j] : columns[j + 1]] = True
    return mask


def symmetric_case(pairs, seed=0):
    """A block-sparse symmetric matrix with the given off-diagonal pairs (i < j), and the same as an array."""
    M = np.random.default_rng(seed).normal(size=(OFFSETS[-1], OFFSETS[-1]))
    M = M + M.T
    kept = tuple(np.array([i] + sorted(j for a, j in pairs if a == i)) for i in range(5))
    upper = blocks_mask(kept, OFFSETS, OFFSETS)
    dense = np.where(upper | upper.T, M, 0)
    panels = tuple(
        np.concatenate([M[OFFSETS[i] : OFFSETS[i + 1], OFFSETS[j] : OFFSETS[j + 1]] for j in members], axis=1)
        for i, members in enumerate(kept)
    )
    return InnerMatrix.of_whole_blocks(OFFSETS, OFFSETS, kept, panels, symmetric=True), dense


def cross_case(kept, seed=0):
    columns = np.array([0, 2, 5, 6])
    M = np.random.default_rng(seed).normal(size=(OFFSETS[-1], 6))
    kept = tuple(np.array(members, dtype=np.intp) for members in kept)
    dense = np.where(blocks_mask(kept, OFFSETS, columns), M, 0)
    panels = tuple(
        np.concatenate(
            [np.empty((RANKS[i], 0))] + [M[OFFSETS[i] : OFFSETS[i + 1], columns[j] : columns[j + 1]] for j in members],
            axis=1,
        )
        for i, members in enumerate(kept)
    )
    return InnerMatrix.of_whole_blocks(OFFSETS, columns, kept, panels, symmetric=False), dense


PAIRS = [(i, j) for i in range(5) for j in range(i + 1, 5)]
pairs = st.sets(st.sampled_from(PAIRS)).map(sorted)
members = st.lists(st.sets(st.integers(0, 2)).map(sorted), min_size=5, max_size=5)


@given(pairs, st.integers(0, 3))
def test_symmetric_products_are_dense_ones(chosen, width):
    C, dense = symmetric_case(chosen)
    W = np.random.default_rng(1).normal(size=(12, width))
    np.testing.assert_array_equal(C.todense(), dense)
    assert C.energy == pytest.approx(np.linalg.norm(dense) ** 2)
    np.testing.assert_allclose(C @ W, dense @ W, atol=1e-13)
    np.testing.assert_allclose(C.transpose_matmul(W), dense @ W, atol=1e-13)


@given(members, st.integers(0, 3))
def test_cross_products_are_dense_ones(kept, width):
    C, dense = cross_case(kept)
    W, V = np.random.default_rng(1).normal(size=(6, width)), np.random.default_rng(2).normal(size=(12, width))
    assert C.shape == (12, 6)
    np.testing.assert_array_equal(C.todense(), dense)
    assert C.energy == pytest.approx(np.linalg.norm(dense) ** 2)
    np.testing.assert_allclose(C @ W, dense @ W, atol=1e-13)
    np.testing.assert_allclose(C.transpose_matmul(V), dense.T @ V, atol=1e-13)
    assert C.density == sum(len(row) for row in kept) / 15


@given(pairs)
def test_stored_counts_each_symmetric_pair_once(chosen):
    C, dense = symmetric_case(chosen)
    mask = dense != 0
    assert C.stored == (mask & np.tri(12, dtype=bool)).sum()
    assert C.density == (5 + 2 * len(chosen)) / 25
    assert C.nbytes == 8 * sum(panel.values.size for panel in C.panels)


def test_stored_of_a_cross_matrix_is_every_kept_entry():
    C, dense = cross_case([[0, 2], [], [1], [0, 1, 2], [2]])
    assert C.stored == np.count_nonzero(dense)


@given(pairs)
def test_blocks_one_by_one(chosen):
    C, dense = symmetric_case(chosen)
    for i in range(5):
        for j in range(5):
            expected = dense[OFFSETS[i] : OFFSETS[i + 1], OFFSETS[j] : OFFSETS[j + 1]]
            np.testing.assert_array_equal(C.block(i, j), expected)


def test_products_keep_the_dtype():
    C, _ = symmetric_case([(0, 2), (1, 4)])
    single = C.astype(np.float32)
    assert (single @ np.ones((12, 2), dtype=np.float32)).dtype == np.float32
    assert single.todense().dtype == np.float32
    assert single.nbytes == C.nbytes / 2


# --- the same numbers however the work is divided --------------------------------------------------------------------


def test_strips_and_threads_do_not_change_the_product(monkeypatch):
    C, dense = symmetric_case([(0, 2), (0, 3), (1, 4), (2, 3)])
    cross, cross_dense = cross_case([[0, 2], [], [1], [0, 1, 2], [2]])
    W, V = np.random.default_rng(1).normal(size=(12, 3)), np.random.default_rng(2).normal(size=(12, 1))
    monkeypatch.setattr(module, "_STRIP", 1)
    monkeypatch.setattr(module, "_THREADED", 0)
    results = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(module, "cores", lambda cores=cores: cores)
        fresh = InnerMatrix(C.row_offsets, C.column_offsets, C.panels, symmetric=True)
        results.append(fresh @ W)
        np.testing.assert_allclose(fresh @ W, dense @ W, atol=1e-12)
        np.testing.assert_allclose(fresh @ V, dense @ V, atol=1e-12)
        np.testing.assert_allclose(cross.transpose_matmul(W), cross_dense.T @ W, atol=1e-12)
    assert all((result == results[0]).all() for result in results)


def test_pickles_hold_no_copies():
    C, dense = symmetric_case(PAIRS)
    before = len(pickle.dumps(C))
    C @ np.ones((12, 1))
    assert len(pickle.dumps(C)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(C)).todense(), dense)


# --- the graph of the blocks -----------------------------------------------------------------------------------------


def test_components_of_the_graph():
    C, dense = symmetric_case([(0, 3), (1, 4)])
    found = C.components()
    assert [clusters.tolist() for clusters in found] == [[0, 3], [1, 4], [2]]
    for clusters in found:
        part = C.component(clusters)
        columns = np.concatenate([np.arange(OFFSETS[i], OFFSETS[i + 1]) for i in clusters])
        np.testing.assert_array_equal(part.todense(), dense[np.ix_(columns, columns)])
        for own, i in zip(part.panels, clusters, strict=True):
            assert np.shares_memory(own.values, C.panels[i].values)
    assert sum(C.component(clusters).energy for clusters in found) == pytest.approx(C.energy)


def test_a_connected_matrix_is_its_own_component():
    C, _ = symmetric_case([(i, i + 1) for i in range(4)])
    (clusters,) = C.components()
    assert C.component(clusters) is C


def test_only_symmetric_matrices_have_components():
    with pytest.raises(ValueError, match="symmetric"):
        cross_case([[0], [], [1], [2], [2]])[0].components()


@given(pairs)
def test_the_graph_has_an_edge_for_each_block(chosen):
    C, _ = symmetric_case(chosen)
    edges = C.graph().toarray()
    assert {(i, j) for i, j in zip(*np.nonzero(edges), strict=True) if i != j} == set(chosen)
    assert (np.diagonal(edges) == 1).all()
