from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import FAST, SURVEY
from blockbasis.construction.sampled_block import evaluate_block, sample_block
from blockbasis.construction.sampling import every_column
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import from_labels, kmeans

#: Samples so few that clusters of some hundred points are sampled.
FEW = replace(FAST, rows=10, least_rows=100, whole=150, least_columns=120, negligible=1e-4)


@pytest.fixture(scope="module")
def case():
    X = unit_cube_mixture(600, 3, rng=0)
    parts = kmeans(X, 2, np.random.default_rng(0))
    return KernelMatrix(bb.Gaussian(0.5), X[parts.order]), parts


def test_all_rows_and_columns_are_the_row_submatrix(case):
    matrix, parts = case
    cluster = parts.cluster(1)
    block = evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), every_column(matrix))
    exact = matrix.block(cluster, slice(0, 600))
    np.testing.assert_array_equal(block.without(np.zeros(parts.sizes[1])), exact)
    np.testing.assert_allclose(block.column_energies, (exact**2).sum(axis=0))
    np.testing.assert_array_equal(block.own_entries, 1)
    np.testing.assert_array_equal(np.flatnonzero(block.own_columns), np.arange(cluster.start, cluster.stop))


def test_a_diagonal_is_taken_out_where_a_point_meets_itself(case):
    matrix, parts = case
    cluster = parts.cluster(0)
    block = evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), every_column(matrix))
    diagonal = np.linspace(0, 1, parts.sizes[0])
    expected = matrix.block(cluster, slice(0, 600))
    expected[:, cluster] -= np.diag(diagonal)
    np.testing.assert_allclose(block.without(diagonal), expected, atol=1e-15)


def test_samples_estimate_the_row_submatrix_times_its_transpose(case):
    """In the mean over seeds: the squared norm of the rows that were drawn, scaled to all rows."""
    matrix, parts = case
    exact = np.linalg.norm(matrix.block(parts.cluster(0), slice(0, 600))) ** 2
    blocks = [sample_block(matrix, parts, 0, 4, FEW, np.random.default_rng(seed)) for seed in range(30)]
    assert all(len(block.rows) < parts.sizes[0] and len(block.columns) < 600 for block in blocks)
    # Rows far from the centre, which are drawn more often, have less energy than others.
    assert np.mean([block.column_energies.sum() for block in blocks]) == pytest.approx(exact, rel=0.15)


def test_an_earlier_block_serves_again_where_it_is_large_enough(case):
    matrix, parts = case
    earlier = sample_block(matrix, parts, 0, 8, FEW, np.random.default_rng(0))
    assert sample_block(matrix, parts, 0, 8, FEW, np.random.default_rng(1), earlier) is earlier
    assert sample_block(matrix, parts, 0, 24, FEW, np.random.default_rng(1), earlier) is not earlier


def test_columns_are_many_where_points_are_lonely():
    X = np.random.default_rng(0).normal(size=(6000, 6))
    parts = from_labels(X, np.arange(6000) // 3000)
    lonely, social = (
        sample_block(KernelMatrix(bb.Gaussian(h), X), parts, 0, 4, SURVEY, np.random.default_rng(0)) for h in (0.1, 3.0)
    )
    assert len(social.columns) < 400 < 1200 < len(lonely.columns) < 1800  # a quarter of all


def test_own_columns_are_among_the_rows(case):
    """So that the diagonal part of each is known from its row."""
    matrix, parts = case
    for seed in range(5):
        block = sample_block(matrix, parts, 1, 4, FEW, np.random.default_rng(seed))
        assert np.isin(block.columns[block.own_columns], block.rows).all()
        B = block.without(block.own_entries)
        np.testing.assert_allclose(B[block.coincident], 0, atol=1e-12)
