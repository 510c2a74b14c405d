"""Command fit: a model of a table, with a scorecard."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from blockbasis._utils.typing import IntArray
from blockbasis.cli import options
from blockbasis.cli.console import Output, StageClock, progress_bars, running
from blockbasis.cli.descriptions import chosen_line, model_facts, scorecard_table
from blockbasis.cli.files import check_output, named, size_of
from blockbasis.cli.folders import check_source, summing
from blockbasis.cli.reporting import check_report, command_line, write_report
from blockbasis.exceptions import PerformanceWarning
from blockbasis.operators.storage import save
from blockbasis.report import model_page
from blockbasis.tables.checks import check_data
from blockbasis.tables.encoding import TableEncoder
from blockbasis.tables.fitting import fit_prepared, prepare_table, tested_again
from blockbasis.tables.folders import count_rows, learn_others, sample_table
from blockbasis.tables.model import TableModel
from blockbasis.tables.reading import read_names, read_table
from blockbasis.tables.scorecard import OURS, recalls
from blockbasis.tables.sources import reading_kinds
from blockbasis.tables.table import Table, listed

#: Most classes whose recall is printed.
_CLASSES = 12


def fit(
    file: options.FileOrFolder,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column to predict, by name or number.", show_default=False)
    ],
    out: options.Out = Path("model.bbf"),
    task: options.Task = None,
    column: options.Columns = None,
    test_size: options.TestSize = 0.2,
    time_budget: options.TimeBudget = None,
    cluster: options.Cluster = None,
    report: options.Report = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Fit a model to a table, and compare it with the mean and with a linear model on rows left out for the test.

    Text columns become one-hot or ordinal codes, dates become numbers, and missing values are imputed with an
    indicator; all of it is part of the saved model. Kernel, metric, bandwidth and ridge are chosen from the data. Of a
    directory of Parquet files, at most 100,000 rows choose and test, and the others are then learnt piece by piece.
    """
    output = Output(quiet, json, debug)
    with running(output):
        check_source(file, cluster)
        check_output(out, force=force)
        check_report(report, force=force)
        kinds = options.column_kinds(column)
        start = time.perf_counter()
        table, sampled = _read(file, (target, *kinds), kinds, seed, output)
        if sampled is None:
            output.say(f"{file}: {table.n_rows} rows, {len(table.names)} columns")
        else:
            drawn = f"{table.n_rows} drawn at random to choose and test"
            output.say(f"{file}: {count_rows(file)} rows in {len(sampled)} files, {drawn}, {len(table.names)} columns")
        prepared = prepare_table(
            table,
            target,
            task=None if task is None else task.value,
            kinds=kinds,
            test_size=test_size,
            seed=seed,
        )
        for line in (*prepared.encoder.sentences, *_plain_columns(prepared.encoder), *prepared.notes):
            output.say(f"  {line}")
        findings = check_data(prepared)
        for line in findings:
            if line.startswith("The column"):
                output.note(line)
        chosen = {"time_budget": time_budget, "n_jobs": jobs, "random_state": seed, "verbose": 1}
        clock = StageClock()
        with progress_bars(shown=output.verbose, clock=clock), _without_budget_warning(sampled is not None):
            model, evaluation = fit_prepared(prepared, **chosen)
        if sampled is not None:
            output.say(f"{model.rows} rows determine the basis functions. The rows that were not drawn are learnt.")
            with summing(cluster) as summed:
                model, evaluation = tested_again(learn_others(model, file, sampled, summed), prepared)
        clock.add("test, with the simple models")
        _save(model, out)
        found = [] if evaluation.probabilities is None else recalls(prepared.y_test, evaluation.predictions[OURS])
        _print(output, model, found)
        output.say(f"Model: {out} ({size_of(out)}), in {time.perf_counter() - start:.1f} s in all")
        if report is not None:
            page = model_page(model, evaluation, findings=findings, stages=clock.seconds, command=command_line())
            write_report(page, report, output)
        output.finish(
            {**model_facts(model), "out": str(out), "notes": prepared.notes, "findings": findings, **_facts(found)}
        )


def _read(
    file: Path, needed: Sequence[str], kinds: dict[str, str], seed: int, output: Output
) -> tuple[Table, list[IntArray] | None]:
    """Return a table, and of a directory, of which it is a sample, its rows in each file.

    Columns that are needed and absent are an error before the rows are read.
    """
    if file.is_dir():
        return sample_table(file, seed)
    if (names := read_names(file)) is not None:
        for name in needed:
            names.place(name)
    with progress_bars(shown=output.verbose):
        return read_table(file, kinds=reading_kinds(kinds)), None


@contextmanager
def _without_budget_warning(directory: bool) -> Iterator[None]:
    """Context without the warning that a budget excludes rows: of a directory, more rows are learnt afterwards."""
    with warnings.catch_warnings():
        if directory:
            warnings.filterwarnings("ignore", "time_budget=.* is too short for all", PerformanceWarning)
        yield


def _save(model: TableModel, out: Path) -> None:
    try:
        save(model, out)
    except OSError as error:
        raise named(error, out) from None


def _plain_columns(encoder: TableEncoder) -> list[str]:
    """Return a line with the names of the columns of numbers that are used as they are."""
    names = [column.name for column in encoder.columns if not column.sentence]
    return [f"other columns: numbers ({listed(names)})"] if names else []


def _facts(found: list[tuple[str, float, int]]) -> dict[str, Any]:
    """Return the recall of each class, for JSON."""
    return {"recall": {name: {"recall": share, "rows": rows} for name, share, rows in found}} if found else {}


def _print(output: Output, model: TableModel, found: list[tuple[str, float, int]]) -> None:
    output.say(f"{model.task.capitalize()} of {model.target}, fitted to {model.rows} rows in {model.seconds:.1f} s")
    output.say(f"Chosen: {chosen_line(model)}")
    if model.scorecard is None:
        output.say("No test rows (--test-size 0): the error of the model is not known.")
        return
    output.say(f"Errors at {model.scorecard.rows} test rows, ± one standard error:")
    output.say(scorecard_table(model.scorecard))
    if model.scorecard.r2 is not None:
        output.say(f"R² of the kernel model: {model.scorecard.r2:.3f}")
    if 0 < len(found) <= _CLASSES:
        shares = ", ".join(f"{name} {share:.0%} of {rows}" for name, share, rows in found)
        output.say(f"Test rows predicted correctly by class: {shares}")
    output.say(model.scorecard.verdict)
