"""Progress reports of long computations: stage, number of finished pieces and remaining time.

A computation opens a `reporting` context. The loops inside it call `counting` or `advancing` to report finished pieces.
Without a context they report nothing.
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
    """Event that reports a finished piece of a stage.

    Parameters
    ----------
    stage : str
        Name of the stage.
    done, total : int
        Numbers of finished pieces and of all pieces of the stage, usually clusters.
    elapsed : float
        Seconds since the start of the stage.
    remaining : float
        Estimated seconds until the end of the stage.

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
    """Send the events inside the context to a progress bar (True), to a callable, or nowhere (False).

    A nested context with True sends its events to the listener of the outer context.
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
    """Return a thread-safe function to call after each finished piece; with stage None it reports nothing."""
    listener = _listener.get()
    return _ignore if listener is None or stage is None else _Count(stage, total, listener)


def advancing(total: int) -> Callable[[str, int], None]:
    """Return a thread-safe function (name, size) to call after each finished piece, for pieces of different sizes."""
    listener = _listener.get()
    return _ignore if listener is None else _Count("", total, listener).advance


def _ignore(*_: object) -> None:
    pass


class _Count:
    """Counter of finished pieces with a lock, so that events arrive one at a time and in order."""

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
    """Return a progress bar if standard error is a terminal, otherwise a printer of lines."""
    try:
        from rich.console import Console
    except ImportError:
        return _TextBar(sys.stderr) if sys.stderr.isatty() else _Lines(sys.stderr)
    console = Console(stderr=True)
    return _RichBar(console) if console.is_terminal else _Lines(sys.stderr)


class _RichBar:
    """Progress bar of rich, which is erased at the end."""

    def __init__(self, console: Any) -> None:
        from rich.progress import Progress

        self._progress = Progress(console=console, transient=True)
        self._progress.start()
        self._last: ProgressEvent | None = None

    def __call__(self, event: ProgressEvent) -> None:
        if self._last is None or not _continues(self._last, event):
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._task = self._progress.add_task(event.stage, total=event.total)
        self._progress.update(self._task, description=event.stage, completed=event.done, total=event.total)
        self._last = event

    def close(self) -> None:
        self._progress.stop()


def _continues(last: ProgressEvent, event: ProgressEvent) -> bool:
    """Return whether an event continues the last one: the same stage, or the same total with more pieces done."""
    return event.stage == last.stage or (event.total == last.total and event.done > last.done)


class _Lines:
    """Printer of one line at the start of each stage, for files."""

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
    """Progress bar of one line of text that is overwritten, for systems without rich."""

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
