from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.cluster_basis import (
    basis_of_sketch,
    decay_rate,
    identity_basis,
    max_rank,
    rank_of_gain,
    sketch_block,
    sketched_basis,
)
from blockbasis.construction.method import ACCURATE, FAST, SURVEY
from blockbasis.construction.sampling import evaluate_block, every_column, sample_block
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import from_labels, kmeans

#: Samples so few that clusters of some hundred points are sampled.
FEW = replace(FAST, rows=10, min_rows=100, all_rows_size=150, min_columns=120, negligible=1e-4)


def with_diagonal(sizes, diagonal):
    return sizes if diagonal else replace(sizes, diagonal_rounds=0)


def case(seed, n=600, h=0.5, k=3):
    X = unit_cube_mixture(n, 3, rng=seed)
    parts = kmeans(X, k, np.random.default_rng(seed))
    return KernelMatrix(bb.Gaussian(h), X[parts.order]), parts


def left_over(matrix, cluster, Q):
    """Squared error of the whole matrix that a cluster leaves when it keeps Q: rows and columns, its own block once."""
    M = matrix.block(cluster, slice(0, matrix.shape[0]))
    E = M - Q @ (Q.T @ M)
    own = M[:, cluster]
    return 2 * (E**2).sum() - ((own - Q @ (Q.T @ own)) ** 2).sum()


# --- what a basis is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("sizes", [FEW, ACCURATE, FAST], ids=["few", "accurate", "fast"])
@pytest.mark.parametrize("h", [0.1, 1.0])
def test_values_are_orthonormal_on_the_sampled_rows(sizes, diagonal, h):
    """Scaled as for the whole cluster. Cholesky squares the condition of the fit, which is near one."""
    for seed in range(3):
        matrix, parts = case(seed, h=h)
        basis = sketched_basis(matrix, parts, 0, 8, with_diagonal(sizes, diagonal), np.random.default_rng(seed))
        values = basis.values * basis.scale
        np.testing.assert_allclose(values.T @ values, np.eye(basis.rank), atol=1e-9)
        assert basis.rank == 8 and basis.size == parts.sizes[0]


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("h", [0.05, 0.5])
def test_evaluation_gives_the_values_again(diagonal, h):
    for seed in range(3):
        matrix, parts = case(seed, h=h)
        basis = sketched_basis(matrix, parts, 1, 6, with_diagonal(FEW, diagonal), np.random.default_rng(seed))
        assert len(basis.rows) < basis.size
        again = basis.evaluate(matrix, basis.rows)
        np.testing.assert_allclose(again, basis.values, atol=1e-9 * np.abs(basis.coefficients).max())


def test_a_landmark_does_not_steer_its_own_function():
    """What its entry with itself has beyond the entries around it is taken out: all of it where it sees no other."""
    for seed in range(5):
        matrix, parts = case(seed, h=0.05)
        basis = sketched_basis(matrix, parts, 0, 6, FEW, np.random.default_rng(seed))
        D = basis.landmark_diagonal
        own = basis.landmarks < parts.starts[1]
        assert D.min() >= 0 and 0.5 < D.max() <= 1 and (D[~own] == 0).all()
        plain = matrix.block(basis.landmarks, basis.landmarks) @ basis.coefficients
        spikes = D[:, np.newaxis] * basis.coefficients
        np.testing.assert_allclose(
            basis.evaluate(matrix, basis.landmarks), plain - spikes, atol=1e-9 * np.abs(plain).max()
        )
        without = sketched_basis(matrix, parts, 0, 6, with_diagonal(FEW, False), np.random.default_rng(seed))
        assert (without.landmark_diagonal == 0).all()


def test_truncation_keeps_the_leading_functions():
    matrix, parts = case(0)
    basis = sketched_basis(matrix, parts, 0, 8, FEW, np.random.default_rng(0))
    small = basis.truncated(3)
    assert small.rank == 3 and len(small.residuals) == 4
    points = parts.cluster(0)
    np.testing.assert_allclose(small.evaluate(matrix, points), basis.evaluate(matrix, points)[:, :3], atol=1e-12)
    assert basis.truncated(8) is basis.truncated(99) is basis


