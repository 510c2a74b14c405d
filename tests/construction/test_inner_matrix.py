from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockbasis as bb
from blockbasis._utils.tiling import TILE_ENTRIES
from blockbasis.construction.inner_matrix import (
    drop_small_blocks,
    energy_rotations,
    inner_of_blocks,
    related_pairs,
    rotated_inner,
    strips,
    transformed_inner,
    trimmed_inner,
    truncated_inner,
)
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.inner import Cutoff, InnerMatrix
from blockbasis.partition import from_labels, kmeans

RANKS = np.array([3, 1, 4, 2, 2])
OFFSETS = np.concatenate(([0], np.cumsum(RANKS)))


def symmetric_case():
    """A dense symmetric matrix of 5 by 5 blocks, and the same as an array."""
    M = np.random.default_rng(0).normal(size=(OFFSETS[-1], OFFSETS[-1]))
    M = M + M.T
    panels = tuple(M[OFFSETS[i] : OFFSETS[i + 1], OFFSETS[i] :].copy() for i in range(5))
    kept = [np.arange(i, 5) for i in range(5)]
    return InnerMatrix.of_whole_blocks(OFFSETS, OFFSETS, kept, panels, symmetric=True), M


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
        assert sampled <= 1.16 * exact  # the most that 4r rows cost; here there are 8r


@pytest.mark.parametrize("method", ["sampled", "exact"])
def test_tiles_do_not_change_the_blocks(points, tiles_of, method):
    def blocks():
        return bb.factorize(points, bb.Cauchy(0.4), inner=method, n_clusters=6, rank=4, rng=0).inner.todense()

    whole = blocks()
    tiles_of(32 * 70)
    np.testing.assert_allclose(blocks(), whole, atol=1e-10)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 10**8))
def test_strips_are_consecutive_and_fit_a_tile(widths, height):
    groups = strips(widths, height)
    assert [i for group in groups for i in range(group.start, group.stop)] == list(range(len(widths)))
    for group in groups:
        total = sum(widths[group])
        assert total * height <= TILE_ENTRIES or group.stop - group.start == 1


# --- cutoff ----------------------------------------------------------------------------------------------------------


def test_nothing_is_cut_off_unless_asked_for(points):
    A = bb.factorize(points, bb.Gaussian(0.05), n_clusters=8, rank=4, rng=0)
    assert A.cutoff is None
    assert A.inner.density == 1
    assert [list(row) for row in A.inner.kept] == [list(range(i, 8)) for i in range(8)]


@pytest.mark.parametrize("diagonal", [True, False])
def test_cutoff_costs_no_more_than_its_share(radial, points, relative, diagonal):
    kernel = radial.make(0.08)
    K = kernel(points)
    settings = {"n_clusters": 8, "rank": 5, "diagonal": diagonal, "rng": 0}
    whole = bb.factorize(points, kernel, **settings)
    for cutoff in (1e-6, 1e-3, 0.05):
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


def test_far_clusters_are_cut_off_without_a_kernel_entry_between_them():
    rng = np.random.default_rng(0)
    X = np.repeat(100.0 * np.arange(4), 50)[:, np.newaxis] + rng.normal(size=(200, 2))
    labels = np.repeat(np.arange(4), 50)
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, partition=labels, cutoff=1e-6, rng=0)
    assert A.entries.inner == 4 * 50**2  # own blocks only
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
    """The bound by the distance of clusters, by which far blocks are dropped unseen."""
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


# --- pairs that a tolerance needs ------------------------------------------------------------------------------------


def separated(seed):
    """Eight clusters of 40 points in a row, each near its neighbours only, and their kernel matrix."""
    rng = np.random.default_rng(seed)
    X = np.repeat(np.arange(8.0), 40)[:, np.newaxis] * [1.0, 0.0] + 0.2 * rng.normal(size=(320, 2))
    return KernelMatrix(bb.Gaussian(0.4), X), from_labels(X, np.repeat(np.arange(8), 40))


@pytest.mark.parametrize("share", [1e-8, 1e-4])
def test_dropped_pairs_cost_little(share):
    """Samples of 200 entries miss the rare large ones, which the check then finds: see tests/planning/test_check.py."""
    for seed in range(5):
        matrix, parts = separated(seed)
        K = matrix.block(slice(0, 320), slice(0, 320))
        budget = share * float((K**2).sum())
        kept, spent = related_pairs(matrix, parts, budget, np.random.default_rng(seed).spawn(8), 1)
        energies = (K.reshape(8, 40, 8, 40) ** 2).sum(axis=(1, 3))
        assert 0 <= spent <= budget
        assert energies[~kept].max() < 1e-3 * energies[kept].max()
        assert (kept == kept.T).all() and kept.diagonal().all()
        assert not kept[0, 7]


