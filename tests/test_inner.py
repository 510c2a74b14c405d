from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockbasis as bb
from blockbasis import inner
from blockbasis.definite import nearest_semidefinite
from blockbasis.inner import Cutoff, InnerMatrix
from blockbasis.matrix import _TILE_ENTRIES
from blockbasis.partition import kmeans

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
    return InnerMatrix(OFFSETS, OFFSETS, kept, panels, symmetric=True), dense


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
    return InnerMatrix(OFFSETS, columns, kept, panels, symmetric=False), dense


PAIRS = [(i, j) for i in range(5) for j in range(i + 1, 5)]
pairs = st.sets(st.sampled_from(PAIRS)).map(sorted)
members = st.lists(st.sets(st.integers(0, 2)).map(sorted), min_size=5, max_size=5)


# --- the matrix ------------------------------------------------------------------------------------------------------


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
    assert C.nbytes == 8 * sum(panel.size for panel in C.panels)


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
    single = InnerMatrix(C.row_offsets, C.column_offsets, C.kept, tuple(p.astype(np.float32) for p in C.panels), True)
    assert (single @ np.ones((12, 2), dtype=np.float32)).dtype == np.float32
    assert single.todense().dtype == np.float32
    assert single.nbytes == C.nbytes / 2


# --- definiteness ----------------------------------------------------------------------------------------------------


def test_definite_matrix_is_left_alone():
    C, dense = symmetric_case(PAIRS)
    shifted = InnerMatrix(
        OFFSETS,
        OFFSETS,
        C.kept,
        tuple(np.concatenate((p[:, : len(p)] + 20 * np.eye(len(p)), p[:, len(p) :]), axis=1) for p in C.panels),
        True,
    )
    assert np.linalg.eigvalsh(dense).min() > -20
    assert nearest_semidefinite(shifted) is shifted


def test_negative_eigenvalues_are_removed_and_nothing_else():
    C, dense = symmetric_case(PAIRS)
    values, vectors = np.linalg.eigh(dense)
    assert values[0] < -1
    nearest = nearest_semidefinite(C)
    np.testing.assert_allclose(nearest.todense(), (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-12)
    assert nearest.stored == C.stored


def test_negative_eigenvalues_within_the_rounding_of_float32_stay():
    C, dense = symmetric_case(PAIRS)
    lift = -np.linalg.eigvalsh(dense).min()
    almost = InnerMatrix(
        OFFSETS,
        OFFSETS,
        C.kept,
        tuple(
            np.concatenate((p[:, : len(p)] + (lift - 1e-8) * np.eye(len(p)), p[:, len(p) :]), axis=1) for p in C.panels
        ),
        True,
    )
    assert nearest_semidefinite(almost, np.float32) is almost
    assert nearest_semidefinite(almost) is not almost


def test_semidefinite_matrix_may_be_singular():
    v = np.arange(1.0, 13.0)
    panels = tuple(np.outer(v[OFFSETS[i] : OFFSETS[i + 1]], v[OFFSETS[i] :]) for i in range(5))
    C = InnerMatrix(OFFSETS, OFFSETS, tuple(np.arange(i, 5) for i in range(5)), panels, True)
    np.testing.assert_allclose(nearest_semidefinite(C).todense(), np.outer(v, v), atol=1e-10)


# --- computed blocks -------------------------------------------------------------------------------------------------


def coordinates(A, K):
    """Uᵀ K U of an operator, in plain NumPy."""
    return A.basis.project(A.basis.project(K).T).T


def test_exact_inner_matrix_is_the_projection(points):
    kernel = bb.Gaussian(0.4)
    A = bb.factorize(points, kernel, n_clusters=4, rank=6, inner="exact", diagonal=False, rng=0)
    np.testing.assert_allclose(A.inner.todense(), coordinates(A, kernel(points)), atol=1e-11)


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_sampled_inner_matrix_of_low_rank_is_exact(points, algorithm):
    """Proposition 3.2: where K = U C Uᵀ holds, any rows that determine coordinates give C."""

    def linear(X, Y):
        return X @ Y.T

    A = bb.factorize(points, linear, n_clusters=4, rank=3, algorithm=algorithm, rng=0)
    np.testing.assert_allclose(A.inner.todense(), coordinates(A, linear(points, points)), atol=1e-10)


def test_sampled_inner_matrix_is_near_the_exact_one(points, relative):
    kernel = bb.Gaussian(0.4)
    K = kernel(points)
    for seed in range(3):
        sampled, exact = (
            relative(bb.factorize(points, kernel, n_clusters=3, rank=5, inner=method, diagonal=False, rng=seed), K)
            for method in ("sampled", "exact")
        )
        assert sampled <= 1.16 * exact  # design.md 4.3 at 4r rows; here there are 8r


def test_tiles_do_not_change_the_blocks(points, monkeypatch):
    settings = {"n_clusters": 6, "rank": 4, "rng": 0}
    for method in ("sampled", "exact"):
        whole = bb.factorize(points, bb.Cauchy(0.4), inner=method, **settings).inner.todense()
        with monkeypatch.context() as patch:
            patch.setattr("blockbasis.matrix._TILE_ENTRIES", 32 * 70)
            tiled = bb.factorize(points, bb.Cauchy(0.4), inner=method, **settings).inner.todense()
        np.testing.assert_allclose(tiled, whole, atol=1e-10)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 10**8))
