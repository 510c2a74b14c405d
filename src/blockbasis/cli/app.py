"""Command line application with all commands."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from blockbasis.cli.compare import compare
from blockbasis.cli.console import stdout
from blockbasis.cli.data import data
from blockbasis.cli.demo import demo
from blockbasis.cli.reproduce import reproduce

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        stdout.print(f"blockbasis {version('blockbasis')}", highlight=False)
        raise typer.Exit


@app.callback()
def about(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Kernel matrices in linear time and memory, across bandwidths."""


for command in (reproduce, compare, data, demo):
    app.command()(command)
