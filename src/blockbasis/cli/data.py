"""Command data: list and download the data sets of the paper."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from blockbasis import datasets
from blockbasis.cli.console import check_name, print_errors, stdout
from blockbasis.datasets.recipes import RECIPES


def data(
    name: Annotated[str, typer.Argument(help="Data set to download; without a name, all data sets are listed.")] = "",
) -> None:
    """List the data sets of the paper, or download one into the cache."""
    with print_errors():
        if not name:
            _list_data()
            return
        check_name(name, datasets.NAMES, "data set")
        found = datasets.load(name, standardize=False)
        stdout.print(f"{found}\n{escape(found.description)}\n{escape(found.source)}", highlight=False)
        stdout.print(f"At {datasets.find(name)}", highlight=False)


def _list_data() -> None:
    table = Table("name", "points", "task", "here", box=None)
    table.add_column("from", overflow="fold")
    for recipe in RECIPES.values():
        place = datasets.find(recipe.name)
        absent = "no" if recipe.download is not None else "bring it"
        size = f"{recipe.shape[0]} x {recipe.shape[1]}"
        table.add_row(recipe.name, size, recipe.task, absent if place is None else "yes", escape(recipe.source))
    stdout.print(table)
    stdout.print(f"\nblockbasis data NAME fetches one into {datasets.cache_directory()}.", highlight=False)