# --- how good it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.3, 1.0])
def test_sampled_rows_are_nearly_as_good_as_all_rows_and_the_best(h):
    """Squared errors over those of the best vectors of the rows, by the means of five seeds.

    With 40 columns for each unit of rank the error is 1.00 to 1.07 times the least, its square up to 1.15 times.

    The cluster's own block counts once, the others twice, so that the best vectors of all rows are not quite the best.
    """
    sampled, whole = [], []
    for seed in range(5):
        matrix, parts = case(seed, n=1200, h=h, k=2)
        cluster = parts.cluster(0)
        best = np.linalg.svd(matrix.block(cluster, slice(0, 1200)), full_matrices=False)[0][:, :10]
        least = left_over(matrix, cluster, best)
        for sizes, found in ((FEW, sampled), (ACCURATE, whole)):
            basis = sketched_basis(matrix, parts, 0, 10, with_diagonal(sizes, False), np.random.default_rng(seed))
            Q = np.linalg.qr(basis.evaluate(matrix, cluster))[0]
            found.append(left_over(matrix, cluster, Q) / least)
    assert np.mean(whole) < 1.15
    assert np.mean(sampled) < 1.5
    assert min(sampled + whole) > 0.99


@pytest.mark.parametrize("h", [0.1, 0.5])
def test_residuals_fall_to_what_the_basis_leaves(h):
    """From all rows and columns the profile is that of the singular vectors, which the fit comes near."""
    for seed in range(3):
        matrix, parts = case(seed, h=h)
        cluster = parts.cluster(0)
        block = evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), every_column(matrix))
        sketch = sketch_block(matrix, block, 12, with_diagonal(FAST, False), np.random.default_rng(seed))
        basis = basis_of_sketch(sketch, 12, FAST, np.random.default_rng(seed), singular_vectors=True)
        assert (np.diff(basis.residuals) <= 1e-9 * basis.residuals[0]).all()
        whole = matrix.block(cluster, slice(0, matrix.shape[0]))
        energy = (whole**2).sum()
        assert basis.residuals[0] == pytest.approx(2 * energy - (whole[:, cluster] ** 2).sum())
        for rank in (1, 6, 12):
            truth = left_over(matrix, cluster, basis.vectors[:, :rank])
            # Residuals are differences of the norm: rounding is that of the norm.
            assert basis.residuals[rank] == pytest.approx(truth, rel=0.02, abs=1e-9 * energy)


def test_residuals_of_samples_are_near_the_truth():
    """Sampled columns are fitted to, so that the profile is too low; by less than a third at 20 columns a function."""
    ratios = []
    for seed in range(8):
        matrix, parts = case(seed, n=1200, h=0.5, k=2)
        basis = sketched_basis(matrix, parts, 0, 8, with_diagonal(FEW, False), np.random.default_rng(seed))
        Q = np.linalg.qr(basis.evaluate(matrix, parts.cluster(0)))[0]
        ratios.append(basis.residuals[-1] / left_over(matrix, parts.cluster(0), Q))
    assert 0.4 < np.exp(np.mean(np.log(ratios))) < 1.2


def test_singular_vectors_of_all_rows_are_the_basis():
    matrix, parts = case(0)
    cluster = parts.cluster(1)
    block = evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), every_column(matrix))
    sketch = sketch_block(matrix, block, 5, with_diagonal(ACCURATE, False), np.random.default_rng(0))
    basis = basis_of_sketch(sketch, 5, ACCURATE, np.random.default_rng(0), singular_vectors=True)
    exact = np.linalg.svd(matrix.block(cluster, slice(0, 600)))[0][:, :5]
    assert np.linalg.svd(basis.vectors.T @ exact, compute_uv=False).min() > 1 - 1e-3  # one power iteration
    assert basis.vectors is basis.values


def test_a_whole_cluster_is_exact():
    for seed in range(3):
        matrix, parts = case(seed, n=60, h=0.3)
        basis = identity_basis(matrix, parts, 0, np.random.default_rng(seed))
        size = parts.sizes[0]
        np.testing.assert_array_equal(basis.vectors, np.eye(size))
        assert basis.rank == size and basis.residuals[-1] == 0
        assert np.isin(basis.rows, basis.landmarks).all()
        # The continuation interpolates: K(X_i, S) T = I, to the conditioning of K.
        np.testing.assert_allclose(basis.evaluate(matrix, basis.rows), np.eye(size), atol=1e-3)


@pytest.mark.parametrize("h", [0.3, 3.0])
def test_a_single_whole_cluster_is_extended_by_the_pseudo_inverse(h):
    matrix, parts = case(0, n=150, k=1, h=h)
    basis = identity_basis(matrix, parts, 0, np.random.default_rng(0))
    K = matrix.block(slice(0, 150), slice(0, 150))
    np.testing.assert_array_equal(basis.landmarks, np.arange(150))
    np.testing.assert_allclose(basis.evaluate(matrix, basis.rows) @ K, K, atol=1e-8 * np.linalg.norm(K, 2))


