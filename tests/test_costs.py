from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis import costs
from blockbasis.datasets import unit_cube_mixture
from blockbasis.matrix import KernelMatrix


@pytest.fixture(scope="module")
def X():
    return unit_cube_mixture(600, 3, rng=0)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stored_and_kept_are_those_of_the_factorization(X, diagonal, dtype):
    ranks = np.array([3, 10, 25, 7])
    A = bb.factorize(X, bb.Gaussian(0.3), n_clusters=4, rank=ranks, diagonal=diagonal, dtype=dtype, rng=0)
    sizes, itemsize = A.partition.sizes, np.dtype(dtype).itemsize
    assert costs.stored_floats(sizes, A.ranks, diagonal=diagonal) == A.stored
    kept = costs.kept_bytes(sizes, A.ranks, A.ranks, 3, itemsize, diagonal=diagonal)
    assert kept == pytest.approx(A.nbytes, rel=0.02)


@pytest.mark.parametrize("inner", ["sampled", "exact"])
def test_entries_are_those_evaluated(inner):
    X = unit_cube_mixture(3000, 3, rng=0)
    for seed in range(3):
        plan = bb.plan(X, bb.Gaussian(0.3), tol=0.05, inner=inner, rng=seed)
        A = bb.factorize(X, bb.Gaussian(0.3), plan=plan, rng=seed)
        assert plan.entries == pytest.approx(A.entries.total, rel=0.3)


def test_work_takes_more_than_what_is_kept_and_grows_with_threads():
    sizes, ranks = np.full(10, 5000), np.full(10, 20)
    kept = costs.kept_bytes(sizes, ranks, ranks, 3, 8, diagonal=True)
    one, eight = (costs.working_bytes(sizes, ranks, 3, 8, threads) for threads in (1, 8))
    assert kept < one < eight


def test_what_pays():
    assert costs.pays(costs.dense_floats(1000), 1000)
    assert not costs.pays(costs.dense_floats(1000) + 1, 1000)
    assert costs.pays(10**5, 3)


def test_seconds_fall_with_threads_and_grow_with_ranks(X):
    sizes = np.full(8, 1000)
    rates = costs.measure_rates(KernelMatrix(bb.Gaussian(0.3), X))
    assert rates.entry > 0
    assert rates.product > 0

    def seconds(rank, threads):
        return costs.building_seconds(sizes, np.full(8, rank), rates, np.ones(8), threads)

    assert seconds(10, 1) > seconds(10, 4) > 8 / 4
    assert seconds(100, 1) > seconds(10, 1) > 8
