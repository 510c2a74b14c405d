"""Command line application with all commands."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from blockbasis.cli.apply import apply
from blockbasis.cli.compare import compare
from blockbasis.cli.compress import compress
from blockbasis.cli.console import stderr, stdout
from blockbasis.cli.data import data
from blockbasis.cli.demo import demo
from blockbasis.cli.fit import fit
from blockbasis.cli.info import info
from blockbasis.cli.plan import plan
from blockbasis.cli.predict import predict
from blockbasis.cli.reproduce import reproduce

#: The class of errors of usage, which typer takes from click or has itself, depending on its version.
_UsageError: Any = typer.BadParameter.__mro__[1]
#: Exit codes of wrong usage and of an interrupt.
_WRONG_USAGE, _INTERRUPTED = 2, 130


class _Group(TyperGroup):
    """Commands whose errors of usage are one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as error:
            if error.format_message().strip():  # without arguments the help has been printed, and nothing is left
                stderr.print(f"[red]Error:[/] {_one_line(error)}", soft_wrap=True, highlight=False)
            code = _WRONG_USAGE
        except (KeyboardInterrupt, typer.Abort):
            stderr.print("Interrupted.")
            code = _INTERRUPTED
        except BrokenPipeError:
            sys.stderr.close()
            code = 1
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _one_line(error: Any) -> str:
    """Return the message of an error of usage, with the command whose --help says more."""
    from rich.markup import escape

    message = error.format_message().replace(": Value error, ", ": ").strip().rstrip(".")
    ending = "" if message.endswith("?") else "."
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "blockbasis"
    return escape(f"{message}{ending} See {command} --help.")


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
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
    """Fit models to tables, and compress kernel matrices that do not fit into memory."""


def unwrapped(command: Callable[..., Any]) -> str:
    r"""Return the docstring of a command with each paragraph on one line, which the help wraps to the terminal.

    Examples
    --------
    >>> from blockbasis.cli.app import unwrapped
    >>> def command(): ...
    >>> command.__doc__ = "Do it.\n\n    At once,\n    and well."
    >>> unwrapped(command)
    'Do it.\n\nAt once, and well.'
    """
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for command in (fit, predict, compress, plan, info, apply, compare, reproduce, data, demo):
    app.command(help=unwrapped(command))(command)
