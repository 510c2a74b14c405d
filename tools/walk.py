"""The walk of ``factorize(tol=...)`` through the package, and the depth of its imports.

``python -m tools.walk`` prints how many files and functions of the package run, how many pairs of functions call each
other across files, and the longest chain of imports. With ``PYTHONPATH`` another version of the package is walked.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import blockbasis as bb

ROOT = Path(bb.__file__).parent


class Walk:
    """Functions of the package that run, and who calls whom; a frame outside the package hands its caller on."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.edges: set[tuple[CodeType, CodeType]] = set()
        self.jumps = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        code = frame.f_code
        if event != "call" or not _inside(code.co_filename) or code.co_name.startswith("<"):
            return
        self.functions.add(code)
        caller = frame.f_back
        while caller is not None and (not _inside(caller.f_code.co_filename) or caller.f_code.co_name.startswith("<")):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.jumps += 1
            self.edges.add((caller.f_code, code))

    @property
    def files(self) -> set[str]:
        """Files of the package in which a function has run."""
        return {str(Path(code.co_filename).relative_to(ROOT)) for code in self.functions}


@cache
def _inside(filename: str) -> bool:
    return Path(filename).is_relative_to(ROOT)


def walk(n_points: int = 20_000, tol: float = 1e-3) -> Walk:
    """Count what a factorization of generated points runs through."""
    X = np.random.default_rng(0).normal(size=(n_points, 3))
    found = Walk()
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        bb.factorize(X, bb.Gaussian(1.0), tol=tol, rng=0, n_jobs=1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def imports() -> dict[str, set[str]]:
    """Modules of the package that each module names in the import statements that run when it is loaded.

    Imports under ``if TYPE_CHECKING`` and inside functions do not run then, and do not count. Neither does
    ``import blockbasis``, nor the ``__init__`` of a package of which only a module is imported.
    """
    paths = {_name(path): path for path in ROOT.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        own = found.setdefault(name, set())
        for node in loaded_statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "blockbasis":
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                inner = full & paths.keys()
                own |= (inner | ({node.module} if full - inner else set())) - {"blockbasis", name}
            elif isinstance(node, ast.Import):
                own |= {alias.name for alias in node.names} & paths.keys() - {"blockbasis", name}
    return found


def loaded_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is loaded: also those of its conditions, loops and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from loaded_statements(node.orelse)
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from loaded_statements(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from loaded_statements(handler.body)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    """Longest chain of modules of which each imports the next."""

    @cache
    def below(name: str) -> tuple[str, ...]:
        return (name, *max((below(each) for each in sorted(graph[name])), key=len, default=()))

    return list(max(map(below, sorted(graph)), key=len))


def main() -> None:
    """Print the figures of the package that Python finds."""
    found = walk()
    functions = len(found.functions)
    print(f"factorize(tol=1e-3) of 20,000 points runs {functions} functions in {len(found.files)} files,")
    print(f"with {len(found.edges)} pairs of functions that call each other across files, and {found.jumps} such calls")
    print(f"files: {', '.join(sorted(found.files))}")
    chain = longest_chain(imports())
    print(f"imports are {len(chain)} deep: {' > '.join(name.removeprefix('blockbasis.') for name in chain)}")


if __name__ == "__main__":
    main()
