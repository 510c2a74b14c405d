"""The tests mirror the packages: a module is tested where one looks for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import blockbasis as bb
from tools import public_api, sizes

#: Types alone, and import paths of former versions, which test_former_paths.py tests.
WITHOUT = {"_utils/typing.py", "exact.py", "operator.py", "plotting.py", "selection.py", "storage.py"}


def test_every_module_has_a_file_of_tests():
    source, tests = Path(bb.__file__).parent, Path(__file__).parent
    modules = [path.relative_to(source) for path in source.rglob("*.py") if path.name != "__init__.py"]
    missing = [
        str(path)
        for path in modules
        if path.as_posix() not in WITHOUT and not (tests / path.parent / f"test_{path.stem.strip('_')}.py").exists()
    ]
    assert not missing
    assert {path.as_posix() for path in modules} >= WITHOUT


def test_modules_have_at_most_450_lines():
    assert not sizes.long_modules()


def test_functions_have_at_most_60_lines_without_their_docstrings():
    assert sizes.long_functions() == {}


def test_only_public_functions_and_commands_have_more_than_8_parameters():
    listed = public_api.LISTING.read_text(encoding="utf-8")
    internal = [
        name
        for name in map(str, sizes.many_parameters())
        if not name.startswith("cli/") and f".{name.split(':')[1].removesuffix('.__init__')}(" not in listed
    ]
    assert internal == ["streaming/api.py:factorize_streamed"]  # the parameters of factorize for rows of files


@pytest.mark.parametrize(
    ("code", "lines", "names"),
    [
        ("def f(a, /, b, *c, d, **e): return a", 1, ["a", "b", "c", "d", "e"]),
        ("def f(self, x):\n    '''One.\n\n    Two.\n    '''\n    y = x\n    return y", 2, ["x"]),
        ("def f():\n    '''A docstring alone.'''", 0, []),
    ],
)
def test_lines_without_the_docstring_and_parameters_without_self_are_counted(code, lines, names):
    function = ast.parse(code).body[0]
    assert sizes.body_lines(function) == lines
    assert sizes.parameters(function) == names
