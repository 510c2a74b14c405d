"""Progress of long work: the stage, the pieces of it that are done, the time left.

Whoever starts the work opens a `reporting`; the loops over clusters, wherever they are, count into it. With nobody
listening they count nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias


@dataclass(frozen=True)
class ProgressEvent:
    """One more piece of a stage is done.

    Parameters
    ----------
    stage : str
    done, total : int
        Pieces of the stage: most often clusters.
    elapsed : float
        Seconds since the stage began.
    remaining : float
        Seconds to its end, at the pace so far.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> events = []
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=4, rank=10, rng=0, progress=events.append)
    >>> events[0].stage, events[0].done, events[0].total
    ('bases', 1, 4)
    """

    stage: str
    done: int
    total: int
    elapsed: float
    remaining: float


Listener: TypeAlias = Callable[[ProgressEvent], Any]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reporting(progress: bool | Listener) -> Iterator[None]:
    """Send the events of the work inside to a bar (True), to a callable, or nowhere (False).

    Work inside work that is listened to has no bar of its own.
    """
    if progress is True and _listener.get() is not None:
        yield
        return
    bar = _bar() if progress is True else None
    token = _listener.set(bar or (progress if callable(progress) else None))
    try:
        yield
    finally:
        _listener.reset(token)
        if bar is not None:
            bar.close()


def counting(stage: str | None, total: int) -> Callable[[], None]:
    """A function to call, from any thread, once for each piece done; a stage without a name is not counted."""
    listener = _listener.get()
    return _ignore if listener is None or stage is None else _Count(stage, total, listener)


def advancing(total: int) -> Callable[[str, int], None]:
    """As `counting`, for pieces of different size: a function of the name of a piece done, and its size."""
    listener = _listener.get()
    return _ignore if listener is None else _Count("", total, listener).advance


def _ignore(*_: object) -> None:
    pass


class _Count:
    """Pieces done, counted under a lock: events arrive one at a time and in order."""

    def __init__(self, stage: str, total: int, listener: Listener) -> None:
        self._stage, self._total, self._listener = stage, total, listener
        self._done = 0
        self._start = time.perf_counter()
        self._lock = threading.Lock()

    def __call__(self) -> None:
        self.advance(self._stage, 1)

    def advance(self, stage: str, size: int) -> None:
        with self._lock:
            self._done += size
            elapsed = time.perf_counter() - self._start
            remaining = elapsed * (self._total - self._done) / self._done
            self._listener(ProgressEvent(stage, self._done, self._total, elapsed, remaining))


# --- bars ------------------------------------------------------------------------------------------------------------


def _bar() -> _RichBar | _TextBar | _Lines:
    """A bar where standard error is a terminal, lines where it is a file."""
    try:
        from rich.console import Console
    except ImportError:
        return _TextBar(sys.stderr) if sys.stderr.isatty() else _Lines(sys.stderr)
    console = Console(stderr=True)
    return _RichBar(console) if console.is_terminal else _Lines(sys.stderr)


class _RichBar:
    """A bar by rich; it disappears when the work ends."""

    def __init__(self, console: Any) -> None:
        from rich.progress import Progress

        self._progress = Progress(console=console, transient=True)
        self._progress.start()
        self._last: ProgressEvent | None = None

    def __call__(self, event: ProgressEvent) -> None:
        if self._last is None or not _goes_on(self._last, event):
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._task = self._progress.add_task(event.stage, total=event.total)
        self._progress.update(self._task, description=event.stage, completed=event.done, total=event.total)
        self._last = event

    def close(self) -> None:
        self._progress.stop()


def _goes_on(last: ProgressEvent, event: ProgressEvent) -> bool:
    """Whether an event is of the same work as the last, whose pieces may have names of their own."""
    return event.stage == last.stage or (event.total == last.total and event.done > last.done)


class _Lines:
    """A line for each stage when it begins: for files, in which nothing can be written over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage: str | None = None

    def __call__(self, event: ProgressEvent) -> None:
        if event.stage != self._stage:
            share = event.done / event.total
            self._stream.write(f"{event.stage}: {share:.0%} done, {event.remaining:.0f} s left\n")
            self._stream.flush()
            self._stage = event.stage

    def close(self) -> None:
        pass


class _TextBar:
    """One line that is written over, without any library."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def __call__(self, event: ProgressEvent) -> None:
        line = f"{event.stage}: {event.done}/{event.total}, {event.remaining:.0f} s left"
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        self._stream.write("\r" + " " * self._width + "\r")
        self._stream.flush()
