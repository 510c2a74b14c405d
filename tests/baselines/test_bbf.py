from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.baselines import bbf, bbf_paper

KERNEL = bb.Gaussian(0.4)


def test_it_is_factorize(points):
    A = bb.factorize(points, KERNEL, memory=160 * 20, rng=0)
    np.testing.assert_array_equal(bbf(points, KERNEL, memory=160 * 20, rng=0).todense(), A.todense())
    A = bb.factorize(points, KERNEL, rank=5, n_clusters=4, rng=0)
    same = bbf(points, KERNEL, rank=5, n_clusters=4, rng=0)
    np.testing.assert_array_equal(same.todense(), A.todense())
    assert same.stored == A.stored
    assert same.n_clusters == 4


def test_the_papers_algorithm_has_no_diagonal_part(points):
    A = bbf_paper(points, KERNEL, rank=6, n_clusters=4, rng=0)
    assert A.factorization.diagonal_part is None
    assert A.factorization.ranks.max() == 6
    assert A.n_clusters == 4
    assert bbf_paper(points, KERNEL, rank=6, rng=0).n_clusters == 3  # sqrt(n) / 4


@pytest.mark.parametrize("algorithm", [bbf, bbf_paper])
def test_exact_at_full_rank(points, algorithm, relative):
    assert relative(algorithm(points, KERNEL, rank=160, n_clusters=4, rng=0), KERNEL(points)) < 1e-10


@pytest.mark.parametrize("floats", [6, 15, 40])
def test_a_budget_is_the_smallest_tolerance_of_the_papers_rule(many_points, floats):
    A = bbf_paper(many_points, KERNEL, memory=600 * floats, n_clusters=5, rng=0).factorization
    sizes = A.partition.sizes
    K = KERNEL(many_points)[np.ix_(A.partition.order, A.partition.order)]
    spectra = [np.linalg.svd(K[i, i], compute_uv=False) ** 2 for i in A.partition.clusters]

    left = [np.append(np.cumsum(s[::-1])[::-1], 0) / s.sum() for s in spectra]

    def ranks(tol):
        allowed = (sizes / 600 * tol) ** 2
        return np.array([max(1, np.argmax(tails < share)) for tails, share in zip(left, allowed, strict=True)])

    def stored(tol):
        found = ranks(tol)
        return sizes @ found + found.sum() * (found.sum() + 1) // 2

    smallest = next(tol for tol in np.geomspace(1e-3, 20, 4000) if stored(tol) <= 600 * floats)
    assert A.stored <= 600 * floats
    np.testing.assert_array_equal(A.ranks, ranks(smallest))