def test_groups_are_consecutive_and_fit_a_tile(widths, height):
    groups = inner.groups(widths, height)
    assert [i for group in groups for i in range(group.start, group.stop)] == list(range(len(widths)))
    for group in groups:
        total = sum(widths[group])
        assert total * height <= _TILE_ENTRIES or group.stop - group.start == 1


# --- cutoff ----------------------------------------------------------------------------------------------------------


def test_nothing_is_cut_off_unless_asked_for(points):
    A = bb.factorize(points, bb.Gaussian(0.05), n_clusters=8, rank=4, rng=0)
    assert A.cutoff is None
    assert A.inner.density == 1
    assert [list(row) for row in A.inner.kept] == [list(range(i, 8)) for i in range(8)]


@pytest.mark.parametrize("cutoff", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("diagonal", [True, False])
def test_cutoff_costs_no_more_than_its_share(radial, points, relative, cutoff, diagonal):
    kernel = radial.make(0.08)
    K = kernel(points)
    settings = {"n_clusters": 8, "rank": 5, "diagonal": diagonal, "rng": 0}
    whole = bb.factorize(points, kernel, **settings)
    cut = bb.factorize(points, kernel, cutoff=cutoff, **settings)
    assert relative(cut, K) <= relative(whole, K) + cutoff
    assert cut.cutoff.error <= cutoff
    assert cut.cutoff.dropped == pytest.approx(1 - cut.inner.density)
    assert cut.stored <= whole.stored
    for i, row in enumerate(cut.inner.kept):  # own blocks are never cut off
        assert row[0] == i


def test_cutoff_says_by_how_much_definiteness_can_suffer(points):
    kernel = bb.Gaussian(0.1)
    norm = np.linalg.norm(kernel(points))
    for cutoff in (1e-3, 0.05, 0.3):
        A = bb.factorize(points, kernel, n_clusters=8, rank=5, cutoff=cutoff, rng=0)
        assert 0 < A.cutoff.dropped < 1
        values = np.linalg.eigvalsh(A.todense())
        assert values[0] >= -A.cutoff.error * norm - 1e-10 * values[-1]


def test_a_larger_cutoff_keeps_fewer_blocks(points):
    kept = [
        bb.factorize(points, bb.Gaussian(0.1), n_clusters=10, rank=4, cutoff=cutoff, rng=0).inner.density
        for cutoff in (1e-9, 1e-4, 1e-2, 0.2)
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


def test_far_clusters_are_cut_off_without_a_kernel_entry():
    rng = np.random.default_rng(0)
    X = np.repeat(100.0 * np.arange(4), 50)[:, np.newaxis] + rng.normal(size=(200, 2))
    labels = np.repeat(np.arange(4), 50)
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, partition=labels, cutoff=1e-6, rng=0)
    assert A.entries.inner == 0
    assert A.cutoff.dropped == 0.75
    assert A.inner.density == 0.25
    assert A.stored == 200 * 10 + 4 * 55 + 200


def test_blocks_of_a_callable_are_cut_off_by_their_norm():
    rng = np.random.default_rng(0)
    X = np.repeat(100.0 * np.arange(4), 50)[:, np.newaxis] + rng.normal(size=(200, 2))

    def own(A, B):
        return bb.Gaussian(1.0).block(A, B)

    A = bb.factorize(X, own, n_clusters=4, rank=10, partition=np.repeat(np.arange(4), 50), cutoff=1e-6, rng=0)
    assert A.cutoff.dropped == 0.75
    assert A.entries.inner > 0


def test_centres_and_radii_bound_every_entry_of_a_block(radial, points):
    """The bound of design.md 4.5, by which far blocks are dropped unseen."""
    parts = kmeans(points, 9, np.random.default_rng(0))
    kernel = radial.make(0.1)
    K = radial.matrix(points, points, 0.1)
    for i in range(9):
        for j in range(i):
            block = K[np.ix_(parts.order[parts.cluster(i)], parts.order[parts.cluster(j)])]
            gap = np.linalg.norm(parts.centers[i] - parts.centers[j]) - parts.radii[i] - parts.radii[j]
            assert block.max() <= kernel.profile(np.array([max(gap, 0.0) ** 2]))[0] + 1e-15


def test_cutoff_of_one_cluster(points):
    A = bb.factorize(points, bb.Gaussian(0.1), n_clusters=1, rank=5, cutoff=0.1, rng=0)
    assert A.cutoff == Cutoff(0.0, 0.0)
