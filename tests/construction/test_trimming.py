from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.inner_matrix import transformed_inner
from blockbasis.construction.trimming import energy_rotations, rotated_inner, trimmed_inner
from blockbasis.operators.inner import InnerMatrix


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
