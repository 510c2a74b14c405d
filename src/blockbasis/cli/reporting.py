"""Reports that the commands write with --report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from blockbasis.cli.console import Output, system_sentence
from blockbasis.cli.files import check_output, named
from blockbasis.report import Page, figures, write_page


def check_report(path: Path | None, *, force: bool) -> None:
    """Raise an error if a report cannot be written: no matplotlib, another ending, or a file that exists."""
    if path is not None:
        check_output(path, force=force, endings=(".html", ".htm"), option="--report")
        figures.panels(1)


def command_line() -> str:
    """Return the command with its arguments, as the shell would take it."""
    return shlex.join(["blockbasis", *sys.argv[1:]])


def write_report(page: Page, path: Path, output: Output) -> None:
    """Write a page and print its path."""
    try:
        write_page(page, path)
    except OSError as error:
        raise OSError(system_sentence(named(error, path), "--report")) from None
    output.say(f"Report: {path}")
