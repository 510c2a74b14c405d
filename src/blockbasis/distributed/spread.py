"""The tasks of a factorization on the workers: bases and blocks of C of the sample, in one piece for each thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import cloudpickle

from blockbasis._utils.parallel import Tally, single_threaded
from blockbasis.distributed.client import gathered, sent, submitted_to

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Spread:
    """Computes the tasks of `blockbasis._utils.parallel.map_threads` on the workers of a client.

    The function goes to one worker, and from there to the others. Each thread of the workers computes every so many-th
    task: neighbouring tasks of the inner matrix are of similar size, and later ones smaller.

    Parameters
    ----------
    client : distributed.Client
    """

    client: Any

    def __call__(self, function: Callable[..., T], tasks: list[tuple[Any, ...]], counter: Tally, stage: str) -> list[T]:
        """Return ``[function(*task) for task in tasks]``, and add to the counter what the tasks have counted."""
        client, name = self.client, stage.replace(" ", "-")
        places = [address for address, threads in sorted(client.nthreads().items()) for _ in range(threads)]
        places = places[: len(tasks)] or [""]
        remote = sent(client, name, cloudpickle.dumps((function, counter)))
        pieces = [tasks[i :: len(places)] for i in range(len(places))]
        found = gathered(client, submitted_to(client, name, _computed, places, [remote] * len(places), pieces))
        results: list[Any] = [None] * len(tasks)
        for i, (own, counted) in enumerate(found):
            results[i :: len(places)] = own
            counter.add(counted)
        return results


def _computed(pickled: bytes, tasks: list[tuple[Any, ...]]) -> tuple[list[Any], int]:
    """Return the results of some tasks, and what they have counted."""
    function, counter = cloudpickle.loads(pickled)
    with single_threaded():
        return [function(*task) for task in tasks], counter.value
