"""Command compare: error against memory and time of all methods, on the points of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from blockbasis import datasets
from blockbasis._utils.parallel import at_most
from blockbasis._utils.typing import FloatArray
from blockbasis.cli import options
from blockbasis.cli.console import Output, check_name, progress_bars, running, stdout
from blockbasis.cli.files import check_output
from blockbasis.cli.points import make_kernel, read_points
from blockbasis.cli.reporting import check_report, command_line, write_report
from blockbasis.experiments.comparison import BUDGETS, draw_memory, draw_time
from blockbasis.experiments.comparison import compare as compare_methods
from blockbasis.experiments.framework.base import Result
from blockbasis.experiments.framework.curves import LABELS, METHODS, mean_errors, mean_seconds, spread
from blockbasis.report import DataTable, Page, Section, figures
from blockbasis.tables.reading import check_file

#: Width of a terminal in which every table fits.
_ANY_WIDTH = 10_000
#: Names of the files in the folder that --out names.
_FILES = ("comparison.json", "comparison.csv", "comparison.svg", "comparison.png")


def compare(
    file: options.File,
    bandwidth: options.Bandwidth = None,
    kernel: options.Kernel = options.KernelName.gaussian,
    memory: Annotated[
        list[int] | None,
        typer.Option(
            metavar="FLOATS",
            help=f"Floats per point; may be given several times. Default: {', '.join(map(str, BUDGETS))}.",
            min=3,
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help=f"One of {', '.join(METHODS)}; may be given several times. Default: all."),
    ] = None,
    target: options.Target = None,
    raw: options.Raw = False,
    points: Annotated[
        int, typer.Option(help="Largest number of points; of more points a random sample is used.", min=2)
    ] = 5000,
    runs: Annotated[int, typer.Option(help="Runs of each method.", min=1)] = 3,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=f"Folder for {', '.join(_FILES)}.", file_okay=False)
    ] = None,
    report: options.Report = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Compare the errors and the seconds of all methods at the same memory, as a table and, with --out, as a figure."""
    output = Output(quiet, json, debug)
    for each in method or ():
        check_name(each, METHODS, "method")
    with running(output):
        check_file(file)
        check_report(report, force=force)
        if out is not None:
            figures.panels(1)
            out.mkdir(parents=True, exist_ok=True)
            for name in _FILES:
                check_output(out / name, force=force)
        X = _points(file, target, raw, points, seed, output)
        chosen, h = make_kernel(kernel, bandwidth, X, raw=True)
        with progress_bars(shown=output.verbose), at_most(jobs):
            result = compare_methods(
                X, chosen, methods=method or METHODS, budgets=memory or BUDGETS, runs=runs, seed=seed
            )
        _print(result, output)
        if out is not None:
            result.save(out)
            result.draw(out)
            output.say(f"In {out}: {', '.join(_FILES)}")
        if report is not None:
            write_report(_page(result), report, output)
        output.finish(_summary(result, h))


def _points(file: Path, target: str | None, raw: bool, most: int, seed: int, output: Output) -> FloatArray:
    X = read_points(file, target)
    if len(X) < 2:
        raise ValueError(f"{file} must have at least 2 points: one point names no winner.")
    if len(X) > most:
        output.note(f"{most} of the {len(X)} points, drawn at random; --points for more.")
        X = X[np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))]
    return X if raw else datasets.standardized(X)


def _print(result: Result, output: Output) -> None:
    output.say(f"Relative errors and seconds by floats per point: {result.experiment.title}")
    output.say(_errors_table(result, stdout.width))
    for note in dict.fromkeys(row["note"] for row in result.rows if "note" in row):
        output.note(note)
    sentence = result.verdict().sentence
    output.say(sentence[0].upper() + sentence[1:])


