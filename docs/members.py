"""Members of a class that its page of the reference shows."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path

#: Methods that other parts of the package call, and users do not.
INTERNAL = {
    "add_sums", "block_gradient", "bound", "core", "describe", "leaves", "map", "open_table", "precondition",
    "restored", "unit_maps", "without_state",
}  # fmt: skip
_MODULE = re.compile(r"\.\. currentmodule:: (\S+)")
_NAME = re.compile(r"   ([\w.]+)")


def members(module: str, name: str) -> dict[str, list[str]]:
    """Return the methods and properties of a class of the package that have docstrings of their own.

    Parameters
    ----------
    module, name : str
        Names of the module and of the class.

    Returns
    -------
    dict
        "methods" and "properties": names to document on the page of the class. "inherited": references to methods
        that are documented on the page of another class.
    """
    cls = getattr(importlib.import_module(module), name)
    found: dict[str, list[str]] = {"methods": [], "properties": [], "inherited": []}
    for member in sorted(dir(cls)):
        if member.startswith("_") or member.endswith("_request") or member in INTERNAL:
            continue
        base = next((each for each in cls.__mro__ if member in vars(each) and vars(each)[member].__doc__), None)
        if base is None or not base.__module__.startswith("blockbasis."):
            continue
        value = vars(base)[member]
        is_method = inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod))
        if is_method and base is not cls and base in listed():
            found["inherited"].append(f"`{base.__name__}.{member} <{listed()[base]}.{member}>`")
        elif is_method:
            found["methods"].append(member)
        elif isinstance(value, (property, functools.cached_property)) and base in (cls, *_private(cls)):
            found["properties"].append(member)
    return found


def _private(cls: type) -> list[type]:
    """Return the base classes that have no page."""
    return [base for base in cls.__mro__ if base not in listed()]


@functools.cache
def listed() -> dict[type, str]:
    """Return the classes that have a page of the reference, with their full names."""
    found: dict[type, str] = {}
    for page in sorted((Path(__file__).parent / "api").glob("*.rst")):
        module = "blockbasis"
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := _MODULE.fullmatch(line):
                module = match[1]
            elif match := _NAME.fullmatch(line):
                *parents, name = match[1].split(".")
                value = getattr(importlib.import_module(".".join([module, *parents])), name, None)
                if inspect.isclass(value):
                    found[value] = f"{module}.{match[1]}"
    return found
