"""Parallel threads over clusters, with single-threaded linear algebra in each thread.

The computation of one cluster consists of many small factorizations. Several BLAS threads would slow them down, and
the last bits of the result would depend on the machine. Each thread therefore uses one BLAS thread.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import OpenBLASController, ThreadpoolController

from blockbasis._utils.machine import require_address_space
from blockbasis._utils.progress import counting
from blockbasis._utils.validation import check_threads

T = TypeVar("T")
#: Number of tasks from which the duration of the first task decides whether threads are used.
_MANY_TASKS = 16
#: Duration of a task in seconds below which threads are slower: the tasks hold the interpreter lock.
_SHORT_TASK = 5e-3
#: Seconds after which a wait for tasks is renewed. An interrupt that comes just before a wait, or on Windows during it,
#: is raised only when the wait ends.
_LONGEST_SLEEP = 1.0
#: Number of points up to which computations of several Python threads take turns. The steps of such computations are
#: so short that threads at the same time mostly wait for the interpreter lock, and take longer than in sequence.
_TURN_POINTS = 4_000
#: Longest wait for a turn in seconds. A turn saves time only, so that a thread which gets none computes all the same.
_LONGEST_WAIT = 2.0


class Tally(Protocol):
    """A counter of what tasks evaluate."""

    @property
    def value(self) -> int:
        """Amount so far."""

    def add(self, amount: int) -> None:
        """Count more."""


class Runner(Protocol):
    """Returns ``[function(*task) for task in tasks]``, computed in other processes."""

    def __call__(self, function: Callable[..., T], tasks: list[tuple[Any, ...]], counter: Tally, stage: str) -> list[T]:
        """Compute the tasks, and add to the counter what they evaluate."""


_runner: ContextVar[Runner | None] = ContextVar("runner", default=None)
_limit: ContextVar[int | None] = ContextVar("limit", default=None)


@contextmanager
def elsewhere(runner: Runner) -> Iterator[None]:
    """Context in which a runner computes the tasks of `map_threads` that have a counter."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


@cache
def _libraries(user_api: str) -> ThreadpoolController:
    """Return the controller of the "blas" or "openmp" libraries, which NumPy, SciPy and scikit-learn have loaded."""
    return ThreadpoolController().select(user_api=user_api)


def _limited(user_api: str) -> Any:
    """Limit the libraries of one kind to one thread; ``threadpool_limits`` would restore those of all kinds."""
    return _libraries(user_api).limit(limits=1)


@contextmanager
def _in_control() -> Iterator[None]:
    """Context in which this thread may set the limit of OpenBLAS; threadpoolctl 3.8 allows one thread only."""
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
    """Reference-counted limit of one BLAS thread: the number of BLAS threads is global to the process.

    The first Python thread that acquires the limit sets it, and the last one that releases it restores the previous
    value. With one limit for each thread, the first release would remove the limit for all threads, and a later release
    would restore the value 1 permanently.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        if hasattr(os, "register_at_fork"):  # a forked process must not inherit a locked lock
            release = self._lock.release
            os.register_at_fork(before=self._lock.acquire, after_in_parent=release, after_in_child=release)

    @property
    def holders(self) -> int:
        """Number of Python threads that hold the limit."""
        return self._holders

    def acquire(self) -> None:
        with self._lock:
            if self._holders == 0:
                with _in_control():
                    self._limits = _limited("blas")
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                with _in_control():
                    self._limits.restore_original_limits()


_blas_limit = _BlasLimit()
_thread_state = threading.local()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Context in which BLAS and OpenMP use one thread, so that results depend on the seed only.

    Several threads may enter it concurrently, and a thread may enter it repeatedly.
    """
    if getattr(_thread_state, "inside", False):
        yield
        return
    require_address_space()
    _blas_limit.acquire()
    _thread_state.inside = True
    try:
        with _limited("openmp"):  # the limit of OpenMP is local to the thread
            yield
    finally:
        _thread_state.inside = False
        _blas_limit.release()