def test_all_pairs_are_kept_without_a_budget_and_where_few_would_go():
    matrix, parts = separated(0)
    for budget in (0.0, 1e-100):
        kept, spent = related_pairs(matrix, parts, budget, np.random.default_rng(0).spawn(8), 1)
        assert kept.all() and spent == 0


def test_pairs_of_a_function_are_told_by_samples():
    matrix, parts = separated(0)
    own = KernelMatrix(bb.kernels.as_kernel(lambda A, B: bb.Gaussian(0.4).block(A, B), caller="f"), matrix.rows)
    kept, _ = related_pairs(own, parts, 1e-4, np.random.default_rng(0).spawn(8), 1)
    assert not kept[0, 7] and kept[0, 1]


# --- changes ---------------------------------------------------------------------------------------------------------


def test_truncated_blocks_are_the_leading_ones():
    C, M = symmetric_case()
    ranks = np.array([2, 1, 1, 2, 1])
    rows = np.concatenate([OFFSETS[i] + np.arange(r) for i, r in enumerate(ranks)])
    np.testing.assert_array_equal(truncated_inner(C, ranks).todense(), M[np.ix_(rows, rows)])


def test_a_change_of_bases_changes_both_sides():
    C, M = symmetric_case()
    rng = np.random.default_rng(1)
    factors = [None if i == 2 else rng.normal(size=(r, r)) for i, r in enumerate(RANKS)]
    R = np.zeros((12, 12))
    for i, factor in enumerate(factors):
        own = slice(OFFSETS[i], OFFSETS[i + 1])
        R[own, own] = np.eye(4) if factor is None else factor
    np.testing.assert_allclose(transformed_inner(C, factors).todense(), R @ M @ R.T, atol=1e-12)


def test_the_smallest_blocks_are_dropped_within_the_budget():
    C, M = symmetric_case()
    energies = {(i, j): 2 * (C.block(i, j) ** 2).sum() for i in range(5) for j in range(i + 1, 5)}
    ascending = sorted(energies, key=energies.get)
    budget = sum(energies[pair] for pair in ascending[:4]) * (1 + 1e-12)
    less, spent = drop_small_blocks(C, budget, 0.0)
    gone = {(i, j) for i, j in energies if j not in less.kept[i]}
    assert gone == set(ascending[:4])
    assert spent == pytest.approx(budget)
    assert ((M - less.todense()) ** 2).sum() == pytest.approx(spent)
    assert drop_small_blocks(C, 0.0, 0.0)[0] is C


def test_blocks_make_a_rectangular_matrix_too():
    rng = np.random.default_rng(0)
    rows = [{0: rng.normal(size=(2, 3)), 1: rng.normal(size=(2, 1))}, {1: rng.normal(size=(4, 1))}]
    C = inner_of_blocks([2, 4], rows, [3, 1])
    assert C.shape == (6, 4)
    np.testing.assert_array_equal(C.todense()[2:, :3], 0)
    np.testing.assert_array_equal(C.todense()[2:, 3:], rows[1][1])


# --- trimmed blocks --------------------------------------------------------------------------------------------------


def kernel_case(seed, n_blocks=12, width=10, reach=4):
    """A banded part of a Gaussian kernel matrix on a line: far blocks have a low numerical rank."""
    x = np.sort(np.random.default_rng(seed).random(n_blocks * width)) * n_blocks
    M = np.exp(-(np.subtract.outer(x, x) ** 2) / 4)
    edges = np.arange(n_blocks + 1) * width
    kept = [np.arange(i, min(i + reach, n_blocks)) for i in range(n_blocks)]
    rows = [slice(edges[i], edges[i + 1]) for i in range(n_blocks)]
    panels = [np.concatenate([M[rows[i], rows[j]] for j in kept[i]], axis=1) for i in range(n_blocks)]
    return InnerMatrix.of_whole_blocks(edges, edges, kept, panels, symmetric=True)


@pytest.fixture(params=range(3))
def rotated(request):
    inner = kernel_case(request.param)
    return rotated_inner(inner, energy_rotations(inner))


@pytest.mark.parametrize("seed", range(3))
def test_a_rotation_changes_the_coordinates_only(seed):
    inner = kernel_case(seed)
    rotations = energy_rotations(inner)
    V = np.zeros(inner.shape)
    for i, rotation in enumerate(rotations):
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(len(rotation)), atol=1e-12)
        V[10 * i : 10 * (i + 1), 10 * i : 10 * (i + 1)] = rotation
    np.testing.assert_allclose(rotated_inner(inner, rotations).todense(), V.T @ inner.todense() @ V, atol=1e-12)


