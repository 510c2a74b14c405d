"""Workers that are killed by the number of their process: the same result, or a clear error, and no hang."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import DaskKernelRidge, factorize  # noqa: E402
from blockbasis.distributed.client import WorkersLostError  # noqa: E402


@pytest.fixture(scope="module")
def processes():
    """A client of two workers, each a process."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def kill_one(client, after):
    """Kill one worker after some seconds, in a thread."""
    victim = sorted(client.run(os.getpid).values())[0]
    thread = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
    thread.start()
    return thread


def wait_for_two(client):
    client.wait_for_workers(2, timeout=60)
    while len(client.nthreads()) < 2:
        time.sleep(0.1)


@pytest.mark.parametrize("after", [0.1, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_worker_that_dies_changes_nothing(after, processes, points):
    X, y = points
    array = da.from_array(X, chunks=(150, 2))
    expected = bb.factorize(X, bb.Gaussian(1.5), n_clusters=6, rank=20, diagonal=False, rng=0).shape
    wait_for_two(processes)
    reference = factorize(array, bb.Gaussian(1.5), processes, n_clusters=6, rank=20, rng=0)
    product, solution = reference @ y, reference.solve(y, ridge=0.1).x
    killing = kill_one(processes, after)
    begun = time.monotonic()
    try:
        A = factorize(array, bb.Gaussian(1.5), processes, n_clusters=6, rank=20, rng=0)
        killing.join()
        assert A.shape == expected
        np.testing.assert_allclose(A @ y, product, atol=1e-9)
        np.testing.assert_allclose(A.solve(y, ridge=0.1).x, solution, atol=1e-7)
    except WorkersLostError as error:
        assert "memory" in str(error)
    assert time.monotonic() - begun < 60


def test_a_worker_that_dies_between_construction_and_solution_is_replaced(processes, points):
    X, y = points
    wait_for_two(processes)
    A = factorize(da.from_array(X, chunks=(150, 2)), bb.Gaussian(1.5), processes, n_clusters=6, rank=20, rng=0)
    expected = A.solve(y, ridge=0.1).x
    kill_one(processes, 0).join()
    np.testing.assert_allclose(A.solve(y, ridge=0.1).x, expected, atol=1e-8)
    np.testing.assert_allclose(A @ y, A.to_local() @ y, atol=1e-9)


@pytest.mark.slow
def test_a_fit_is_the_same_when_a_worker_dies(processes, points):
    X, y = points
    arrays = da.from_array(X, chunks=(150, 2)), da.from_array(y, chunks=150)
    model = DaskKernelRidge(0.1, bandwidth=1.0, n_clusters=6, rank=25, random_state=0, client=processes)
    wait_for_two(processes)
    expected = model.fit(*arrays).predict(X)
    killing = kill_one(processes, 0.1)
    np.testing.assert_allclose(model.fit(*arrays).predict(X), expected, atol=1e-8)
    killing.join()


@pytest.mark.slow
def test_a_worker_without_memory_names_the_remedy():
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="500MB", dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        X = da.random.default_rng(0).normal(size=(10_000_000, 8), chunks=(10_000_000, 8))  # 640 MB in one block
        with pytest.raises((WorkersLostError, MemoryError), match="Give the workers more memory"):
            factorize(X, bb.Gaussian(3.0), client, n_clusters=10, rank=20, rng=0)
