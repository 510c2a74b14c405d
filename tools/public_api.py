"""List the public names of blockbasis with their signatures.

``python -m tools.public_api`` writes tests/public_api.txt, which a test compares with the package. Annotations are left
out: their text differs between versions of Python.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

LISTING = Path(__file__).resolve().parent.parent / "tests" / "public_api.txt"
#: Modules whose names users import. Names that an earlier module has are listed without a signature.
MODULES = (
    "blockbasis",
    "blockbasis.kernels",
    "blockbasis.baselines",
    "blockbasis.datasets",
    "blockbasis.experiments",
    "blockbasis.operators",
    "blockbasis.accuracy",
    "blockbasis.solvers",
    "blockbasis.tables",
    "blockbasis.report",
    "blockbasis.streaming",
    "blockbasis.distributed",
)
#: Former import paths: only that their names can be imported is listed.
FORMER = (
    "blockbasis.exact",
    "blockbasis.operator",
    "blockbasis.report.figures",
    "blockbasis.selection",
    "blockbasis.storage",
)


def listing() -> str:
    """Every public name on a line of its own: functions, classes, their methods and their properties."""
    lines: list[str] = []
    seen: list[Any] = []
    public = {id(value) for name in MODULES for value in _public(importlib.import_module(name)).values()}
    for module_name in MODULES:
        for name, value in _public(importlib.import_module(module_name)).items():
            known = any(value is each for each in seen)
            lines += [f"{module_name}.{name}"] if known else _described(f"{module_name}.{name}", value, public)
            seen.append(value)
    lines += [f"{path}.{name}" for path in FORMER for name in _public(importlib.import_module(path))]
    return "\n".join(lines) + "\n"


def _public(module: ModuleType) -> dict[str, Any]:
    """Public names of a module; not its submodules, nor what it imports from other libraries."""
    return {
        name: value
        for name, value in sorted(vars(module).items())
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and str(getattr(value, "__module__", "blockbasis")).startswith("blockbasis")
    }


def _described(name: str, value: Any, public: set[int]) -> list[str]:
    if not inspect.isclass(value):
        return [name + _signature(value) if callable(value) else name]
    plain = issubclass(value, Exception) or getattr(value, "_is_protocol", False)
    return [name if plain else name + _signature(value), *_members(name, value, public)]


def _members(name: str, cls: type, public: set[int]) -> list[str]:
    """Public methods and properties of a class, without those that it has from another public class."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is cls or (base.__module__.startswith("blockbasis") and id(base) not in public):
            found |= vars(base)
    lines = []
    for member, value in sorted(found.items()):
        if member.startswith("_") or member.endswith("_request"):  # scikit-learn adds set_fit_request and the like
            continue
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        lines.append(f"{name}.{member}{_signature(value) if inspect.isfunction(value) else ''}")
    return lines


def _signature(value: Any) -> str:
    parameters = inspect.signature(value).parameters.values()
    plain = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
    return re.sub(r" at 0x[0-9a-f]+", "", str(plain))


def main() -> None:
    """Write the listing."""
    LISTING.write_text(listing(), encoding="utf-8", newline="\n")
    print(f"written: {LISTING.name}")


if __name__ == "__main__":
    main()
