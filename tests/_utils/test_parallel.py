from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import blockbasis as bb
from blockbasis._utils.parallel import at_most, check_n_jobs, cores, in_turn, map_threads, single_threaded
from tests.repeating import first_of


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(n_jobs):
    turn = threading.Barrier(2) if n_jobs > 1 else None

    def slow_first(i):
        if turn is not None and i < 2:
            turn.wait(timeout=30)
        return 10 * i

    assert map_threads(slow_first, [(i,) for i in range(20)], n_jobs) == list(range(0, 200, 10))


def test_a_limit_holds_for_blas_and_for_threads_that_nobody_asked_for():
    before = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    with at_most(1):
        assert cores() == check_n_jobs(None, caller="f") == 1
        assert check_n_jobs(3, caller="f") == 3
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {1}
        with single_threaded():
            pass
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {1}
    assert [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"] == before
    with at_most(None):
        assert cores() == check_n_jobs(-1, caller="f")


def test_tasks_share_the_process():
    seen = []
    map_threads(lambda i: seen.append((i, os.getpid())), [(i,) for i in range(6)], 2)
    assert sorted(seen) == [(i, os.getpid()) for i in range(6)]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals")
@pytest.mark.parametrize("interrupted", [False, True])
def test_long_tasks_learn_of_a_failure_and_of_an_interrupt(interrupted):
    cancelled, both = threading.Event(), threading.Barrier(2)

    def task(i):
        both.wait(60)
        if i == 0 and not interrupted:
            raise ValueError("the first task")
        if i == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        assert cancelled.wait(60)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt if interrupted else ValueError):
            map_threads(task, [(0,), (1,)], 2, cancelled=cancelled)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.is_set()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals")
def test_an_interrupt_while_tasks_are_submitted_cancels_long_tasks():
    cancelled = threading.Event()

    def task(i):
        if i == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert cancelled.wait(60)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            map_threads(task, [(i,) for i in range(100_000)], 2, cancelled=cancelled)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.is_set()


def test_a_failure_keeps_waiting_tasks_from_beginning():
    release, begun = threading.Event(), []

    def task(i):
        begun.append(i)
        if i == 1:
            release.set()
            raise ValueError("the second task")
        release.wait(10)

    with pytest.raises(ValueError, match="the second task"):
        map_threads(task, [(i,) for i in range(200)], 2)
    assert len(begun) < 200


def test_several_arguments_and_no_tasks():
    assert map_threads(lambda a, b: a - b, [(5, 3), (1, 1)], 2) == [2, 0]
    assert map_threads(lambda a: a, [], 2) == []


def test_an_error_in_a_task_is_raised():
    def fail(i):
        if i == 3:
            raise ValueError("task 3")
        return i

    for n_jobs in (1, 2):
        with pytest.raises(ValueError, match="task 3"):
            map_threads(fail, [(i,) for i in range(6)], n_jobs)


def test_threads_whatever_backend_the_caller_has_set(points):
    """Clusters share the points and the count of entries: processes would lose both."""
    expected = bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=5, rng=0, n_jobs=1)
    with joblib.parallel_config(backend="loky"):
        A = bb.factorize(points, bb.Gaussian(0.5), n_clusters=4, rank=5, rng=0, n_jobs=2)
    np.testing.assert_array_equal(A.todense(), expected.todense())
    assert A.entries == expected.entries


def test_a_function_that_cannot_be_pickled_works_in_threads(points):
    lock = threading.Lock()

    def own(X, Y):
        with lock:
            return X @ Y.T

    A = bb.factorize(points, own, n_clusters=4, rank=5, rng=0, n_jobs=3)
    np.testing.assert_allclose(A.todense(), points @ points.T, atol=1e-10)


def test_number_of_threads():
    cores = joblib.effective_n_jobs(-1)
    assert check_n_jobs(None, caller="f") == check_n_jobs(-1, caller="f") == cores
    assert check_n_jobs(3, caller="f") == 3
    assert check_n_jobs(np.int64(2), caller="f") == 2
    assert check_n_jobs(-1000, caller="f") == 1


@pytest.mark.parametrize("bad", [0, 1.5, "two", True, [1], np.array([1, 2])], ids=repr)
def test_bad_number_of_threads(bad):
    with pytest.raises((TypeError, ValueError)) as caught:
        check_n_jobs(bad, caller="f")
    assert str(caught.value) == (
        f"The 'n_jobs' parameter of f must be None or a non-zero integer. Got {bad!r} instead."
    )


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_linear_algebra_is_single_threaded_inside():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with single_threaded():
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_a_factorization_runs_with_one_blas_thread_and_gives_it_back(points):
    seen = set()

    def own(X, Y):
        seen.update(blas_threads())
        return bb.Gaussian(0.5).block(X, Y)

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        bb.factorize(points, own, n_clusters=4, rank=5, rng=0, n_jobs=2)
        bb.factorize_cross(points[:50], points, own, n_clusters=4, rank=5, rng=0, n_jobs=2)
        assert blas_threads() == before
    assert seen == {1}


