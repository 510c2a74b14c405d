"""Command reproduce: the figures and tables of the paper."""

from __future__ import annotations

import os
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from blockbasis.cli.console import (
    check_name,
    exit_on_sigterm,
    fail,
    print_errors,
    print_warnings,
    progress_bars,
    stderr,
    stdout,
)
from blockbasis.experiments.framework.base import Experiment, Result
from blockbasis.experiments.framework.running import processes, read, run
from blockbasis.experiments.pages import write_index
from blockbasis.experiments.registry import EXPERIMENTS
from blockbasis.report import figures

_ALL = "all"


def reproduce(
    name: Annotated[str, typer.Argument(help="Figure or table, or 'all'; without a name, all are listed.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer measurements: minutes, not hours.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", file_okay=False)] = None,
    page: Annotated[Path | None, typer.Option(help="Where to write the Markdown page.", dir_okay=False)] = None,
) -> None:
    """Reproduce figures and tables of the paper, and report whether its claims hold.

    The results are written to OUT as JSON, CSV, SVG and PNG files, with an index page. Parts that OUT already has, with
    the same settings, are not measured again, so that an interrupted run continues where it stopped.
    """
    if not name:
        _list_experiments()
        return
    check_name(name, [_ALL, *EXPERIMENTS], "figure or table")
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    chosen = list(EXPERIMENTS.values()) if name == _ALL else [EXPERIMENTS[name]]
    with print_errors("Interrupted. The same command goes on from here."), print_warnings(), exit_on_sigterm():
        # Missing dependencies and folders are reported before the measurements.
        figures.panels(1)
        for each in (folder, *([] if page is None else [page.parent])):
            each.mkdir(parents=True, exist_ok=True)
            if not os.access(each, os.W_OK):
                fail(f"Nothing can be written to {each}.")
        failed = [experiment.name for experiment in chosen if not _run_and_report(experiment, quick, folder)]
        command = f"blockbasis reproduce {_ALL}{' --quick' if quick else ''}"
        known = [read(experiment, folder, quick=quick) for experiment in EXPERIMENTS.values()]
        found = [result for result in known if result is not None]
        paths = write_index(found, folder, command=command, page=page)
    stdout.print(f"\nAll results so far: {paths[0]}, {paths[1]}", highlight=False)
    if failed:
        raise typer.Exit(1)


def _run_and_report(experiment: Experiment, quick: bool, folder: Path) -> bool:
    """Run an experiment and return whether it has results; a failure is printed and does not stop the others."""
    try:
        with progress_bars():
            result = run(experiment, quick=quick, folder=folder, n_processes=processes())
        _report(result, folder)
    except BrokenExecutor:
        reason = "A process was ended from outside, for want of memory most likely. What is finished is kept."
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
    else:
        return bool(result.parts)
    stderr.print(f"[bold]{experiment.name}[/] [red]failed:[/] {escape(reason)}")
    return False


def _report(result: Result, folder: Path) -> None:
    if result.parts:
        result.draw(folder)
    verdict = result.verdict()
    colour = "green" if verdict.holds else "red"
    mark = f"[{colour}]{verdict.mark}[/]"
    stdout.print(
        f"[bold]{result.experiment.name}[/] {mark} (measured in {result.seconds:.0f} s). {escape(verdict.sentence)}"
    )


def _list_experiments() -> None:
    table = Table(Column("name", no_wrap=True), "section", "what it shows", box=None)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.section, experiment.title)
    stdout.print(table)
    stdout.print("\nblockbasis reproduce NAME, or all; --quick for smaller ones.")
