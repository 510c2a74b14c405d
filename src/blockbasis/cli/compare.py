"""Command compare: error against memory of all methods, on the points of a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Column, Table

from blockbasis import datasets, kernels
from blockbasis._utils.typing import FloatArray
from blockbasis.cli.console import (
    check_name,
    exit_on_sigterm,
    print_errors,
    print_warnings,
    progress_bars,
    stderr,
    stdout,
)
from blockbasis.experiments import Result
from blockbasis.experiments import compare as compare_methods
from blockbasis.experiments.comparison import BUDGETS
from blockbasis.experiments.framework.curves import LABELS, METHODS, mean_errors, spread
from blockbasis.report import figures


class KernelName(StrEnum):
    """Kernels whose only parameter is the bandwidth."""

    gaussian = "gaussian"
    laplacian = "laplacian"
    cauchy = "cauchy"


def compare(
    file: Annotated[Path, typer.Argument(help="File with the points: CSV, NPZ, NPY, Parquet or LIBSVM.")],
    bandwidth: Annotated[
        float, typer.Option("--bandwidth", "-b", help="Bandwidth of the kernel, in units of the columns used.")
    ],
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
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale the columns to standard deviation 1.")] = False,
    points: Annotated[
        int, typer.Option(help="Largest number of points; of more points a random sample is used.", min=2)
    ] = 5000,
    runs: Annotated[int, typer.Option(help="Runs of each method.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for comparison.json, .csv, .svg and .png; existing files are replaced.", file_okay=False
        ),
    ] = None,
) -> None:
    """Compare the error of all methods at the same memory, as a table and, with --out, as a figure."""
    for each in method or ():
        check_name(each, METHODS, "method")
    with print_errors(), print_warnings(), exit_on_sigterm():
        X = _points(file, target, raw, points, seed)
        chosen = getattr(kernels, kernel.value.capitalize())(bandwidth)
        if out is not None:
            figures.panels(1)
            out.mkdir(parents=True, exist_ok=True)
        with progress_bars():
            result = compare_methods(
                X, chosen, methods=method or METHODS, budgets=memory or BUDGETS, runs=runs, seed=seed
            )
        stdout.print(f"Relative errors by floats per point: {escape(result.experiment.title)}", highlight=False)
        stdout.print(_errors_table(result))
        for note in dict.fromkeys(row["note"] for row in result.rows if "note" in row):
            stdout.print(f"[dim]{escape(note)}[/]")
        stdout.print(escape(result.verdict().sentence))
        if out is not None:
            result.save(out)
            result.draw(out)
            stdout.print(f"In {out}: comparison.json, .csv, .svg and .png", highlight=False)


def _points(file: Path, target: str | None, raw: bool, most: int, seed: int) -> FloatArray:
    X = datasets.load_file(file, target=_column(target)).X
    if len(X) > most:
        stderr.print(f"{most} of the {len(X)} points, drawn at random; --points for more.", highlight=False)
        X = X[np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))]
    return X if raw else datasets.standardized(X)


def _column(target: str | None) -> str | int | None:
    """Return the number of a column, negative from the end, if the text is an integer; otherwise its name."""
    try:
        return None if target is None else int(target)
    except ValueError:
        return target


def _errors_table(result: Result) -> Table:
    """Return a table of the mean error and its standard deviation of each method at each budget, the best in bold."""
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
