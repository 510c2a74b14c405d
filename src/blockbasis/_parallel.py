"""Clusters in parallel threads, with single-threaded linear algebra inside each.

The work on one cluster is many small factorizations: several BLAS threads slow them down and make the last bits of
the result depend on the machine. One BLAS thread per cluster and one thread per core keeps both in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from blockbasis._validation import check_threads
from blockbasis.progress import counting

T = TypeVar("T")


def single_threaded() -> Any:
    """Context in which BLAS and OpenMP use one thread, so that results depend on the seed alone."""
    return threadpool_limits(limits=1)


def check_n_jobs(n_jobs: int | None, *, caller: str) -> int:
    """Threads to use: None is one for each core, as -1; other negative numbers count from there."""
    return int(effective_n_jobs(check_threads(n_jobs, name="n_jobs", caller=caller)))


def map_threads(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], n_jobs: int, stage: str | None = None
) -> list[T]:
    """``[function(*task) for task in tasks]``, in order, over ``n_jobs`` threads; a named stage reports progress."""
    tasks = list(tasks)
    count = counting(stage, len(tasks))

    def counted(*task: Any) -> T:
        result = function(*task)
        count()
        return result

    if n_jobs == 1 or len(tasks) < 2:
        return [counted(*task) for task in tasks]
    # NumPy and LAPACK release the interpreter's lock, and threads share the points without a copy.
    return list(Parallel(n_jobs=n_jobs, backend="threading")(delayed(counted)(*task) for task in tasks))
