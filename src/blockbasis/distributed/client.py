"""Tasks on the workers of a dask client: names for the dashboard, waiting without hanging, and errors with a remedy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

try:
    import dask
    import distributed
    from distributed.scheduler import KilledWorker
except ImportError as missing:
    raise ImportError("Computations on several machines need dask: pip install 'blockbasis[distributed]'.") from missing

#: Seconds that a scheduler has to answer, between two looks at the workers, and that may pass without a usable worker.
_ANSWER = 10
_LOOK = 2
_PATIENCE = 30
#: Bytes of a task's arguments that dask warns of. Basis functions are sent as arguments, and not scattered: the
#: scheduler can then send them again when a worker has died.
_LARGE = "1GB"
#: Sums of several workers that are added at once.
_TERMS = 8
_REMEDY = (
    "The usual reason is that they ran out of memory. Give the workers more memory, or the data smaller chunks, such "
    "as X.rechunk({0: 50_000}), or take a smaller rank."
)


class WorkersLostError(RuntimeError):
    """The workers did not finish a computation."""


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address; raise a ConnectionError if it does not answer in 10 seconds.

    Examples
    --------
    >>> from blockbasis.distributed import connect
    >>> client = connect("tcp://127.0.0.1:8786")  # doctest: +SKIP
    """
    try:
        # Client itself waits without end for a scheduler that accepts and says nothing. A notebook runs a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _probe(address)).result()
        return distributed.Client(address, timeout=_ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(f"No dask scheduler answers at {address} within {_ANSWER} seconds.") from error


async def _probe(address: str) -> None:
    secured = distributed.Security().get_connection_args("client")
    comm = await asyncio.wait_for(distributed.core.connect(address, timeout=_ANSWER, **secured), _ANSWER)
    await comm.close()


def checked_client(client: Any, *, caller: str) -> Any:
    """Return the client given, or the default client; raise a ValueError if there is none, or if it is closed."""
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError as error:
            raise ValueError(
                f"The 'client' parameter of {caller} must be given where there is no default client. Got None instead: "
                "create one with distributed.Client()."
            ) from error
    if not isinstance(client, distributed.Client):
        raise TypeError(
            f"The 'client' parameter of {caller} must be a distributed.Client or None. Got "
            f"{type(client).__name__} instead."
        )
    check_open(client)
    return client


def check_open(client: Any) -> None:
    """Raise a WorkersLostError if a client is closed."""
    if client.status not in ("running", "connecting"):
        raise WorkersLostError("The dask client is closed. Create another one, and begin again with it.")


def submitted(
    client: Any, stage: str, function: Callable[..., Any], *columns: Sequence[Any], near: Sequence[Any] | None = None
) -> list[Any]:
    """Return the futures of ``function(*row)`` for the rows of some columns of arguments.

    Parameters
    ----------
    client : distributed.Client
    stage : str
        Name of the tasks on the dashboard.
    function : callable
    *columns : sequences of equal length
        An argument may be a future or a delayed object.
    near : sequence or None
        Arguments whose worker a task is sent to, while it lives: they are large, and the others small.
    """
    places = [""] * len(columns[0]) if near is None else holders(client, near)
    return submitted_to(client, stage, function, places, *columns)


def submitted_to(
    client: Any, stage: str, function: Callable[..., Any], places: Sequence[str], *columns: Sequence[Any]
) -> list[Any]:
    """Return the futures of `submitted`, each on the worker at an address while it lives; empty stands for any."""
    check_open(client)
    token = f"blockbasis-{stage}-{uuid4().hex}"
    call = dask.delayed(function, pure=False)
    tasks = [call(*row, dask_key_name=(token, i)) for i, row in enumerate(zip(*columns, strict=True))]
    groups: dict[str, list[int]] = {}
    for i, place in enumerate(places):
        groups.setdefault(place, []).append(i)
    futures: dict[int, Any] = {}
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE}):
        for place, own in groups.items():
            found = client.compute([tasks[i] for i in own], optimize_graph=False, **_preferring(place))
            futures |= dict(zip(own, found, strict=True))
    return [futures[i] for i in range(len(tasks))]


def holders(client: Any, values: Sequence[Any]) -> list[str]:
    """Return the address of a worker that holds each value; empty where it is not computed yet, or is several."""
    of_values = [distributed.futures_of([value]) for value in values]
    known = client.who_has([future for futures in of_values for future in futures])
    return [min(known.get(futures[0].key) or ("",)) if len(futures) == 1 else "" for futures in of_values]


def _preferring(place: str) -> dict[str, Any]:
    """Return the arguments that prefer a worker, and allow others when it is gone."""
    return {"workers": [place], "allow_other_workers": True} if place else {}