def test_rotated_functions_are_sorted_by_what_other_clusters_see_of_them(rotated):
    dense = rotated.todense()
    for i in range(rotated.n_rows):
        own = slice(10 * i, 10 * (i + 1))
        dense[own, own] = 0
        energies = (dense[own] ** 2).sum(axis=1)
        assert (np.diff(energies) <= 1e-12).all()


@pytest.mark.parametrize("share", [1e-6, 1e-3, 3e-2])
def test_trimmed_entries_stay_within_the_budget(rotated, share):
    budget = share * rotated.energy
    trimmed = trimmed_inner(rotated, budget)
    difference = rotated.todense() - trimmed.todense()
    assert np.sum(difference**2) <= budget * (1 + 1e-9)
    assert trimmed.stored < rotated.stored
    kept = trimmed.todense() != 0
    np.testing.assert_array_equal(trimmed.todense()[kept], rotated.todense()[kept])


def test_no_budget_trims_nothing(rotated):
    assert trimmed_inner(rotated, 0.0) is rotated


def test_a_trimmed_matrix_multiplies_as_its_entries_do(rotated):
    trimmed = trimmed_inner(rotated, 1e-2 * rotated.energy)
    dense = trimmed.todense()
    W = np.random.default_rng(0).normal(size=(len(dense), 3))
    np.testing.assert_allclose(trimmed @ W, dense @ W, atol=1e-12)
    assert trimmed.energy == pytest.approx((dense**2).sum())
    for i in range(trimmed.n_rows):
        own = dense[10 * i : 10 * (i + 1)]
        np.testing.assert_array_equal(trimmed.row_panel(i), own[:, trimmed.columns_of(i)])
        for j in range(trimmed.n_rows):
            np.testing.assert_array_equal(trimmed.block(i, j), own[:, 10 * j : 10 * (j + 1)])


def test_triangular_factors_keep_the_zeros_of_trimmed_blocks(rotated):
    trimmed = trimmed_inner(rotated, 1e-2 * rotated.energy)
    rng = np.random.default_rng(0)
    factors = [None if i % 3 == 0 else np.triu(rng.normal(size=(10, 10))) for i in range(trimmed.n_rows)]
    R = np.zeros(trimmed.shape)
    for i, factor in enumerate(factors):
        R[10 * i : 10 * (i + 1), 10 * i : 10 * (i + 1)] = np.eye(10) if factor is None else factor
    found = transformed_inner(trimmed, factors)
    assert found.stored == trimmed.stored
    np.testing.assert_allclose(found.todense(), R @ trimmed.todense() @ R.T, atol=1e-10)


# --- factorizations with trimmed blocks ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def square():
    """Points in a large square: a cluster has few near neighbours, and few functions in common with them."""
    return 12 * np.random.default_rng(0).random((1_500, 2))


@pytest.fixture(scope="module")
def A(square):
    A = bb.factorize(square, bb.Gaussian(1.0), tol=1e-2, n_clusters=60, rng=0)
    assert A.inner.trimmed
    assert len(A.inner.panels) > 1.5 * A.n_clusters  # of several heights
    return A


def test_the_tolerance_is_met_with_trimmed_blocks(A, square):
    assert bb.relative_error(A, square, A.kernel).value <= 1e-2


def test_a_factorization_with_trimmed_blocks_is_semidefinite(A):
    values = np.linalg.eigvalsh(A.inner.todense())
    assert values.min() >= -1e-10 * values.max()


def test_solves_with_trimmed_blocks_are_exact(A):
    b = np.random.default_rng(1).normal(size=A.shape[0])
    x = bb.solve(A, b, ridge=1e-2).x
    np.testing.assert_allclose(A @ x + 1e-2 * x, b, atol=1e-9)
    values = np.linalg.eigvalsh(A.todense() + 1e-2 * np.eye(len(b)))
    assert bb.RidgeSystem(A, 1e-2).logdet() == pytest.approx(np.log(values).sum(), rel=1e-8)


def test_trimmed_blocks_are_saved_as_they_are(A, square, tmp_path):
    bb.save(A, tmp_path / "a.bbf")
    B = bb.load(tmp_path / "a.bbf")
    assert B.stored == A.stored
    np.testing.assert_array_equal(A.todense(), B.todense())
    np.testing.assert_array_equal(A.extend(square[:9]).todense(), B.extend(square[:9]).todense())


def test_new_points_see_trimmed_blocks(A, square):
    X_new = square[::10] + 0.05
    exact = A.kernel(X_new, square)
    assert np.linalg.norm(A.extend(X_new).todense() - exact) <= 5e-2 * np.linalg.norm(exact)
