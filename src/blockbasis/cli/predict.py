"""Command predict: predictions of a saved model for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from blockbasis._utils.progress import counting
from blockbasis._utils.typing import FloatArray
from blockbasis.cli import options
from blockbasis.cli.console import Output, progress_bars, running
from blockbasis.cli.files import TABLES, check_output, csv_text, write_table
from blockbasis.cli.folders import check_source, mapping
from blockbasis.operators.archive import StorageError
from blockbasis.operators.storage import load
from blockbasis.tables.categories import find_codes
from blockbasis.tables.encoding import check_columns, encode, encode_new
from blockbasis.tables.folders import parquet_files, pieces
from blockbasis.tables.model import TableModel
from blockbasis.tables.reading import FORMATS, read_names
from blockbasis.tables.scorecard import classification_scorecard, regression_scorecard
from blockbasis.tables.table import Table, missing

#: Rows that are predicted at a time.
_PIECE = 50_000
#: Columns of the output, the target or None, and notes.
Part: TypeAlias = tuple[dict[str, Any], Any, list[str]]


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model that fit has written.", show_default=False)],
    file: options.FileOrFolder,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV or Parquet file; default: CSV on the standard output."),
    ] = None,
    interval: options.Interval = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="NAME", help="Column of FILE to copy; may be given several times."),
    ] = None,
    cluster: options.Cluster = None,
    jobs: options.Jobs = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict the target of each row of a table; columns are found by name, in any order.

    If the table has the target, the error of the predictions is printed as well.
    """
    output = Output(quiet, json, debug)
    with running(output):
        found = load_model(model)
        check_source(file, cluster)
        check_output(out, force=force, endings=TABLES)
        _check_options(found, interval, proba)
        found.estimator.set_params(n_jobs=jobs)
        asked = (tuple(keep or ()), interval, proba)
        if not file.is_dir() and (names := read_names(file)) is not None:
            check_columns(found.encoder, names)
            for name in keep or ():
                names.place(name)
        with progress_bars(shown=output.verbose):
            parts = _of_folder(found, file, cluster, asked) if file.is_dir() else _of_single(found, file, asked)
        if not parts:
            raise ValueError(f"The files of {file} have no rows.")
        if len({known is None for _, known, _ in parts}) > 1:
            raise ValueError(f"The target {found.target!r} must be in all files of {file} or in none.")
        for note in dict.fromkeys(note for _, _, notes in parts for note in notes):
            output.note(note)
        columns = {name: np.concatenate([own[name] for own, _, _ in parts]) for name in parts[0][0]}
        truth = None if parts[0][1] is None else np.concatenate([known for _, known, _ in parts])
        if truth is not None:
            _print_error(found, truth, columns["prediction"], output)
        _write(columns, out, output)


def load_model(path: Path) -> TableModel:
    """Return the model of a file; raise a ValueError if the file holds another object of the package."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the path of a model.")
    try:
        found = load(path)
    except StorageError:
        if path.suffix.lower() not in FORMATS:
            raise
        raise ValueError(f"{path} is a table, and not a model. Usage: blockbasis predict MODEL FILE.") from None
    if not isinstance(found, TableModel):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, and not a model of a table. blockbasis fit writes such a model."
        )
    return found


def _check_options(model: TableModel, interval: float | None, proba: bool) -> None:
    if interval is not None and model.task != "regression":
        raise ValueError("--interval needs a regression, and the model is a classification. Use --proba.")
    if proba and model.task != "classification":
        raise ValueError("--proba needs a classification, and the model is a regression. Use --interval 0.9.")


def _of_single(model: TableModel, path: Path, asked: tuple[Any, ...]) -> list[Part]:
    """Return the columns of a file."""
    return [_of_table(model, model.table(path), *asked, whole=True)]


def _of_folder(model: TableModel, folder: Path, cluster: str | None, asked: tuple[Any, ...]) -> list[Part]:
    """Return the columns of the files of a directory, which the workers of a cluster may read."""
    tasks = [(model, path.resolve(), *asked) for path in parquet_files(folder)]
    with mapping(cluster) as mapped:
        return [part for own in mapped(_of_file, tasks) for part in own]


def _of_file(model: TableModel, path: Path, keep: tuple[str, ...], interval: float | None, proba: bool) -> list[Part]:
    """Return the columns of the row groups of a Parquet file."""
    return [_of_table(model, piece, keep, interval, proba) for piece in pieces(path)]


def _of_table(
    model: TableModel, table: Table, keep: tuple[str, ...], interval: float | None, proba: bool, *, whole: bool = False
) -> Part:
    """Return the columns of the output, the target if the table has it, and notes; a whole table is checked."""
    truth = table.column(model.target) if model.target in table.names else None
    columns = {name: _as_column(table, name) for name in keep}
    if truth is not None and len(table.names) > 1:
        table = table.without(model.target)
    X, notes = (encode_new if whole else encode)(model.encoder, table)
    starts = range(0, len(X), _PIECE)
    count, found = counting(f"predictions of {Path(table.source).name}", len(starts)), []
    for start in starts:
        found.append(_predicted(model.estimator, X[start : start + _PIECE], interval, proba))
        count()
    columns |= {name: np.concatenate([own[name] for own in found]) for name in found[0]}
    return columns, truth, notes


def _predicted(estimator: Any, X: FloatArray, interval: float | None, proba: bool) -> dict[str, Any]:
    """Return the predictions, and the ends of the intervals or the probabilities, of some rows."""
    columns = {"prediction": estimator.predict(X)}
    if interval is not None:
        columns["lower"], columns["upper"] = estimator.predict_interval(X, interval)
    if proba:
        names = (f"p({name})" for name in estimator.classes_)
        columns |= dict(zip(names, estimator.predict_proba(X).T, strict=True))
    return columns


def _as_column(table: Table, name: str) -> Any:
    column = table.column(name)
    if column.dtype.kind == "f" and not np.isnan(column).any() and (column % 1 == 0).all():
        return column.astype(np.int64)
    return column.astype(str) if column.dtype.kind == "M" else column


def _print_error(model: TableModel, truth: Any, predictions: Any, output: Output) -> None:
    known = ~missing(truth)
    if not known.any():
        return
    name = "model"
    if model.task == "regression":
        card = regression_scorecard(truth[known].astype(np.float64), {name: predictions[known], "": predictions[known]})
    else:
        same_kind = _as_classes(truth[known], model.estimator.classes_)
        card = classification_scorecard(same_kind, {name: predictions[known], "": predictions[known]})
    output.note(f"{card.measure} against {model.target} of the file: {card.scores[0]} ({card.rows} rows)")


def _as_classes(truth: Any, classes: Any) -> Any:
    """Return targets of the kind of the classes, with true and false written as there."""
    if classes.dtype.kind not in "OU":
        return truth.astype(classes.dtype)
    codes = find_codes(classes.tolist(), truth.astype(str).tolist())
    return np.array([text if code < 0 else classes[code] for text, code in zip(truth, codes, strict=True)], dtype=str)


def _write(columns: dict[str, Any], out: Path | None, output: Output) -> None:
    rows = len(columns["prediction"])
    if out is not None:
        write_table(out, columns)
        output.say(f"{rows} predictions: {out}")
        output.finish({"rows": rows, "columns": list(columns), "out": str(out)})
    elif output.json:
        output.finish({"rows": rows, **{name: np.asarray(values).tolist() for name, values in columns.items()}})
    else:
        typer.echo(csv_text(columns), nl=False)
