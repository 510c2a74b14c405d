"""Command info: description of a saved model or factorization."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import blockbasis as bb
from blockbasis._utils.files import in_bytes
from blockbasis.cli import options
from blockbasis.cli.console import Output, running
from blockbasis.cli.descriptions import (
    chosen_line,
    factorization_facts,
    factorization_lines,
    model_facts,
    rounded,
    scorecard_table,
)
from blockbasis.cli.files import size_of
from blockbasis.operators.storage import load
from blockbasis.tables.model import TableModel


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Model or factorization.", show_default=False)],
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Describe a file that fit, compress or blockbasis.save has written."""
    output = Output(json=json, debug=debug)
    with running(output):
        if not file.exists():
            raise FileNotFoundError(f"There is no file {file}.")
        if file.is_dir():
            raise IsADirectoryError(f"{file} is a folder. Give the path of a file.")
        found = load(file)
        output.say(f"{file}: {type(found).__name__}, {size_of(file)}")
        output.finish({"kind": type(found).__name__, "file_bytes": file.stat().st_size, **_describe(found, output)})


def _describe(found: Any, output: Output) -> dict[str, Any]:
    if isinstance(found, TableModel):
        return _describe_model(found, output)
    if isinstance(found, bb.BlockBasis):
        facts = factorization_facts(found)
        for line in (
            f"  kernel          {rounded(str(found.kernel))}",
            f"  points          {found.shape[0]}",
            *factorization_lines(facts),
        ):
            output.say(line)
        return facts
    if isinstance(found, bb.CrossBlockBasis):
        facts = {"shape": list(found.shape), "bytes": found.nbytes}
        output.say(f"  shape           {found.shape[0]} x {found.shape[1]}\n  memory          {in_bytes(found.nbytes)}")
        return facts
    parameters = {name: str(value) for name, value in found.get_params().items() if value is not None}
    output.say(f"  columns         {found.n_features_in_}")
    for name, value in parameters.items():
        output.say(f"  {name:15} {rounded(value)}")
    return {"columns": int(found.n_features_in_), "parameters": parameters}


def _describe_model(model: TableModel, output: Output) -> dict[str, Any]:
    output.say(f"  {model.task} of {model.target}, fitted to {model.rows} rows in {model.seconds:.1f} s")
    output.say(f"  chosen: {chosen_line(model)}")
    output.say("  columns:")
    for column in model.encoder.columns:
        output.say(f"    {column.sentence or column.name + ': numbers'}")
    if model.scorecard is not None:
        output.say(f"  errors at {model.scorecard.rows} test rows:")
        output.say(scorecard_table(model.scorecard))
    return model_facts(model)
