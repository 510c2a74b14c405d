"""Common parts of the commands: consoles, messages of errors and warnings, and progress bars."""

from __future__ import annotations

import difflib
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from blockbasis._utils.progress import ProgressEvent, reporting

#: Width in characters of tables that are written to a file.
_FILE_WIDTH = 160


def _console(**choices: Any) -> Console:
    console = Console(**choices)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


stdout, stderr = _console(), _console(stderr=True)


def fail(message: object) -> NoReturn:
    """Print an error message and exit with code 1."""
    stderr.print(f"[red]Error:[/] {escape(str(message))}")
    raise typer.Exit(1)


@contextmanager
def print_errors(interrupted: str = "Interrupted.") -> Iterator[None]:
    """Print errors that a user can correct as one line without a traceback, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        stderr.print(interrupted)
        raise typer.Exit(128 + signal.SIGINT) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        fail(error)


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print warnings as one line each, without the line of code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        stderr.print(f"[yellow]Warning:[/] {escape(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Convert SIGTERM to SystemExit, so that worker processes are ended as well."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def check_name(name: str, known: Iterable[str], what: str) -> None:
    """Print an error with the most similar known names and exit if a name is unknown."""
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else f" There are: {', '.join(known)}."
    fail(f"There is no {what} {name!r}.{hint}")


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show a progress bar for each stage of the computation inside the context, until the stage is finished."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(event: ProgressEvent) -> None:
            if event.stage not in tasks:
                tasks[event.stage] = progress.add_task(event.stage, total=event.total)
            progress.update(tasks[event.stage], completed=event.done)
            if event.done == event.total:
                progress.remove_task(tasks.pop(event.stage))

        with reporting(show):
            yield
