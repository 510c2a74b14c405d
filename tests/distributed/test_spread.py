"""Tasks of a factorization on the workers: the results and the counts of one process."""

from __future__ import annotations

import os

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
import blockbasis as bb  # noqa: E402
from blockbasis._utils.parallel import elsewhere, map_threads  # noqa: E402
from blockbasis.distributed import DaskKernelRidge, factorize  # noqa: E402
from blockbasis.distributed.spread import Spread  # noqa: E402
from blockbasis.kernels.evaluator import Counter  # noqa: E402
from blockbasis.streaming import ArrayRows  # noqa: E402


def stages_of(client, monkeypatch):
    """Stages that a client's workers compute from now on, with the number of their pieces."""
    from blockbasis.distributed import spread

    stages, submit = [], spread.submitted_to

    def noted(client, stage, function, places, *columns):
        stages.append((stage, len(places)))
        return submit(client, stage, function, places, *columns)

    monkeypatch.setattr(spread, "submitted_to", noted)
    return stages


def test_results_are_in_order_and_counts_are_added(client):
    counter = Counter()

    def task(i, factor):
        counter.add(i)
        return factor * i

    tasks = [(i, 10) for i in range(7)]
    with elsewhere(Spread(client)):
        assert map_threads(task, tasks, 1, "any stage", counter) == [10 * i for i in range(7)]
    assert counter.value == sum(range(7))


def test_only_tasks_with_a_counter_are_sent(client, monkeypatch):
    stages, seen = stages_of(client, monkeypatch), []
    with elsewhere(Spread(client)):
        map_threads(seen.append, [(1,), (2,)], 1, "bases")
    assert seen == [1, 2] and stages == []


def test_an_error_of_a_task_is_raised_here(client):
    def fails(i):
        raise ValueError(f"task {i}")

    with elsewhere(Spread(client)), pytest.raises(ValueError, match="task"):
        map_threads(fails, [(0,), (1,)], 1, "bases", Counter())


@pytest.mark.parametrize("goal", [{"rank": 20, "n_clusters": 6}, {"tol": 1e-2}, {"memory": 60 * 3000}])
def test_a_factorization_is_that_of_one_process(goal, client, points, monkeypatch):
    X, _ = points
    stages = stages_of(client, monkeypatch)
    expected = bb.factorize(X, bb.Gaussian(1.5), rng=0, **goal)
    assert stages == []
    with elsewhere(Spread(client)):
        found = bb.factorize(X, bb.Gaussian(1.5), rng=0, **goal)
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    np.testing.assert_allclose(found @ points[1], expected @ points[1], rtol=1e-10, atol=1e-10)
    assert found.entries == expected.entries
    if "rank" in goal:  # no dense copy of so few points, which stays here
        assert ("bases", 2) in stages and ("inner-matrix", 2) in stages


def test_workers_compute_the_bases_of_a_sample(client, points, small_sample, monkeypatch):
    stages = stages_of(client, monkeypatch)
    X = da.from_array(points[0], chunks=(1000, 2))
    factorize(X, bb.Gaussian(1.5), client, n_clusters=6, rank=20, rng=0)
    DaskKernelRidge(0.1, bandwidth=1.5, n_clusters=6, rank=20, random_state=0, client=client).fit(
        X, da.from_array(points[1], chunks=1000)
    )
    assert stages.count(("bases", 2)) == 2 and stages.count(("inner-matrix", 2)) == 2


def test_there_are_no_more_pieces_than_tasks(client, monkeypatch):
    stages = stages_of(client, monkeypatch)
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=2, processes=False, dashboard_address=":0", memory_limit=None
        ) as many,
        distributed.Client(many, set_as_default=False) as other,
        elsewhere(Spread(other)),
    ):
        assert map_threads(abs, [(-1,), (-2,), (-3,), (-4,)], 1, None, Counter()) == [1, 2, 3, 4]
        assert map_threads(abs, [(i,) for i in range(9)], 1, None, Counter()) == list(range(9))
    assert stages == [("tasks", 4), ("tasks", 6)]


def test_a_float32_matrix_and_a_function_as_kernel(client):
    X = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)

    def kernel(A, B):
        return np.exp(-((A[:, np.newaxis] - B) ** 2).sum(axis=-1))

    with elsewhere(Spread(client)):
        found = bb.factorize(X, kernel, n_clusters=5, rank=15, rng=0)
    expected = bb.factorize(X, kernel, n_clusters=5, rank=15, rng=0)
    np.testing.assert_allclose(found.todense(), expected.todense(), atol=1e-6)
    assert found.entries.bases == expected.entries.bases


@pytest.mark.slow
def test_processes_give_the_same(points, small_sample):
    X, y = points
    expected = bb.factorize(ArrayRows(X), bb.Gaussian(1.5), n_clusters=6, rank=20, rng=0)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as processes,
        distributed.Client(processes, set_as_default=False) as client,
    ):
        assert os.getpid() not in client.run(os.getpid).values()
        A = factorize(da.from_array(X, chunks=(500, 2)), bb.Gaussian(1.5), client, n_clusters=6, rank=20, rng=0)
        np.testing.assert_allclose(A @ y, expected @ y, rtol=1e-10, atol=1e-10)
