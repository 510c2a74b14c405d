"""Command data: list and download the data sets of the paper."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from blockbasis import datasets
from blockbasis.cli import options
from blockbasis.cli.console import Output, check_name, running
from blockbasis.datasets.recipes import RECIPES


def data(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Data set to download; without a name, all data sets are listed.")
    ] = "",
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List the data sets of the paper, or download one into the cache."""
    output = Output(quiet, json, debug)
    with running(output, interrupted="Interrupted."):
        if not name:
            _list_data(output)
            return
        check_name(name, datasets.NAMES, "data set")
        if datasets.find(name) is None and RECIPES[name].download is not None:
            output.note(f"Fetching {name}: {RECIPES[name].source}")
        found = datasets.load(name, standardize=False)
        place = str(datasets.find(name))
        output.say(f"{found}\n{found.description}\n{found.source}\nAt {place}")
        output.finish({"name": name, "points": len(found.X), "columns": found.X.shape[1], "path": place})


def _list_data(output: Output) -> None:
    table = Table("name", "points", "task", "here", box=None)
    table.add_column("from", overflow="fold")
    rows: list[dict[str, Any]] = []
    for recipe in RECIPES.values():
        place = datasets.find(recipe.name)
        absent = "no" if recipe.download is not None else "bring it"
        size = f"{recipe.shape[0]} x {recipe.shape[1]}"
        table.add_row(recipe.name, size, recipe.task, absent if place is None else "yes", escape(recipe.source))
        rows.append({"name": recipe.name, "shape": list(recipe.shape), "task": recipe.task, "source": recipe.source})
        rows[-1]["path"] = None if place is None else str(place)
    output.say(table)
    output.say(f"\nblockbasis data NAME fetches one into {datasets.cache_directory()}.")
    output.finish({"data_sets": rows})
