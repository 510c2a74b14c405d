"""How things are measured: times, peak memory and errors, each run in a fresh process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

WORKER = Path(__file__).with_name("worker.py")
STREAMS = WORKER.with_name("streams.py")
#: Runs above this many seconds are made once, others are repeated.
LONG = 20.0
REPEATS = 3
#: Rows of the exact matrix from which every method's error is measured, the same for all.
ERROR_ROWS, ERROR_SEED = 500, 12345
#: Above this many points fewer rows do.
MANY_POINTS, FEWER_ROWS = 400_000, 100
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

Result = dict[str, Any]


class WorkerError(RuntimeError):
    """A run in a fresh process failed."""


@dataclass
class Times:
    """Seconds of a clock and of the processor (all threads)."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Times]:
    """Times of the block: filled in when it ends."""
    times = Times()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield times
    finally:
        times.wall, times.cpu = time.perf_counter() - wall, time.process_time() - cpu


@contextmanager
def quietly(threads: int = 1) -> Iterator[list[str]]:
    """BLAS with so many threads; yields the list of the warnings raised, each kind once, instead of printing them."""
    messages: list[str] = []
    with threadpool_limits(limits=threads), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield messages
        finally:
            messages += sorted({warning.category.__name__ for warning in caught})


def repeat(job: Callable[[], Any], repeats: int = REPEATS) -> Times:
    """Medians over the repeats; one run only where that takes long."""
    runs: list[Times] = []
    while not runs or (len(runs) < repeats and runs[0].wall <= LONG):
        with stopwatch() as times:
            job()
        runs.append(times)
    return Times(statistics.median(t.wall for t in runs), statistics.median(t.cpu for t in runs))


def peak_megabytes() -> float:
    """Largest resident memory of this process since `forget_peak`, or since it began.

    On Linux the kernel's VmHWM: ru_maxrss of a process counts what its parent held when it was started.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM")), None)
        if line is not None:
            return int(line.split()[1]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def forget_peak() -> None:
    """Measure the peak from here on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def error_rows(n: int) -> int:
    return min(n, ERROR_ROWS if n <= MANY_POINTS else FEWER_ROWS)


def repeats_of(cell: Result) -> int:
    """How often short runs of a cell are made."""
    return int(cell.get("repeats", REPEATS))


def all_cores() -> int:
    return os.cpu_count() or 1


def fresh(task: str, threads: int = 1, worker: Path = WORKER, **arguments: Any) -> Result:
    """What ``task`` of `worker.py`, or of another script, returns: run in a process of its own with so many threads."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    job = json.dumps({"task": task, "threads": threads, **arguments})
    done = subprocess.run(
        [sys.executable, str(worker)], input=job, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        raise WorkerError(lines[-1])
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def interleaved(
    jobs: dict[str, Callable[[], Result]], known: dict[str, Result] | None = None, repeats: int = REPEATS
) -> dict[str, Result]:
    """Run ours, the peer, ours, the peer, ...: medians of the numbers that differ between the repeats.

    A job whose first run takes long runs once, and not at all when that run is ``known``: so do all for one repeat.
    """
    enough = {name: [run] for name, run in (known or {}).items() if run["wall"] > LONG or repeats == 1}
    runs: dict[str, list[Result]] = {name: enough.get(name, []) for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            if len(runs[name]) < repeats and (not runs[name] or runs[name][0]["wall"] <= LONG):
                runs[name].append(job())
    return {name: medians(results) for name, results in runs.items()}


def medians(results: list[Result]) -> Result:
    """The first result, its times and memory replaced by medians; the number of runs with it."""
    measured = [key for key in results[0] if key.endswith(("wall", "cpu", "_mb"))]
    middle = {key: statistics.median(result[key] for result in results) for key in measured}
    return results[0] | middle | {"runs": len(results)}