def _summary(result: Result, h: float) -> dict[str, Any]:
    rows = [
        {
            "method": method,
            "floats_per_point": floats,
            "error": mean if np.isfinite(mean) else None,
            "seconds": mean_seconds(result, floats=floats)[method],
        }
        for floats in result.distinct("floats")
        for method, mean in mean_errors(result, floats=floats).items()
    ]
    return {"points": result.rows[0]["points"], "bandwidth": h, "rows": rows, "verdict": result.verdict().sentence}


def _page(result: Result) -> Page:
    by_memory, by_time = _figure_axes(), _figure_axes()
    draw_memory(result, by_memory)
    draw_time(result, by_time)
    by_time.set_ylim(by_memory.get_ylim())
    for axes in (by_memory, by_time):
        figures.shared_legend(axes.figure, axes, columns=2)
    text = "BBF is the block basis factorization of this library. Lower is better, at the same memory."
    lines = f"{len(result.distinct('method'))} methods, whose errors and seconds are in the table below."
    sections = [
        Section("Error against memory", text, by_memory, f"Relative error against floats per point of {lines}"),
        Section(
            "Error against time",
            "To the left is faster. A marker is one budget of memory; the time of a factorization includes its plan.",
            by_time,
            f"Relative error against seconds of {lines}",
        ),
        Section("Errors and seconds", "", table=_page_table(result), wide=True),
    ]
    sentence = result.verdict().sentence
    summary = [f"{result.experiment.title}.", sentence[0].upper() + sentence[1:]]
    return Page("Comparison of methods", summary, (), sections, command_line())


def _figure_axes() -> Any:
    """Return the axes of a figure with room for a legend below, which is legible on a phone."""
    axes = figures.new_axes()
    axes.figure.set_size_inches(4.2, 4.4)
    return axes


def _page_table(result: Result) -> DataTable:
    """Return the mean error and the seconds of each method at each budget."""
    budgets = result.distinct("floats")
    means = {floats: mean_errors(result, floats=floats) for floats in budgets}
    times = {floats: mean_seconds(result, floats=floats) for floats in budgets}
    rows = [
        (
            LABELS[method],
            *(
                f"{means[floats][method]:.2e}, {times[floats][method]:.2g} s" if method in means[floats] else "-"
                for floats in budgets
            ),
        )
        for method in result.distinct("method")
    ]
    return DataTable(("method", *(f"{floats} floats per point" for floats in budgets)), rows)


def _errors_table(result: Result, width: int) -> Table:
    """Return a table of the mean error, its standard deviation and the seconds of each method, the best in bold.

    It has a column for each budget; where these do not fit in the width, it has a row for each.
    """
    budgets = result.distinct("floats")
    cells = {(m, floats): _cells(result, m, floats) for m in result.distinct("method") for floats in budgets}
    wide = Table(
        Column("method", overflow="fold"), *(Column(f"{floats} floats", overflow="fold") for floats in budgets)
    )
    for each in result.distinct("method"):
        wide.add_row(LABELS[each], *(", ".join(filter(None, cells[each, floats])) for floats in budgets))
    if Console(width=_ANY_WIDTH).measure(wide).maximum <= width:
        return wide
    names = ("method", "floats", "error", "seconds")
    narrow = Table(*(Column(name, overflow="fold") for name in names), box=None)
    for each in result.distinct("method"):
        for floats in budgets:
            narrow.add_row(LABELS[each], str(floats), *cells[each, floats])
    return narrow


def _cells(result: Result, method: str, floats: int) -> tuple[str, str]:
    """Return the error and the seconds of a method at a budget as text; "-" and nothing where it was not measured."""
    means = mean_errors(result, floats=floats)
    if method not in means:
        return "-", ""
    several = len(result.where(method=method, floats=floats)) > 1
    error = f"{means[method]:.2e}" + (f" ± {spread(result, method=method, floats=floats):.0e}" if several else "")
    best = means[method] == min(means.values())
    return f"[bold]{error}[/]" if best else error, f"{mean_seconds(result, floats=floats)[method]:.2g} s"