def test_results_do_not_depend_on_the_callers_blas_threads(many_points):
    runs = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit):
            runs.append(bb.factorize(many_points, bb.Gaussian(0.4), n_clusters=3, rank=30, rng=0, n_jobs=1))
    for first, second in zip(runs[0].bases, runs[1].bases, strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(runs[0].inner.todense(), runs[1].inner.todense())


def test_the_limit_is_lifted_by_the_last_thread_that_leaves():
    """The first who comes leaves first: the second must still have one BLAS thread, and the third all of them."""
    first_left, second_came = threading.Event(), threading.Event()
    seen = []

    def second():
        with single_threaded():
            second_came.set()
            assert first_left.wait(timeout=30)
            seen.append(blas_threads())

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        thread = threading.Thread(target=second)
        with single_threaded():
            thread.start()
            assert second_came.wait(timeout=30)
        first_left.set()
        thread.join()
        assert seen == [{1}]
        assert blas_threads() == before


def test_a_context_inside_another_and_an_error():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), single_threaded(), single_threaded():
            raise ZeroDivisionError
        assert blas_threads() == before


@pytest.mark.parametrize("rounds", first_of([1, 3]))
def test_factorizations_in_several_threads_are_equal_bit_by_bit(many_points, rounds):
    kernel, many_points = bb.Gaussian(0.4), many_points[:300]

    def work(seed):
        A = bb.factorize(many_points, kernel, tol=1e-2, rng=seed)
        B = bb.factorize_cross(many_points[:100], many_points, kernel, n_clusters=3, rank=8, rng=seed)
        factors = [A.basis.values, A.inner.todense(), B.row_basis.values, B.inner.todense(), B.column_basis.values]
        return b"".join(factor.tobytes() for factor in factors)

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        alone = [work(seed) for seed in range(4)]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(rounds):
                assert list(pool.map(work, range(4))) == alone
        assert blas_threads() == before


def in_a_pool(seed):
    points = np.random.default_rng(seed).normal(size=(80, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = bb.factorize(points, bb.Gaussian(1.0), n_clusters=3, rank=5, rng=0)
        return check_n_jobs(None, caller="f"), check_n_jobs(3, caller="f"), (A @ points).tobytes()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("n_points", "most"), [(100, 1), (1_000_000, 3)])
def test_threads_with_few_points_take_turns(n_points, most):
    together, inside, all_started = [], [], threading.Barrier(3)

    def work(i):
        all_started.wait(60)
        with in_turn(n_points), in_turn(n_points):  # reentrant
            inside.append(i)
            time.sleep(0.05)
            together.append(len(inside))
            inside.remove(i)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert max(together) == most


def test_a_thread_whose_turn_does_not_come_goes_on():
    def waits(context):
        with context:
            start = time.perf_counter()
            with in_turn(100, longest_wait=0.2):
                return time.perf_counter() - start >= 0.2

    with ThreadPoolExecutor(1) as pool, in_turn(100):
        assert pool.submit(waits, nullcontext()).result(60)
        assert not pool.submit(waits, single_threaded()).result(60)  # a task of a computation that may hold the turn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have():
    with ThreadPoolExecutor(1) as pool:
        release, held = threading.Event(), threading.Event()

        def hold():
            with in_turn(100):
                held.set()
                release.wait(60)

        pool.submit(hold)
        assert held.wait(60)
        child = os.fork()
        if child == 0:
            start = time.perf_counter()
            with in_turn(100):
                os._exit(int(time.perf_counter() - start > 1))
        release.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_workers_of_a_pool_are_not_warned_and_have_one_thread():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(in_a_pool, range(2))
    assert [each[:2] for each in found] == [(1, 3), (1, 3)]
    assert [each[2] for each in found] == [in_a_pool(seed)[2] for seed in range(2)]


@pytest.mark.parametrize(("seconds", "one_thread"), [(1e-3, True), (1e-1, False)])
def test_short_tasks_of_a_stage_run_on_one_thread(seconds, one_thread, monkeypatch):
    """The results are the same, in order, whether threads were worth it or not."""
    clock = itertools.count(0.0, seconds)  # the first task takes so long
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    used, both = set(), threading.Barrier(2)

    def task(i):
        used.add(threading.get_ident())
        if not one_thread and i in (1, 2):
            both.wait(60)  # two threads must come here
        return i

    assert map_threads(task, [(i,) for i in range(20)], 4, "stage") == list(range(20))
    assert (used == {threading.get_ident()}) == one_thread
