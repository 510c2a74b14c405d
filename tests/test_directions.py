from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis import directions
from blockbasis.directions import (
    ColumnDirections,
    GramDirections,
    directions_of,
    gather,
    randomized_svd,
    triangle,
)
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import from_labels
from blockbasis.sampling import Skeleton, energy_sampling, every_column, own_columns, uniform_sampling

CLUSTER = slice(40, 100)


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def with_spectrum(rng, shape, s):
    """A matrix of the given singular values, with its singular vectors."""
    U, V = orthonormal(rng, shape[0], len(s)), orthonormal(rng, shape[1], len(s))
    return (U * s) @ V.T, U, V


@pytest.fixture
def parts(points):
    """Points in cluster order: 40, 60 and 60 of them."""
    return from_labels(points, np.digitize(np.argsort(np.argsort(points[:, 0])), [40, 100]))


@pytest.fixture
def matrix(points, parts):
    return KernelMatrix(bb.Gaussian(0.3), points[parts.order])


# --- Algorithm 4 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 120), (120, 200), (60, 600), (600, 60)])
def test_randomized_svd_is_numpys(shape):
    rng = np.random.default_rng(0)
    M, U, V = with_spectrum(rng, shape, 0.7 ** np.arange(50))
    left, s, right = randomized_svd(M, 8, rng)
    np.testing.assert_allclose(s, 0.7 ** np.arange(8), rtol=1e-8)
    np.testing.assert_allclose(left @ left.T, U[:, :8] @ U[:, :8].T, atol=1e-6)
    np.testing.assert_allclose(right.T @ right, V[:, :8] @ V[:, :8].T, atol=1e-6)
    np.testing.assert_allclose(left.T @ left, np.eye(8), atol=1e-13)
    np.testing.assert_allclose(right @ right.T, np.eye(8), atol=1e-13)


@pytest.mark.parametrize("shape", [(12, 200), (200, 12), (12, 12)])
def test_randomized_svd_of_a_thin_matrix_is_exact(shape):
    M = np.random.default_rng(0).normal(size=shape)
    left, s, right = randomized_svd(M, 5, np.random.default_rng(1))
    np.testing.assert_allclose(s, np.linalg.svd(M)[1][:5], rtol=1e-12)
    best = np.linalg.norm(np.linalg.svd(M)[1][5:])
    assert np.linalg.norm(M - (left * s) @ right) == pytest.approx(best, rel=1e-10)


def test_randomized_svd_of_low_rank_is_exact():
    M, _, _ = with_spectrum(np.random.default_rng(0), (150, 130), np.array([5.0, 2.0, 1e-3]))
    left, s, right = randomized_svd(M, 6, np.random.default_rng(1))
    np.testing.assert_allclose((left * s) @ right, M, atol=1e-13)
    np.testing.assert_allclose(s[:3], [5.0, 2.0, 1e-3], rtol=1e-10)


def test_randomized_svd_cannot_have_more_triplets_than_the_matrix():
    left, s, right = randomized_svd(np.random.default_rng(0).normal(size=(30, 4)), 9, np.random.default_rng(1))
    assert (left.shape, s.shape, right.shape) == ((30, 4), (4,), (4, 4))


def test_power_iterations_and_oversampling_help():
    """A slowly decaying spectrum, where one pass through the random range is far from the optimum."""
    s = 1 / np.sqrt(1 + np.arange(150))
    M, _, _ = with_spectrum(np.random.default_rng(0), (200, 150), s)
    best = np.linalg.norm(s[10:])

    def loss(**settings):
        errors = []
        for seed in range(5):
            left = randomized_svd(M, 10, np.random.default_rng(seed), **settings)[0]
            errors.append(np.linalg.norm(M - left @ (left.T @ M)) / best)
        return np.mean(errors)

    assert loss(iterations=0, oversampling=0) > loss(iterations=0) > loss(iterations=1) > loss() >= 1 - 1e-12
    assert loss() < 1.01


