"""The tests mirror the packages: a module is tested where one looks for it."""

from __future__ import annotations

from pathlib import Path

import blockbasis as bb

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
