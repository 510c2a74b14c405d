from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import ACCURATE, FAST
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.planning.costs import (
    Rates,
    Work,
    building_work,
    dense_floats,
    inner_bytes,
    kept_bytes,
    measure_rates,
    pays,
    stored_floats,
    working_bytes,
)


def test_a_dense_matrix_counts_symmetric_pairs_once():
    for n in (1, 2, 7):
        assert dense_floats(n) == len(np.triu_indices(n)[0])


def test_few_floats_are_no_matter():
    assert pays(10**5, 10) and pays(dense_floats(1000), 1000)
    assert not pays(dense_floats(1000) + 1, 1000)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("rank", [3, [2, 5, 9, 1]], ids=str)
def test_floats_and_bytes_are_those_of_a_factorization(diagonal, rank):
    X = unit_cube_mixture(300, 3, rng=0)
    for dtype in (np.float64, np.float32):
        A = bb.factorize(X, bb.Gaussian(0.5), n_clusters=4, rank=rank, diagonal=diagonal, dtype=dtype, rng=0)
        sizes = A.partition.sizes
        assert stored_floats(sizes, A.ranks, diagonal=diagonal) == A.stored
        landmarks = np.array([len(extension.points) for extension in A.extensions])
        assert kept_bytes(sizes, A.ranks, landmarks, 3, A.dtype.itemsize, A.stored) == A.nbytes


def test_floats_of_a_block_sparse_c():
    sizes, ranks = np.array([10, 20, 30]), np.array([2, 3, 4])
    own = 3 + 6 + 10
    assert stored_floats(sizes, ranks, diagonal=False, density=0.0) == 20 + 60 + 120 + own
    assert stored_floats(sizes, ranks, diagonal=True, density=0.5) == 20 + 60 + 120 + own + 13 + 60


def test_work_grows_with_points_ranks_and_blocks():
    sizes, ranks = np.full(20, 5000), np.full(20, 30)
    base = building_work(sizes, ranks, 1.0, FAST)
    assert base.pass_entries == 120 * 100_000  # four landmarks for each function
    assert base.entries >= base.pass_entries
    assert base.of_pass > base.pass_entries
    assert base.before_pass > base.entries - base.pass_entries
    for more in (
        building_work(2 * sizes, ranks, 1.0, FAST),
        building_work(sizes, 2 * ranks, 1.0, FAST),
        building_work(sizes, ranks, 1.0, ACCURATE),
    ):
        assert more.entries > base.entries and more.operations > base.operations
    assert building_work(sizes, ranks, 0.1, FAST).entries < base.entries


def test_bytes_grow_with_threads_and_with_the_copies_of_the_inner_matrix():
    sizes, ranks = np.full(20, 5000), np.full(20, 30)
    assert working_bytes(sizes, ranks, 0, FAST, 2) > working_bytes(sizes, ranks, 0, FAST, 1)
    assert working_bytes(sizes, ranks, 10**10, FAST, 2) > 10**10
    # Negative eigenvalues are removed from C of the ranks that are kept.
    assert inner_bytes(2 * ranks, ranks, 0.1) == 8 * (0.05 * 1200**2 + 2.5 * 600**2)
    assert inner_bytes(ranks, ranks, 1.0) == 8 * 2.5 * 600**2


def test_few_points_take_no_more_entries_than_there_are():
    assert building_work(np.full(10, 100), np.full(10, 60), 1.0, FAST, cached=True).entries <= dense_floats(1000)


def test_seconds_are_work_over_speed():
    rates = Rates(entry=1e-8, operation=1e-10, call=1e-5)
    work = Work(0, 10**8, 0.0, 4e9, 1000)
    assert rates.seconds(work, 1) == pytest.approx(1.0 + 1.0 + 0.01)
    assert 0.5 < rates.seconds(work, 4) / rates.seconds(work, 1) * 2 < 1.0
    measured = measure_rates(KernelMatrix(bb.Gaussian(1.0), np.random.default_rng(0).normal(size=(500, 4))))
    assert 0 < measured.operation < measured.entry < measured.call < 1e-2