def test_randomized_svd_in_float32():
    M, _, _ = with_spectrum(np.random.default_rng(0), (150, 130), 0.5 ** np.arange(40))
    left, s, right = randomized_svd(M.astype(np.float32), 5, np.random.default_rng(1))
    assert left.dtype == s.dtype == right.dtype == np.float32
    np.testing.assert_allclose(s, 0.5 ** np.arange(5), rtol=1e-5)


# --- the columns -----------------------------------------------------------------------------------------------------


def scaled_columns(matrix, skeleton):
    return matrix.block(CLUSTER, skeleton.columns) * skeleton.scales


def test_few_columns_are_gathered_as_they_are(matrix, parts):
    skeleton = energy_sampling(matrix, CLUSTER, parts, 50, np.random.default_rng(0))
    columns = gather(matrix, CLUSTER, skeleton)
    np.testing.assert_array_equal(columns.points, skeleton.columns)
    np.testing.assert_array_equal(columns.values, scaled_columns(matrix, skeleton))


def test_many_columns_become_a_triangle_of_the_same_gram_matrix(points, monkeypatch):
    """In bounded memory: no more columns than twice the rows, and what matters of them unchanged."""
    monkeypatch.setattr(directions, "_MANY_ENTRIES", 0)
    matrix = KernelMatrix(bb.Gaussian(0.3), points)
    cluster = slice(50, 70)
    every = every_column(matrix)
    columns = gather(matrix, cluster, every)
    assert columns.values.shape == (20, 40)
    np.testing.assert_array_equal(columns.points, np.arange(50, 70))
    np.testing.assert_array_equal(columns.values[:, :20], matrix.block(cluster, cluster))
    M = matrix.block(cluster, every.columns)
    np.testing.assert_allclose(columns.values @ columns.values.T, M @ M.T, atol=1e-12)


def test_many_columns_of_a_cross_matrix(points, monkeypatch):
    monkeypatch.setattr(directions, "_MANY_ENTRIES", 0)
    matrix = KernelMatrix(bb.Gaussian(0.3), points[:30], points)
    scales = np.linspace(1, 3, 160)
    columns = gather(matrix, slice(5, 25), Skeleton(np.arange(160), scales, np.empty(0, dtype=np.intp)))
    assert columns.points.size == 0
    assert columns.values.shape == (20, 20)
    M = matrix.block(slice(5, 25), np.arange(160)) * scales
    np.testing.assert_allclose(columns.values @ columns.values.T, M @ M.T, atol=1e-11)


def test_triangle_has_the_same_gram_matrix():
    M = np.random.default_rng(0).normal(size=(50, 6))
    R = triangle(M)
    np.testing.assert_allclose(R.T @ R, M.T @ M, atol=1e-12)
    np.testing.assert_array_equal(R, np.triu(R))


# --- leading directions ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["columns", "gram"])
def make(request):
    """Either way to the directions of a skeleton's columns."""
    if request.param == "gram":
        return GramDirections
    return lambda matrix, cluster, skeleton: ColumnDirections(gather(matrix, cluster, skeleton), cluster)


def deflated(matrix, skeleton, diagonal):
    """The scaled columns less the diagonal, in plain NumPy."""
    M = matrix.block(CLUSTER, skeleton.columns)
    for position, column in enumerate(skeleton.columns):
        if CLUSTER.start <= column < CLUSTER.stop:
            M[column - CLUSTER.start, position] -= diagonal[column - CLUSTER.start]
    return M * skeleton.scales


SKELETONS = {
    "energy": lambda matrix, parts: energy_sampling(matrix, CLUSTER, parts, 70, np.random.default_rng(1)),
    "uniform": lambda matrix, parts: uniform_sampling(matrix, 30, np.random.default_rng(1)),
    "own": lambda matrix, parts: own_columns(CLUSTER),
    "every": lambda matrix, parts: every_column(matrix),
}