# --- ranks that follow from gains ------------------------------------------------------------------------------------


@pytest.mark.parametrize("guess", [2, 10, 40])
def test_a_basis_has_the_functions_that_gain_enough(guess):
    """Whatever the guess, no function with a larger gain is missing, and the rank is the same within a few."""
    ranks = []
    for seed in range(4):
        matrix, parts = case(seed, n=1500, h=0.5)
        rng = np.random.default_rng(seed)
        whole = sketched_basis(matrix, parts, 0, 60, with_diagonal(FAST, False), rng)
        least = float(-np.diff(whole.residuals)[20])
        basis = sketched_basis(matrix, parts, 0, guess, with_diagonal(FAST, False), rng, least_gain=least)
        assert basis.rank >= 18
        assert len(basis.residuals) == basis.rank + 1
        ranks.append(basis.rank)
    assert np.mean(ranks) < 30


def test_a_cluster_whose_functions_all_gain_is_kept_whole():
    matrix, parts = case(0, n=90, h=0.05)
    basis = sketched_basis(matrix, parts, 0, 3, with_diagonal(FEW, False), np.random.default_rng(0), least_gain=1e-12)
    assert basis.rank == basis.size > max_rank(basis.size)


def test_rank_of_gain_counts_gains_made_non_increasing():
    residuals = np.array([20.0, 10.0, 9.0, 5.0, 4.5, 4.4])
    assert rank_of_gain(residuals, 2.0) == 3  # the gains 1 and 4 are both 2.5
    assert rank_of_gain(residuals, 0.2) == 4
    assert rank_of_gain(residuals, 100.0) == 1


def test_the_decay_rate_is_that_of_an_exponential():
    assert decay_rate(np.exp(-0.3 * np.arange(21))) == pytest.approx(0.3)
    assert decay_rate(np.ones(5)) > 0


# --- points unlike each other ----------------------------------------------------------------------------------------


def finite(basis):
    return all(np.isfinite(each).all() for each in (basis.coefficients, basis.values, basis.residuals, basis.diagonal))


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("sizes", [FEW, SURVEY, FAST], ids=["few", "survey", "fast"])
def test_isolated_points_give_finite_results(sizes, diagonal):
    """Every point sees itself only: any function serves, and D holds everything."""
    X = 100.0 * np.random.default_rng(0).normal(size=(500, 3))
    parts = from_labels(X, np.arange(500) // 250)
    matrix = KernelMatrix(bb.Gaussian(1e-3), X)
    for seed in range(3):
        basis = sketched_basis(matrix, parts, 0, 5, with_diagonal(sizes, diagonal), np.random.default_rng(seed))
        assert finite(basis)
        assert np.isfinite(basis.evaluate(matrix, parts.cluster(0))).all()
        assert (basis.diagonal == 1).all() or not diagonal


@pytest.mark.parametrize("diagonal", [True, False])
def test_duplicate_points_give_finite_results(diagonal):
    """Seven places: no more than seven functions above rounding."""
    X = np.repeat(np.random.default_rng(0).normal(size=(7, 2)), 60, axis=0)
    parts = from_labels(X, np.arange(420) // 210)
    matrix = KernelMatrix(bb.Gaussian(1.0), X)
    for seed in range(3):
        basis = sketched_basis(matrix, parts, 0, 20, with_diagonal(FEW, diagonal), np.random.default_rng(seed))
        assert finite(basis)
        assert basis.rank <= 7
        Q = np.linalg.qr(basis.evaluate(matrix, parts.cluster(0)))[0]
        assert left_over(matrix, parts.cluster(0), Q) < 1e-6


def test_more_columns_are_sampled_for_isolated_points():
    X = np.random.default_rng(0).normal(size=(6000, 6))
    parts = from_labels(X, np.arange(6000) // 3000)
    isolated, smooth = (
        sample_block(KernelMatrix(bb.Gaussian(h), X), parts, 0, 4, SURVEY, np.random.default_rng(0)) for h in (0.1, 3.0)
    )
    assert len(smooth.columns) < 400 < 1200 < len(isolated.columns) < 1800  # a quarter of all


def test_own_columns_are_among_the_rows():
    """So that the diagonal part of each is known from its row."""
    for seed in range(5):
        matrix, parts = case(seed)
        block = sample_block(matrix, parts, 1, 4, FEW, np.random.default_rng(seed))
        assert np.isin(block.columns[block.own_columns], block.rows).all()
        B = block.minus_diagonal(block.kernel_diagonal)
        np.testing.assert_allclose(B[block.coincident], 0, atol=1e-12)