class _Turn:
    """Reentrant lock of the computations that take turns; a forked process starts with a new one."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.RLock()


_turn = _Turn()


@contextmanager
def in_turn(n_points: int, longest_wait: float = _LONGEST_WAIT) -> Iterator[None]:
    """Context that one Python thread at a time enters for few points; tasks of `single_threaded` never wait."""
    lock = _turn.lock
    if n_points > _TURN_POINTS or getattr(_thread_state, "inside", False):
        yield
        return
    acquired = lock.acquire(timeout=longest_wait)
    try:
        yield
    finally:
        if acquired:
            lock.release()


@contextmanager
def at_most(n_jobs: int | None) -> Iterator[None]:
    """Context in which BLAS and `map_threads` use at most ``n_jobs`` threads where none are asked for; None: no limit.

    It is for computations that have no parameter ``n_jobs`` of their own.
    """
    if n_jobs is None:
        yield
        return
    token = _limit.set(n_jobs)
    with _in_control():
        blas = _libraries("blas").limit(limits=n_jobs)
    try:
        yield
    finally:
        _limit.reset(token)
        with _in_control():
            blas.restore_original_limits()


def check_n_jobs(n_jobs: int | None, *, caller: str) -> int:
    """Return the number of threads for ``n_jobs`` in joblib's convention; None and -1 select one for each core."""
    return _effective(check_threads(n_jobs, name="n_jobs", caller=caller))


def cores() -> int:
    """Return the default number of threads, one for each core."""
    return _effective(-1)


def _effective(n_jobs: int) -> int:
    if multiprocessing.current_process().daemon:  # a worker of a process pool, which occupies all cores
        return max(n_jobs, 1)
    limit = _limit.get()
    return limit if limit is not None and n_jobs < 0 else int(effective_n_jobs(n_jobs))


def map_threads(
    function: Callable[..., T],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int,
    stage: str | None = None,
    counter: Tally | None = None,
    cancelled: threading.Event | None = None,
) -> list[T]:
    """Return ``[function(*task) for task in tasks]``, computed by ``n_jobs`` threads.

    Python threads that compute at the same time share these threads: more of them would wait for the interpreter lock.
    If ``stage`` is given, every finished task is reported as progress of this stage. A ``counter`` says that the tasks
    change nothing but this counter, in which they count what they evaluate: other processes may then compute them, see
    `elsewhere`. After a failure or an interrupt, running tasks are waited for. ``cancelled`` is set before, so that
    long tasks can end early.
    """
    tasks, n_jobs = list(tasks), max(1, n_jobs // max(1, _blas_limit.holders))
    count = counting(stage, len(tasks))
    runner = _runner.get()
    if runner is not None and counter is not None and len(tasks) > 1:
        results = runner(function, tasks, counter, stage or "tasks")
        for _ in results:
            count()
        return results

    def counted(*task: Any) -> T:
        result = function(*task)
        count()
        return result

    if n_jobs == 1 or len(tasks) < 2:
        return [counted(*task) for task in tasks]
    done: list[T] = []
    if stage is not None and len(tasks) >= _MANY_TASKS:
        # Short tasks hold the interpreter lock most of the time, so that threads would wait for it.
        start = time.perf_counter()
        done = [counted(*tasks[0])]
        if time.perf_counter() - start < _SHORT_TASK:
            return done + [counted(*task) for task in tasks[1:]]
        tasks = tasks[1:]
    # NumPy and LAPACK release the interpreter lock, and threads share the points without a copy. joblib polls for
    # results every 10 ms, which is longer than some products.
    pool, futures = ThreadPoolExecutor(min(n_jobs, len(tasks))), list[Future[T]]()
    try:
        for task in tasks:
            futures.append(pool.submit(counted, *task))
        waiting = True
        while waiting:
            finished, pending = wait(futures, _LONGEST_SLEEP, FIRST_EXCEPTION)
            waiting = bool(pending) and not any(future.exception() for future in finished)
    finally:  # after a failure or an interrupt, pending tasks are cancelled; the interrupt may come between two submits
        if cancelled is not None and (len(futures) < len(tasks) or not all(future.done() for future in futures)):
            cancelled.set()
        pool.shutdown(cancel_futures=True)
    failures = (future.exception() for future in futures if not future.cancelled())
    if (failure := next((each for each in failures if each is not None), None)) is not None:
        raise failure
    return done + [future.result() for future in futures]
