from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import clra, svd


def test_exact_at_full_rank(radial, points, relative):
    K = radial.matrix(points, points, 0.4)
    assert relative(clra(points, radial.make(0.4), rank=160, n_clusters=4, rng=0), K) < 1e-9


def test_one_cluster_is_the_svd(points, relative):
    kernel = bb.Gaussian(0.3)
    one = clra(points, kernel, rank=15, n_clusters=1, rng=0)
    assert relative(one, svd(points, kernel, rank=15).todense()) < 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_best_diagonal_blocks_and_the_projection_of_the_rest(points, seed):
    kernel = bb.Gaussian(0.3)
    A = clra(points, kernel, rank=6, n_clusters=4, rng=seed)
    partition = A.basis.partition
    K = kernel(points)[np.ix_(partition.order, partition.order)]
    dense = A.todense()[np.ix_(partition.order, partition.order)]
    projectors = []
    for cluster in partition.clusters:
        vectors = np.linalg.eigh(K[cluster, cluster])[1][:, -6:]
        projectors.append(vectors @ vectors.T)
    for i, P in zip(partition.clusters, projectors, strict=True):
        for j, Q in zip(partition.clusters, projectors, strict=True):
            np.testing.assert_allclose(dense[i, j], P @ K[i, j] @ Q, atol=1e-7)


def test_what_is_stored(points):
    A = clra(points, bb.Gaussian(0.3), rank=5, n_clusters=4, rng=0)
    assert A.n_clusters == 4
    assert A.stored == 160 * 5 + 20 * 21 // 2
    assert clra(points, bb.Gaussian(0.3), rank=5, rng=0).n_clusters == 10


def test_the_largest_rank_within_the_budget(points):
    A = clra(points, bb.Gaussian(0.3), memory=160 * 12, n_clusters=4, rng=0)
    rank = A.basis.ranks.max()
    assert A.stored <= 160 * 12 < clra(points, bb.Gaussian(0.3), rank=int(rank) + 1, n_clusters=4, rng=0).stored
