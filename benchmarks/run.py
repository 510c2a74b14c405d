"""Run suites of benchmarks: ours and every peer that is installed, interleaved, results as JSON.

    python benchmarks/run.py SUITE [SUITE ...] [--full | --tiny] [--out benchmarks/results] [--only NAME ...]
                             [--baseline FILE ...] [--minutes M]

SUITE is one of the suites listed by --help, or "all". Every cell that is done is on disk: a run that is interrupted
goes on where it stopped. `python benchmarks/page.py` makes the page from the results.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import peers
from cases import CASES
from data import is_at_hand
from records import Record, Results
from suites import SHARES, SUITES

HERE = Path(__file__).parent
#: What a cell may raise without ending the run: it is recorded as failed.
FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


class TimeUp(BaseException):
    """The minutes given are over."""


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interruption: processes of a cell end with it
    names = list(SUITES) if "all" in options.suites else options.suites
    size = "full" if options.full else "tiny" if options.tiny else "quick"
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    try:
        waiting = run_suites(names, size, options, end)
        if end is not None and waiting:  # other suites may have left time
            run_suites(waiting, size, options, end)
    except KeyboardInterrupt:
        print("\nInterrupted: what is done is kept, the same command goes on from here.", flush=True)
        return 130
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "suites", nargs="+", choices=[*SUITES, "all"], metavar="SUITE", help=", ".join([*SUITES, "all"])
    )
    parser.add_argument("--full", action="store_true", help="every cell: hours")
    parser.add_argument("--tiny", action="store_true", help="one generated case of 1,500 points: seconds")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="directory of the results")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases or data sets to run")
    parser.add_argument("--baseline", nargs="+", type=Path, metavar="FILE", help="JSON lines of an earlier commit")
    parser.add_argument("--minutes", type=float, help="time for all suites together; cells left over wait")
    return parser.parse_args(arguments)


def run_suites(names: list[str], size: str, options: argparse.Namespace, end: float | None) -> list[str]:
    """Run suites one after the other, each within its share of the time left; those that did not finish."""
    unfinished = []
    for position, name in enumerate(names):
        own_end = None
        if end is not None:
            now = time.monotonic()
            shares = [SHARES[other] for other in names[position:]]
            own_end = now + max(0.0, end - now) * shares[0] / sum(shares)
        if run_suite(name, size, options, own_end):
            unfinished.append(name)
    return unfinished


def run_suite(name: str, size: str, options: argparse.Namespace, end: float | None) -> int:
    """Run the cells of a suite that have no record yet; how many are left when the time is over."""
    suite = SUITES[name]
    results = Results(options.out, name, size, peers.present(), options.baseline)
    cells = suite.cells(size, options.only)
    shown = [*suite.cells(size, None), *cells]
    absent = {data for cell in cells if not is_at_hand(data := data_of(cell))}
    for data in sorted(absent):
        results.leave_out(data)
        print(f"{name}: {data} is not at hand, its cells are left out", flush=True)
    todo = [cell for cell in cells if data_of(cell) not in absent and not results.has(cell)]
    print(f"{name}: {len(cells)} cells, {len(todo)} to run", flush=True)
    results.write(shown)
    for position, cell in enumerate(todo):
        start = time.perf_counter()
        try:
            with time_limit(end):
                record = measured(suite, cell)
        except TimeUp:
            left = len(todo) - position
            print(f"{name}: its share of the time is over, {left} cells wait", flush=True)
            return left
        results.add(cell, record)
        results.write(shown)
        said = record.get("failed") or suite.line(record)
        took = time.perf_counter() - start
        print(f"{name} {position + 1}/{len(todo)} {label(cell)}: {said} [{took:.1f} s]", flush=True)
    return 0


def measured(suite: types.ModuleType, cell: Record) -> Record:
    """What a suite measures of a cell, or why it failed."""
    try:
        record: Record = suite.run(cell)
    except FAILURES as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return record


def data_of(cell: Record) -> str:
    return str(cell["data"] if "data" in cell else CASES[cell["case"]].data)


def label(cell: Record) -> str:
    return " ".join(f"{key}={value}" for key, value in cell.items() if value not in (None, {}))


@contextlib.contextmanager
def time_limit(end: float | None) -> Iterator[None]:
    """Raise `TimeUp` inside the block when this time has come; a process that is waited for is ended with it."""

    def stop(*_: object) -> None:
        raise TimeUp

    if end is None or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, end - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
