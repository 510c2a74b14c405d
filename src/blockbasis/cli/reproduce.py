"""Command reproduce: the figures and tables of the paper."""

from __future__ import annotations

import os
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from blockbasis.cli import options
from blockbasis.cli.console import Output, check_name, fail, progress_bars, running, stderr
from blockbasis.experiments.framework.base import Experiment, Result
from blockbasis.experiments.framework.running import processes, read, run
from blockbasis.experiments.pages import write_index
from blockbasis.experiments.registry import EXPERIMENTS
from blockbasis.report import figures

_ALL = "all"


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Figure or table, or 'all'; without a name, all are listed.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and fewer measurements: minutes, not hours.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results.", file_okay=False)] = None,
    page: Annotated[Path | None, typer.Option(help="Where to write the Markdown page.", dir_okay=False)] = None,
    seed: options.Seed = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Processes; by default one for each core.", min=1)
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Reproduce figures and tables of the paper, and report whether its claims hold.

    The results are written to OUT as JSON, CSV, SVG and PNG files, with an index page. Parts that OUT already has, with
    the same settings, are not measured again, so that an interrupted run continues where it stopped.
    """
    output = Output(quiet, json, debug)
    if not name:
        _list_experiments(output)
        return
    check_name(name, [_ALL, *EXPERIMENTS], "figure or table")
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    chosen = list(EXPERIMENTS.values()) if name == _ALL else [EXPERIMENTS[name]]
    with running(output, interrupted="Interrupted. The same command goes on from here."):
        # Missing dependencies and folders are reported before the measurements.
        figures.panels(1)
        for each in (folder, *([] if page is None else [page.parent])):
            each.mkdir(parents=True, exist_ok=True)
            if not os.access(each, os.W_OK):
                fail(f"Nothing can be written to {each}.")
        settings: dict[str, Any] = {"quick": quick, "folder": folder, "seed": seed}
        at_once = processes() if jobs is None else jobs
        results = [_run_and_report(experiment, output, n_processes=at_once, **settings) for experiment in chosen]
        command = f"blockbasis reproduce {_ALL}{' --quick' if quick else ''}{f' --seed {seed}' if seed else ''}"
        known = [read(experiment, **settings) for experiment in EXPERIMENTS.values()]
        paths = write_index([result for result in known if result is not None], folder, command=command, page=page)
        output.say(f"\nAll results so far: {paths[0]}, {paths[1]}")
        done = [_facts(result) for result in results if result is not None]
        output.finish({"results": done, "pages": [str(path) for path in paths]})
    if any(result is None for result in results):
        raise typer.Exit(1)


def _run_and_report(experiment: Experiment, output: Output, *, folder: Path, **settings: Any) -> Result | None:
    """Run an experiment and return its result; a failure is printed, gives None and does not stop the others."""
    try:
        with progress_bars(shown=output.verbose):
            result = run(experiment, folder=folder, **settings)
        if result.parts:
            result.draw(folder)
        verdict = result.verdict()
    except BrokenExecutor:
        reason = "A process was ended from outside, for want of memory most likely. What is finished is kept."
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        if output.debug:
            raise
        reason = f"{type(error).__name__}: {error}"
    else:
        colour = "green" if verdict.holds else "red"
        mark = Text.from_markup(f"[bold]{experiment.name}[/] [{colour}]{verdict.mark}[/]")
        output.say(mark.append(f" (measured in {result.seconds:.0f} s). {verdict.sentence}"))
        return result if result.parts else None
    stderr.print(f"[bold]{experiment.name}[/] [red]failed:[/] {escape(reason)}")
    return None


def _facts(result: Result) -> dict[str, Any]:
    """Return the verdict of an experiment, for JSON."""
    verdict = result.verdict()
    return {
        "name": result.experiment.name,
        "section": result.experiment.section,
        "holds": verdict.holds,
        "verdict": verdict.mark,
        "sentence": verdict.sentence,
        "seconds": result.seconds,
    }


def _list_experiments(output: Output) -> None:
    table = Table(Column("name", no_wrap=True), "section", "what it shows", box=None)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.section, experiment.title)
    output.say(table)
    output.say("\nblockbasis reproduce NAME, or all; --quick for smaller ones.")
    rows = [{"name": each.name, "section": each.section, "title": each.title} for each in EXPERIMENTS.values()]
    output.finish({"figures": rows})
