from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
from blockbasis.distributed import client as tasks  # noqa: E402


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    """A socket that accepts connections and never says a word."""
    monkeypatch.setattr(tasks, "_ANSWER", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match=f"No dask scheduler answers at {address} within 1 seconds"):
            tasks.connect(address)
        assert time.monotonic() - begun < 10


def test_without_a_default_client_one_must_be_given():
    with pytest.raises(ValueError, match="'client' parameter of fit must be given"):
        tasks.checked_client(None, caller="fit")
    with pytest.raises(TypeError, match="must be a distributed.Client or None. Got str"):
        tasks.checked_client("tcp://", caller="fit")


def test_tasks_have_names_and_results_the_order_of_their_arguments(client):
    futures = tasks.submitted(client, "double", lambda x, y: 2 * x + y, [1, 2, 3], [0, 0, 1])
    assert tasks.gathered(client, futures) == [2, 4, 7]
    assert all(str(future.key[0]).startswith("blockbasis-double-") for future in futures)


def test_sums_are_those_of_all_parts(client):
    futures = tasks.submitted(client, "part", np.arange, list(range(1, 12)))
    lengths = tasks.submitted(client, "length", len, futures)
    assert tasks.summed(client, "sum", sum, lengths) == 66


def test_each_thread_of_a_worker_keeps_one_sum(client, monkeypatch):
    kept, sum_up = [], tasks.summed

    def noted(client, stage, add, futures):
        kept.append(len(futures))
        return sum_up(client, stage, add, futures)

    monkeypatch.setattr(tasks, "summed", noted)
    addresses = sorted(client.nthreads())
    near = [client.submit(int, i, workers=addresses[i % 2]) for i in range(24)]
    tasks.finished(client, near)
    lazy = [dask.delayed(int)(i) for i in range(25)]
    assert tasks.accumulated(client, "sum", _square, sum, near, near=near) == sum(i**2 for i in range(24))
    assert tasks.accumulated(client, "sum", _square, sum, lazy, near=lazy) == sum(i**2 for i in range(25))
    assert kept == [2, 2]
    with pytest.raises(ZeroDivisionError):
        tasks.accumulated(client, "sum", _reciprocal, sum, near, near=near)


def test_an_error_on_a_worker_is_raised_here(client):
    futures = tasks.submitted(client, "bad", _fails, [ValueError("row 7")])
    with pytest.raises(ValueError, match="row 7"):
        tasks.gathered(client, futures)
    futures = tasks.submitted(client, "bad", _fails, [MemoryError("8 GB")])
    with pytest.raises(MemoryError, match="A dask worker ran out of memory: 8 GB. The usual reason"):
        tasks.gathered(client, futures)


def test_workers_that_die_again_and_again_are_named(client):
    killed = distributed.scheduler.KilledWorker("task", SimpleNamespace(address="tcp://one"), 3)
    futures = tasks.submitted(client, "bad", _fails, [killed])
    with pytest.raises(tasks.WorkersLostError, match="died one after the other at the same task. .*smaller chunks"):
        tasks.gathered(client, futures)


def test_a_closed_client_is_named(cluster):
    with distributed.Client(cluster, set_as_default=False) as closed:
        futures = tasks.submitted(closed, "one", int, [1])
    with pytest.raises(tasks.WorkersLostError, match="The dask client is closed"):
        tasks.gathered(closed, futures)
    with pytest.raises(tasks.WorkersLostError, match="The dask client is closed"):
        tasks.checked_client(closed, caller="fit")


def test_cancelled_tasks_are_named(client):
    futures = tasks.submitted(client, "slow", time.sleep, [0.2])
    client.cancel(futures)
    with pytest.raises(tasks.WorkersLostError, match="Tasks were cancelled"):
        tasks.gathered(client, futures)


def test_a_cluster_without_workers_does_not_hang(monkeypatch):
    monkeypatch.setattr(tasks, "_PATIENCE", 0.4)
    monkeypatch.setattr(tasks, "_LOOK", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(tasks.WorkersLostError, match="No dask worker could run a task for 0.4 seconds"),
    ):
        tasks.gathered(client, tasks.submitted(client, "one", int, [1]))


def _fails(error):
    raise error


def _reciprocal(i):
    return 1 / i


def _square(i):
    return i**2
