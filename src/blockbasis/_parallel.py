"""Clusters in parallel threads, with single-threaded linear algebra inside each.

The work on one cluster is many small factorizations: several BLAS threads slow them down and make the last bits of
the result depend on the machine. One BLAS thread per cluster and one thread per core keeps both in hand.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import OpenBLASController, ThreadpoolController

from blockbasis._machine import require_address_space
from blockbasis._validation import check_threads
from blockbasis.progress import counting

T = TypeVar("T")
#: From so many tasks on, the first one tells whether threads pay: not where it takes less than these seconds.
_MANY_TASKS = 16
_SHORT_TASK = 5e-3


@cache
def _libraries(user_api: str) -> ThreadpoolController:
    """The libraries of one kind. NumPy, SciPy and scikit-learn have loaded theirs by now: one search is enough."""
    return ThreadpoolController().select(user_api=user_api)


def _limited(user_api: str) -> Any:
    """A limit of one thread for the libraries of one kind; ``threadpool_limits`` would restore those of all kinds."""
    return _libraries(user_api).limit(limits=1)


@contextmanager
def _in_control() -> Iterator[None]:
    """Context in which this thread may set the limit of OpenBLAS; threadpoolctl 3.8 lets one thread only."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is None:
        yield
        return
    clear(force=True)
    try:
        yield
    finally:
        clear(force=True)


class _BlasLimit:
    """One BLAS thread for as long as any thread of Python asks for it: the number is one for the whole process.

    The first who asks sets the limit and the last who leaves restores what was before. A limit of each one's own would
    be lifted by whoever leaves first, and whoever came second would restore a limit of one for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        if hasattr(os, "register_at_fork"):  # a process must not be copied with the lock taken
            release = self._lock.release
            os.register_at_fork(before=self._lock.acquire, after_in_parent=release, after_in_child=release)

    def take(self) -> None:
        with self._lock:
            if self._holders == 0:
                with _in_control():
                    self._limits = _limited("blas")
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                with _in_control():
                    self._limits.restore_original_limits()


_blas_limit = _BlasLimit()
_own = threading.local()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Context in which BLAS and OpenMP use one thread, so that results depend on the seed alone.

    Any number of threads may be in it at once, and one of them several times.
    """
    if getattr(_own, "inside", False):
        yield
        return
    require_address_space()
    _blas_limit.take()
    _own.inside = True
    try:
        with _limited("openmp"):  # which has a number for each thread
            yield
    finally:
        _own.inside = False
        _blas_limit.leave()


def check_n_jobs(n_jobs: int | None, *, caller: str) -> int:
    """Threads to use: None is one for each core, as -1; other negative numbers count from there."""
    return _effective(check_threads(n_jobs, name="n_jobs", caller=caller))


def cores() -> int:
    """Threads where nothing is said of them: one for each core."""
    return _effective(-1)


def _effective(n_jobs: int) -> int:
    if multiprocessing.current_process().daemon:  # one of a pool, which has as many as there are cores
        return max(n_jobs, 1)
    return int(effective_n_jobs(n_jobs))


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
    done: list[T] = []
    if stage is not None and len(tasks) >= _MANY_TASKS:
        # Many short tasks hold the interpreter's lock most of the time: threads would only wait for it.
        start = time.perf_counter()
        done = [counted(*tasks[0])]
        if time.perf_counter() - start < _SHORT_TASK:
            return done + [counted(*task) for task in tasks[1:]]
        tasks = tasks[1:]
    # NumPy and LAPACK release the interpreter's lock, and threads share the points without a copy. joblib looks for
    # results every 10 ms, which is longer than some products take.
    pool, futures = ThreadPoolExecutor(min(n_jobs, len(tasks))), list[Future[T]]()
    try:
        futures += [pool.submit(counted, *task) for task in tasks]
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:  # after a failure or an interrupt, tasks that have not begun do not begin
        pool.shutdown(cancel_futures=True)
    failures = (future.exception() for future in futures if not future.cancelled())
    if (failure := next((each for each in failures if each is not None), None)) is not None:
        raise failure
    return done + [future.result() for future in futures]
