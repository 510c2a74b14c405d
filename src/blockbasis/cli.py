"""The command line."""

from __future__ import annotations

import difflib
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
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
from rich.table import Column, Table

from blockbasis import datasets, kernels, plotting
from blockbasis._typing import FloatArray
from blockbasis.datasets.recipes import RECIPES
from blockbasis.demo import main as run_demo
from blockbasis.experiments import EXPERIMENTS, Experiment, Result, read, run, write_index
from blockbasis.experiments import compare as compare_methods
from blockbasis.experiments.comparison import BUDGETS
from blockbasis.experiments.curves import LABELS, METHODS, mean_errors, spread
from blockbasis.experiments.running import processes
from blockbasis.progress import ProgressEvent, reporting

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_ALL = "all"
#: Columns of a table that goes to a file: nobody's window is too narrow for it.
_FILE_WIDTH = 160


def _console(**choices: Any) -> Console:
    console = Console(**choices)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


_out, _err = _console(), _console(stderr=True)


def _say_version(wanted: bool) -> None:
    if wanted:
        _out.print(f"blockbasis {version('blockbasis')}", highlight=False)
        raise typer.Exit


@app.callback()
def about(
    show_version: Annotated[
        bool, typer.Option("--version", help="Say the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Kernel matrices in linear time and memory, across bandwidths."""


class KernelName(StrEnum):
    """Kernels with a bandwidth alone."""

    gaussian = "gaussian"
    laplacian = "laplacian"
    cauchy = "cauchy"


def _fail(message: object) -> NoReturn:
    _err.print(f"[red]Error:[/] {escape(str(message))}")
    raise typer.Exit(1)


@contextmanager
def _errors_said(interrupted: str = "Interrupted.") -> Iterator[None]:
    """What a user can mend as one line, without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        _err.print(interrupted)
        raise typer.Exit(128 + signal.SIGINT) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        _fail(error)


@contextmanager
def _warnings_said() -> Iterator[None]:
    """Warnings as one line each, without the place in the code."""

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        _err.print(f"[yellow]Warning:[/] {escape(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = say
        yield


@contextmanager
def _ended_cleanly() -> Iterator[None]:
    """A request to end becomes an exception, so that no process of the work is left behind."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_name(name: str, known: Iterable[str], what: str) -> None:
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else f" There are: {', '.join(known)}."
    _fail(f"There is no {what} {name!r}.{hint}")


@contextmanager
def _bars() -> Iterator[None]:
    """A bar for each stage of the work inside; it goes when the stage is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_err, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(event: ProgressEvent) -> None:
            if event.stage not in tasks:
                tasks[event.stage] = progress.add_task(event.stage, total=event.total)
            progress.update(tasks[event.stage], completed=event.done)
            if event.done == event.total:
                progress.remove_task(tasks.pop(event.stage))

        with reporting(show):
            yield


# --- reproduce -------------------------------------------------------------------------------------------------------


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="A figure or table, or 'all'; without it they are listed.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer measurements: minutes, not hours.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", file_okay=False)] = None,
    page: Annotated[Path | None, typer.Option(help="Where to write the Markdown page.", dir_okay=False)] = None,
) -> None:
    """Measure the paper's figures and tables again, and say whether its claims hold.

    Each is written to OUT as JSON, CSV, SVG and PNG, with an index page. What is there already, with the same
    settings, is not run again: an interrupted run goes on where it stopped.
    """
    if not name:
        _list_experiments()
        return
    _check_name(name, [_ALL, *EXPERIMENTS], "figure or table")
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    chosen = list(EXPERIMENTS.values()) if name == _ALL else [EXPERIMENTS[name]]
    with _errors_said("Interrupted. The same command goes on from here."), _warnings_said(), _ended_cleanly():
        # What is missing is better known before hours of work than after.
        plotting.panels(1)
        for each in (folder, *([] if page is None else [page.parent])):
            each.mkdir(parents=True, exist_ok=True)
            if not os.access(each, os.W_OK):
                _fail(f"Nothing can be written to {each}.")
        failed = [experiment.name for experiment in chosen if not _run_and_report(experiment, quick, folder)]
        command = f"blockbasis reproduce {_ALL}{' --quick' if quick else ''}"
        known = [read(experiment, folder, quick=quick) for experiment in EXPERIMENTS.values()]
        found = [result for result in known if result is not None]
        paths = write_index(found, folder, command=command, page=page)
    _out.print(f"\nAll results so far: {paths[0]}, {paths[1]}", highlight=False)
    if failed:
        raise typer.Exit(1)


def _run_and_report(experiment: Experiment, quick: bool, folder: Path) -> bool:
    """Whether the experiment measured something; the others are not to suffer from it when it fails."""
    try:
        with _bars():
            result = run(experiment, quick=quick, folder=folder, n_processes=processes())
        _report(result, folder)
    except BrokenExecutor:
        reason = "A process was ended from outside, for want of memory most likely. What is finished is kept."
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
    else:
        return bool(result.parts)
    _err.print(f"[bold]{experiment.name}[/] [red]failed:[/] {escape(reason)}")
    return False


def _report(result: Result, folder: Path) -> None:
    if result.parts:
        result.draw(folder)
    verdict = result.verdict()
    colour = "green" if verdict.holds else "red"
    mark = f"[{colour}]{verdict.mark}[/]"
    _out.print(
        f"[bold]{result.experiment.name}[/] {mark} (measured in {result.seconds:.0f} s). {escape(verdict.sentence)}"
    )


def _list_experiments() -> None:
    table = Table(Column("name", no_wrap=True), "section", "what it shows", box=None)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.section, experiment.title)
    _out.print(table)
    _out.print("\nblockbasis reproduce NAME, or all; --quick for smaller ones.")


# --- compare ---------------------------------------------------------------------------------------------------------


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(help="Your points: CSV, NPZ, NPY, Parquet or LIBSVM.")],
    bandwidth: Annotated[float, typer.Option("--bandwidth", "-b", help="Of the kernel, in units of the columns used.")],
    kernel: Annotated[KernelName, typer.Option(help="Kernel.", case_sensitive=False)] = KernelName.gaussian,
    memory: Annotated[
        list[int] | None,
        typer.Option(help=f"Floats per point; may be given several times. Default: {', '.join(map(str, BUDGETS))}."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(METHODS)}; may be given several times. Default: all."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column that is not a coordinate, by name or number.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Columns as they are, not to standard deviation 1.")] = False,
    points: Annotated[int, typer.Option(help="Most points to use; more are drawn at random.", min=2)] = 5000,
    runs: Annotated[int, typer.Option(help="Runs of each method.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for comparison.json, .csv, .svg and .png, written over.", file_okay=False),
    ] = None,
) -> None:
    """Error against memory of all methods on your own data, as a table and, with --out, as a picture."""
    for each in method or ():
        _check_name(each, METHODS, "method")
    with _errors_said(), _warnings_said(), _ended_cleanly():
        X = _points(file, target, raw, points, seed)
        chosen = getattr(kernels, kernel.value.capitalize())(bandwidth)
        if out is not None:
            plotting.panels(1)
            out.mkdir(parents=True, exist_ok=True)
        with _bars():
            result = compare_methods(
                X, chosen, methods=method or METHODS, budgets=memory or BUDGETS, runs=runs, seed=seed
            )
        _out.print(f"Relative errors by floats per point: {escape(result.experiment.title)}", highlight=False)
        _out.print(_errors_table(result))
        for note in dict.fromkeys(row["note"] for row in result.rows if "note" in row):
            _out.print(f"[dim]{escape(note)}[/]")
        _out.print(escape(result.verdict().sentence))
        if out is not None:
            result.save(out)
            result.draw(out)
            _out.print(f"In {out}: comparison.json, .csv, .svg and .png", highlight=False)


def _points(file: Path, target: str | None, raw: bool, most: int, seed: int) -> FloatArray:
    X = datasets.load_file(file, target=_column(target)).X
    if len(X) > most:
        _err.print(f"{most} of the {len(X)} points, drawn at random; --points for more.", highlight=False)
        X = X[np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))]
    return X if raw else datasets.standardized(X)


def _column(target: str | None) -> str | int | None:
    """A column's number where the text is one, from the end where negative; else its name."""
    try:
        return None if target is None else int(target)
    except ValueError:
        return target


def _errors_table(result: Result) -> Table:
    """Mean error and spread of each method at each budget, the best of each budget in bold."""
    budgets = result.distinct("floats")
    means = {floats: mean_errors(result, floats=floats) for floats in budgets}
    columns = (Column(f"{floats} floats", overflow="fold") for floats in budgets)
    table = Table(Column("method", overflow="fold"), *columns)
    for method in result.distinct("method"):
        cells = []
        for floats in budgets:
            if method not in means[floats]:
                cells.append("-")
                continue
            mean = means[floats][method]
            several = len(result.where(method=method, floats=floats)) > 1
            cell = f"{mean:.2e}" + (f" ± {spread(result, method=method, floats=floats):.0e}" if several else "")
            cells.append(f"[bold]{cell}[/]" if mean == min(means[floats].values()) else cell)
        table.add_row(LABELS[method], *cells)
    return table


# --- data ------------------------------------------------------------------------------------------------------------


@app.command()
def data(name: Annotated[str, typer.Argument(help="A data set to fetch; without it they are listed.")] = "") -> None:
    """List the paper's data sets and where they are, or fetch one into the cache."""
    with _errors_said():
        if not name:
            _list_data()
            return
        _check_name(name, datasets.NAMES, "data set")
        found = datasets.load(name, standardize=False)
        _out.print(f"{found}\n{escape(found.description)}\n{escape(found.source)}", highlight=False)
        _out.print(f"At {datasets.find(name)}", highlight=False)


def _list_data() -> None:
    table = Table("name", "points", "task", "here", box=None)
    table.add_column("from", overflow="fold")
    for recipe in RECIPES.values():
        place = datasets.find(recipe.name)
        absent = "no" if recipe.download is not None else "bring it"
        size = f"{recipe.shape[0]} x {recipe.shape[1]}"
        table.add_row(recipe.name, size, recipe.task, absent if place is None else "yes", escape(recipe.source))
    _out.print(table)
    _out.print(f"\nblockbasis data NAME fetches one into {datasets.cache_directory()}.", highlight=False)


# --- demo ------------------------------------------------------------------------------------------------------------


@app.command()
def demo() -> None:
    """Compress a kernel matrix of 50,000 points, measure the error, multiply by it."""
    run_demo()