@pytest.mark.parametrize("skeleton", SKELETONS)
@pytest.mark.parametrize("rank", [4, 15])
def test_leading_directions_are_singular_vectors(make, matrix, parts, skeleton, rank):
    """Each time anew after another diagonal is taken out: of the columns as they were, not of what is left of them."""
    skeleton = SKELETONS[skeleton](matrix, parts)
    rng = np.random.default_rng(0)
    directions = make(matrix, CLUSTER, skeleton)
    width = rank + 10
    for diagonal in (np.zeros(60), rng.uniform(0, 0.9, size=60), rng.uniform(0, 0.2, size=60)):
        directions.deflate(diagonal)
        M = deflated(matrix, skeleton, diagonal)
        s = np.linalg.svd(M)[1]
        for _ in range(2):  # the second time from where it stood
            vectors, energies = directions.leading(width, rng)
        assert vectors.shape == (60, width)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(width), atol=1e-12)
        np.testing.assert_allclose(energies[:rank], s[:rank] ** 2, rtol=0.01)
        assert (np.diff(energies) <= 1e-12 * energies[0]).all()
        assert (energies <= s[:width] ** 2 + 1e-12 * energies[0]).all()  # a subspace never sees more than there is
        kept = vectors[:, :rank]
        lost = np.linalg.norm(M - kept @ (kept.T @ M))
        assert lost <= 1.01 * np.linalg.norm(s[rank:]) + 1e-7 * s[0]
        assert directions.energy == pytest.approx((s**2).sum(), rel=1e-10)
        own = M[:, np.isin(skeleton.columns, np.arange(40, 100))].T @ kept
        assert directions.own_energy(kept) == pytest.approx((own**2).sum(), rel=1e-9)


def test_directions_of_very_many_columns(make, points, monkeypatch):
    """Never all in memory at once, yet the same directions, with and without a diagonal taken out."""
    monkeypatch.setattr(directions, "_MANY_ENTRIES", 0)
    monkeypatch.setattr("blockbasis.matrix._TILE_ENTRIES", 20 * 33)
    matrix = KernelMatrix(bb.Gaussian(0.3), points)
    cluster = slice(50, 70)
    source = make(matrix, cluster, every_column(matrix))
    for out in (0.0, 0.4):
        source.deflate(np.full(20, out))
        M = matrix.block(cluster, slice(0, 160))
        M[np.arange(20), np.arange(50, 70)] -= out
        U, s, _ = np.linalg.svd(M)
        vectors, energies = source.leading(8, np.random.default_rng(0))
        np.testing.assert_allclose(energies, s[:8] ** 2, rtol=1e-8)
        np.testing.assert_allclose(np.abs(vectors.T @ U[:, :8]), np.eye(8), atol=1e-6)
        assert source.energy == pytest.approx((s**2).sum(), rel=1e-10)
        assert source.own_energy(vectors) == pytest.approx(((M[:, 50:70].T @ vectors) ** 2).sum(), rel=1e-8)


def test_deflation_leaves_the_columns_for_others(make, matrix, parts):
    skeleton = SKELETONS["energy"](matrix, parts)
    directions = make(matrix, CLUSTER, skeleton)
    directions.deflate(np.full(60, 0.5))
    directions.leading(5, np.random.default_rng(0))
    np.testing.assert_array_equal(directions.columns.values, scaled_columns(matrix, skeleton))


def test_directions_in_float32(make, points, parts):
    matrix = KernelMatrix(bb.Gaussian(0.3), points[parts.order].astype(np.float32))
    vectors, _ = make(matrix, CLUSTER, every_column(matrix)).leading(6, np.random.default_rng(0))
    assert vectors.dtype == np.float32


def test_a_gram_matrix_knows_what_it_cannot_see():
    assert GramDirections.resolves(np.array([1.0, 1e-3, 1e-9]))
    assert not GramDirections.resolves(np.array([1.0, 1e-3, 1e-15]))


def test_large_clusters_are_not_squared():
    """A Gram matrix of many rows costs more than the few directions asked for."""
    matrix = KernelMatrix(bb.Gaussian(1.0), np.random.default_rng(0).normal(size=(400, 2)))
    few = uniform_sampling(matrix, 50, np.random.default_rng(0))
    assert isinstance(directions_of(matrix, slice(0, 400), few, 12), ColumnDirections)
    assert isinstance(directions_of(matrix, slice(0, 40), few, 12), GramDirections)
