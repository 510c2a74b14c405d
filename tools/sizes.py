"""Modules, functions and parameter lists of the package that are longer than the limits of the project.

``python -m tools.sizes`` prints them: a module has at most 450 lines, a function at most 60 lines without its
docstring, and an internal function at most 8 parameters. Public functions and the constructors of estimators may have
more parameters, since their parameters have documented names and default values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "blockbasis"
MODULE_LINES, FUNCTION_LINES, PARAMETERS = 450, 60, 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    """Every function of a module, with the names of the classes and functions around it."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
            if isinstance(child, Function):
                yield name[:-1], child
            yield from inside(child, name)

    yield from inside(ast.parse(path.read_text(encoding="utf-8")), "")


def body_lines(function: Function) -> int:
    """Lines of a function after its signature and its docstring."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def parameters(function: Function) -> list[str]:
    """Names of the parameters, without ``self`` and ``cls``."""
    listed = function.args
    named = [*listed.posonlyargs, *listed.args, listed.vararg, *listed.kwonlyargs, listed.kwarg]
    return [each.arg for each in named if each is not None and each.arg not in ("self", "cls")]


def long_modules() -> dict[str, int]:
    """Modules with more than `MODULE_LINES` lines, and their lengths."""
    lengths = {_relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.rglob("*.py")}
    return {name: length for name, length in sorted(lengths.items()) if length > MODULE_LINES}


def long_functions() -> dict[str, int]:
    """Functions with more than `FUNCTION_LINES` lines without their docstrings, and their lengths."""
    lengths = {name: body_lines(function) for name, function in _all_functions()}
    return {name: length for name, length in lengths.items() if length > FUNCTION_LINES}


def many_parameters() -> dict[str, int]:
    """Functions with more than `PARAMETERS` parameters, and their numbers."""
    numbers = {name: len(parameters(function)) for name, function in _all_functions()}
    return {name: number for name, number in numbers.items() if number > PARAMETERS}


def _all_functions() -> Iterator[tuple[str, Function]]:
    for path in sorted(ROOT.rglob("*.py")):
        for name, function in functions(path):
            yield f"{_relative(path)}:{name}", function


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def main() -> None:
    """Print what is longer than the limits."""
    for found in (long_modules(), long_functions(), many_parameters()):
        for name, number in found.items():
            print(f"{number:5} {name}")


if __name__ == "__main__":
    main()
