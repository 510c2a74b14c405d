"""Command demo: fit a model to data with a known answer, and compress the kernel matrix of 200,000 points."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.padding import Padding
from sklearn.datasets import make_friedman1

import blockbasis as bb
from blockbasis._utils.files import in_bytes
from blockbasis._utils.typing import FloatArray
from blockbasis.cli import options
from blockbasis.cli.console import Output, StageClock, progress_bars, running
from blockbasis.cli.descriptions import chosen_line, scorecard_table
from blockbasis.cli.reporting import check_report, command_line, write_report
from blockbasis.datasets import unit_cube_mixture
from blockbasis.report import DataTable, Page, Section, factorization_page, model_page
from blockbasis.tables.checks import check_data
from blockbasis.tables.fitting import Evaluation, fit_prepared, prepare_table
from blockbasis.tables.model import TableModel
from blockbasis.tables.table import Table

#: Rows of the regression, of which a fifth are for the test, and the standard deviation of their noise, which is the
#: least error that any model can have.
ROWS, NOISE = 2_000, 1.0
#: Points of the kernel matrix, their dimension, the bandwidth, and the relative error asked for.
N, DIMENSION, BANDWIDTH, TOL = 200_000, 5, 0.5, 1e-3
#: Rows on which the time of the exact product is measured.
EXACT_ROWS = 500

T = TypeVar("T")


def demo(
    report: Annotated[Path, typer.Option("--report", help="Page to write.")] = Path("report.html"),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Fit a model to generated data, compress a kernel matrix of 200,000 points, and write report.html."""
    output = Output(quiet, json, debug)
    with running(output):
        start = time.perf_counter()
        path = None if no_report else report
        check_report(path, force=force)
        model, evaluation, page = _regression(output, seed, jobs)
        A, measured, structure = _compression(output, seed, jobs)
        assert model.scorecard is not None
        if path is not None:
            write_report(_joined(page, structure, measured), path.absolute(), output)
        output.say(f"In {time.perf_counter() - start:.0f} s in all")
        errors = {score.name: score.error for score in model.scorecard.scores}
        output.finish({"errors": errors, **measured, "report": None if path is None else str(path.absolute())})


def friedman_table() -> Table:
    """Return Friedman's first regression problem, of ten columns of which five matter, as a table."""
    X, y = make_friedman1(ROWS, noise=NOISE, random_state=0)
    return Table((*(f"x{j + 1}" for j in range(X.shape[1])), "y"), (*X.T, y), "generated data")


def _regression(output: Output, seed: int, jobs: int | None) -> tuple[TableModel, Evaluation, Page]:
    output.say(
        f"1. Regression: {ROWS:,} rows, 10 columns of which only x1 to x5 matter, noise of standard deviation {NOISE:g}"
    )
    clock = StageClock()
    prepared = prepare_table(friedman_table(), "y", seed=seed)
    with progress_bars(shown=output.verbose, clock=clock):
        model, evaluation = fit_prepared(prepared, random_state=seed, n_jobs=jobs, verbose=1)
    clock.add("test, with the simple models")
    assert model.scorecard is not None
    output.say(f"   fitted in {model.seconds:.1f} s: {chosen_line(model)}")
    output.say(Padding(scorecard_table(model.scorecard), (0, 0, 0, 2)))
    output.say(f"   {model.scorecard.verdict} No model can have an error below the noise, {NOISE:g}.")
    page = model_page(model, evaluation, findings=check_data(prepared), stages=clock.seconds, command=command_line())
    return model, evaluation, page


def _compression(output: Output, seed: int, jobs: int | None) -> tuple[bb.BlockBasis, dict[str, Any], Page]:
    X = unit_cube_mixture(N, DIMENSION, rng=0)
    kernel = bb.Gaussian(BANDWIDTH)
    v = np.random.default_rng(1).standard_normal(N)
    output.say(
        f"2. Compression: {N:,} points in {DIMENSION} dimensions, kernel exp(-|x - y|²/h²) with h = {BANDWIDTH:g}, "
        f"relative error {TOL:g}"
    )
    clock = StageClock()
    with progress_bars(shown=output.verbose, clock=clock):
        build, A = _timed(lambda: bb.factorize(X, kernel, tol=TOL, rng=seed, n_jobs=jobs, progress=True))
    product, result = _timed(lambda: A @ v)
    part_seconds, part = _timed(lambda: _exact_rows(kernel, X, v))
    exact = part_seconds * N / EXACT_ROWS
    difference = float(np.linalg.norm(result[:EXACT_ROWS] - part) / np.linalg.norm(part))
    assert A.error_estimate is not None
    dense = 8 * N**2
    rows = [
        ("dense matrix", in_bytes(dense)),
        ("factorization", f"{in_bytes(A.nbytes)}, {dense / A.nbytes:.0f} times less"),
        ("relative error", f"{A.error_estimate.value:.1e} (Frobenius norm, from sampled exact entries)"),
        ("built in", f"{build:.1f} s, from {A.entries.total / N**2:.2%} of the entries"),
        ("one product", f"{product:.3f} s"),
        ("one exact product", f"{exact:.0f} s (measured on {EXACT_ROWS:,} rows)"),
        ("build and product", f"{exact / (build + product):.0f} times faster than one exact product"),
        ("difference", f"{difference:.1e} relative, for a random vector"),
    ]
    for name, text in rows:
        output.say(f"   {name:18} {text}")
    measured = {
        "error": A.error_estimate.value,
        "bytes": A.nbytes,
        "dense_bytes": dense,
        "build_seconds": build,
        "product_seconds": product,
        "exact_product_seconds": exact,
        "product_difference": difference,
    }
    table = Section("Product with a vector", "", table=DataTable(("what", "measured"), rows))
    page = factorization_page(A, title=f"Kernel matrix of {N:,} points", stages=clock.seconds)
    return A, measured, Page(page.title, page.summary, page.facts, [table, *page.sections], page.command)


def _joined(model: Page, structure: Page, measured: dict[str, Any]) -> Page:
    """Return one page about both parts."""
    sections = [
        Section("1. A regression with a known answer", list(model.summary), wide=True),
        *model.sections,
        Section("2. " + structure.title, list(structure.summary), wide=True),
        *structure.sections,
    ]
    factor = measured["exact_product_seconds"] / (measured["build_seconds"] + measured["product_seconds"])
    facts = [*model.facts[:1], *structure.facts[:1], ("against one exact product", f"{factor:.0f} times faster")]
    summary = [
        (
            "Two things that this library does: it fits models to tables, and it compresses kernel matrices that are "
            "too large for memory."
        )
    ]
    return Page("blockbasis: a demonstration", summary, facts, sections, model.command)


def _exact_rows(kernel: bb.Gaussian, X: FloatArray, v: FloatArray) -> FloatArray:
    return np.asarray(bb.ExactCrossKernel(X[:EXACT_ROWS], X, kernel) @ v)


def _timed(job: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result