def sent(client: Any, stage: str, value: Any) -> Any:
    """Return the future of a value that all workers need."""
    return submitted(client, stage, _same, [dask.delayed(value, traverse=False)])[0]


def finished(client: Any, futures: Iterable[Any]) -> None:
    """Wait for futures; raise the error of the first that failed, or a WorkersLostError if no worker is left."""
    futures, idle = list(futures), 0.0
    while True:
        check_open(client)
        try:
            with client.as_current():
                distributed.wait(futures, timeout=_LOOK)
            break
        except (TimeoutError, distributed.TimeoutError):
            idle = 0.0 if _usable_workers(client) else idle + _LOOK
            if idle >= _PATIENCE:
                raise WorkersLostError(
                    f"No dask worker could run a task for {_PATIENCE} seconds: all have died or are out of memory. "
                    f"{_REMEDY}"
                ) from None
        except CancelledError:
            break
    for future in futures:
        if future.status != "finished":
            _raise(client, future)


def gathered(client: Any, futures: Iterable[Any]) -> list[Any]:
    """Return the results of futures."""
    futures = list(futures)
    for _ in range(3):  # a worker may die between the end of its task and the transfer of the result
        finished(client, futures)
        try:
            return list(client.gather(futures))
        except (OSError, CancelledError, KeyError):
            time.sleep(_LOOK)
    raise WorkersLostError(f"Results were lost with the dask workers that held them. {_REMEDY}")


def summed(client: Any, stage: str, add: Callable[[list[Any]], Any], futures: Sequence[Any]) -> Any:
    """Return the sum of the results of futures: first on each worker, then of all workers.

    What moves between workers does not depend on the number of futures.
    """
    finished(client, futures)
    groups: dict[str, list[Any]] = {}
    for future, place in zip(futures, holders(client, futures), strict=True):
        groups.setdefault(place, []).append(future)
    partial = [_added(client, stage, add, own, **_preferring(place)) for place, own in sorted(groups.items())]
    while len(partial) > 1:
        partial = [_added(client, stage, add, partial[i : i + _TERMS]) for i in range(0, len(partial), _TERMS)]
    return gathered(client, partial)[0]


def accumulated(
    client: Any,
    stage: str,
    function: Callable[..., Any],
    add: Callable[[list[Any]], Any],
    *columns: Sequence[Any],
    near: Sequence[Any],
) -> Any:
    """Return the sum of ``function(*row)`` for the rows of some columns: see `submitted`.

    Each thread of a worker adds one term after the other to its sum, so that it holds two of them, however many rows
    there are.
    """
    check_open(client)
    threads, groups = client.nthreads(), dict[str, list[int]]()
    for i, place in enumerate(holders(client, near)):
        groups.setdefault(place, []).append(i)
    rows, sums = list(zip(*columns, strict=True)), list[Any]()
    token, call = f"blockbasis-{stage}-{uuid4().hex}", dask.delayed(_plus, pure=False)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE}):
        for place, own in groups.items():
            count = threads.get(place, 1) if place else max(sum(threads.values()), 1)
            for chain in filter(None, (own[first::count] for first in range(count))):
                total = None
                for i in chain:
                    total = call(total, add, function, *rows[i], dask_key_name=(token, i))
                sums += client.compute([total], optimize_graph=False, **_preferring(place))
    return summed(client, "sum", add, sums)


def _plus(total: Any, add: Callable[[list[Any]], Any], function: Callable[..., Any], *arguments: Any) -> Any:
    term = function(*arguments)
    return term if total is None else add([total, term])


def _added(client: Any, stage: str, add: Callable[[list[Any]], Any], terms: list[Any], **where: Any) -> Any:
    return client.submit(add, terms, key=(f"blockbasis-{stage}-{uuid4().hex}", 0), pure=False, **where)


def _same(value: Any) -> Any:
    return value


def _usable_workers(client: Any) -> int:
    """Return the number of workers that take tasks."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(worker.get("status", "running") == "running" for worker in workers)


def _raise(client: Any, future: Any) -> None:
    """Raise the error of a future that did not finish."""
    check_open(client)
    if future.status in ("cancelled", "lost", "pending"):
        raise WorkersLostError(f"Tasks were cancelled: a dask worker died with data that only it had. {_REMEDY}")
    error = future.exception(timeout=_ANSWER)
    if isinstance(error, KilledWorker):
        raise WorkersLostError(f"Dask workers died one after the other at the same task. {_REMEDY}") from error
    if isinstance(error, MemoryError):
        raise MemoryError(f"A dask worker ran out of memory: {error}. {_REMEDY}") from error
    raise error
