"""Common parts of the commands: consoles, messages of errors and warnings, and progress bars."""

from __future__ import annotations

import difflib
import errno
import json as json_format
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
)

from blockbasis._utils.progress import Listener, ProgressEvent, reporting

#: Seconds before the first line of progress in a file, and between two lines.
_FIRST_LINE, _NEXT_LINE = 3.0, 10.0
#: Width in characters of a line of progress beside the bar and the name of the stage: percentage, time and spaces.
_PROGRESS_WIDTH = 20
#: Width in characters of tables that are written to a file.
_FILE_WIDTH = 160
#: Options of the command line in place of the parameters that messages of the library name.
_OPTIONS = {
    "path": "FILE",
    "X": "FILE",
    "budgets": "--memory",
    "n_jobs": "--jobs",
    "time_budget": "--time-budget",
    "test_size": "--test-size",
    "random_state": "--seed",
    "rng": "--seed",
}
_PARAMETER = re.compile(r"The '(\w+)' parameter(?: of \w+)? must")
_REMEDIES = {
    errno.ENOSPC: "Free some space on the disk, or give another place with {}",
    errno.EFBIG: "Give another place with {}",
    errno.EACCES: "Give a place where you may write with {}",
    errno.EPERM: "Give a place where you may write with {}",
    errno.EROFS: "Give a place where you may write with {}",
}


def _console(**choices: Any) -> Console:
    console = Console(**choices)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


stdout, stderr = _console(), _console(stderr=True)


@dataclass(frozen=True)
class Output:
    """What a command prints, by its options --quiet, --json and --debug.

    Parameters
    ----------
    quiet : bool, default=False
        Print errors only.
    json : bool, default=False
        Print the result as one JSON object, and nothing else, on the standard output.
    debug : bool, default=False
        Show the traceback of an error.
    """

    quiet: bool = False
    json: bool = False
    debug: bool = False

    def say(self, what: Any) -> None:
        """Print a line or a table of the result."""
        if not self.quiet and not self.json:
            stdout.print(escape(what) if isinstance(what, str) else what, highlight=False)

    def note(self, text: str) -> None:
        """Print a line that is not part of the result, to the standard error."""
        if not self.quiet:
            stderr.print(f"[dim]{escape(text)}[/]", highlight=False)

    def finish(self, result: dict[str, Any]) -> None:
        """Print the result of a command with --json."""
        if self.json:
            print(json_format.dumps(result, allow_nan=False))

    @property
    def verbose(self) -> bool:
        """Whether to show progress."""
        return not self.quiet and not self.json


def fail(message: object, *, code: int = 1) -> NoReturn:
    """Print an error message and exit with code 1, or with 2 for wrong usage."""
    stderr.print(f"[red]Error:[/] {escape(str(message))}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)


def in_words_of_options(message: str) -> str:
    """Return a message of the library with options in place of parameters: --tol, and not 'the tol parameter of'."""
    text = _PARAMETER.sub(lambda found: f"{_OPTIONS.get(found[1], '--' + found[1])} must", message)
    text = text.replace(" or the 'data_home' parameter of load names", " names")
    return text.replace("time_budget=", "--time-budget ")


def system_sentence(error: OSError, option: str = "--out") -> str:
    """Return an error of the system as a sentence, with a remedy that names the option of the file."""
    where = f"{error.filename}: " if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0, "").format(option)
    return f"{where}{error.strerror}. {remedy}".rstrip(". ") + "."


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return system_sentence(error)
    text = str(error)
    if isinstance(error, MemoryError) and not text:
        return "There is not enough memory. Use fewer rows or a smaller --memory."
    return in_words_of_options(text)


@contextmanager
def print_errors(interrupted: str = "Interrupted.", *, debug: bool = False) -> Iterator[None]:
    """Print errors as one line without a traceback, and exit; with ``debug`` they are raised."""
    try:
        yield
    except KeyboardInterrupt:
        stderr.print(interrupted)
        raise typer.Exit(128 + signal.SIGINT) from None
    except BrokenPipeError:  # the reader of a pipe has ended, which the application takes as the end
        raise
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        fail(_sentence(error))
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            raise
        name = type(error).__name__
        fail(f"An unexpected {name} stopped the command: {error}. This is a bug; --debug shows where it happened.")


@contextmanager
def print_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Print warnings as one line each, without the line of code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            stderr.print(f"[yellow]Warning:[/] {escape(in_words_of_options(str(message)))}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def running(output: Output, interrupted: str = "Interrupted. Nothing was written.") -> Iterator[None]:
    """Run a command: errors and warnings are one line each, and SIGTERM ends worker processes as well."""
    with print_errors(interrupted, debug=output.debug), print_warnings(quiet=output.quiet), exit_on_sigterm():
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


class _Lines:
    """Printer of a line every few seconds, for files; short computations print nothing."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _FIRST_LINE
        self._shown = ""

    def __call__(self, event: ProgressEvent) -> None:
        if event.done >= event.total:
            if event.stage == self._shown:
                stderr.print(f"{event.stage}: done", highlight=False)
            self._shown = ""
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _NEXT_LINE
            self._shown, share = event.stage, event.done / event.total
            stderr.print(f"{event.stage}: {share:.0%} done, {time_left(event.remaining)}", highlight=False)


def time_left(seconds: float) -> str:
    """Return the estimated time until the end of a stage as text.

    Examples
    --------
    >>> from blockbasis.cli.console import time_left
    >>> time_left(12.3), time_left(754), time_left(9_000)
    ('12 s left', '13 min left', '2.5 h left')
    """
    if seconds < 120:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 7200 else f"{seconds / 3600:.1f} h left"


class StageClock:
    """Seconds of each stage of a computation, from its progress events."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, event: ProgressEvent) -> None:
        self.add(re.split(r":|(?: of)? \d", event.stage)[0])

    def add(self, stage: str) -> None:
        """Add the time since the last event to a stage."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


@contextmanager
def progress_bars(*, shown: bool = True, clock: StageClock | None = None) -> Iterator[None]:
    """Show a progress bar for each stage until the stage is finished; in a file, a line for each stage.

    ``clock`` measures the stages, whether they are shown or not.
    """
    with _bars(shown) as show, reporting(_both(clock, show)):
        yield


def _both(clock: StageClock | None, show: Listener | None) -> Listener | bool:
    def listen(event: ProgressEvent) -> None:
        for each in (clock, show):
            if each is not None:
                each(event)

    return listen if clock is not None or show is not None else False


@contextmanager
def _bars(shown: bool) -> Iterator[Listener | None]:
    """Context manager with the function that shows an event; None if nothing is shown."""
    if not shown or not stderr.is_terminal:
        yield _Lines() if shown else None
        return
    # On a narrow terminal the bar and the name of the stage are short, and not the time that is left.
    bar = max(4, min(20, stderr.width // 5))
    room = max(8, stderr.width - bar - _PROGRESS_WIDTH)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=bar),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=stderr, transient=True) as progress:
        last: dict[str, ProgressEvent] = {}

        def show(event: ProgressEvent) -> None:
            # A stage that goes on under another name, such as a search with its next candidate, keeps its bar.
            before = last.get("event")
            if before is None or event.total != before.total or event.done < before.done:
                for task in progress.task_ids:
                    progress.remove_task(task)
                progress.add_task("", total=event.total, left="")
            name = event.stage if len(event.stage) <= room else event.stage[: room - 1] + "…"
            progress.update(
                progress.task_ids[0], description=escape(name), completed=event.done, left=time_left(event.remaining)
            )
            last["event"] = event

        yield show
