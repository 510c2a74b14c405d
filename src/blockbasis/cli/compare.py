"""Error against memory of all methods, on the points of a file."""

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
from blockbasis.cli.console import bars, check_name, ended_cleanly, errors_said, stderr, stdout, warnings_said
from blockbasis.experiments import Result
from blockbasis.experiments import compare as compare_methods
from blockbasis.experiments.comparison import BUDGETS
from blockbasis.experiments.framework.curves import LABELS, METHODS, mean_errors, spread
from blockbasis.report import figures


class KernelName(StrEnum):
    """Kernels with a bandwidth alone."""

    gaussian = "gaussian"
    laplacian = "laplacian"
    cauchy = "cauchy"


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
        check_name(each, METHODS, "method")
    with errors_said(), warnings_said(), ended_cleanly():
        X = _points(file, target, raw, points, seed)
        chosen = getattr(kernels, kernel.value.capitalize())(bandwidth)
        if out is not None:
            figures.panels(1)
            out.mkdir(parents=True, exist_ok=True)
        with bars():
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
