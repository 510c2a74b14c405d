from __future__ import annotations

import subprocess
import sys

import pytest

import _blockbasis_command

pytest.importorskip("typer")

from blockbasis import __main__


def test_as_a_module():
    shown = subprocess.run([sys.executable, "-m", "blockbasis", "--help"], capture_output=True, text=True, check=True)
    for command in ("fit", "predict", "compress", "plan", "info", "apply", "reproduce", "compare", "data", "demo"):
        assert command in shown.stdout


@pytest.mark.parametrize("module", ["blockbasis.__main__", "blockbasis.cli.app"])
def test_an_interrupt_while_it_starts_is_no_traceback(monkeypatch, module):
    """The first of these stands for the library itself, which is imported before it."""

    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == module:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        _blockbasis_command.main()
    assert ended.value.code == 130


def test_without_typer_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "blockbasis.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"pip install 'blockbasis\[cli\]'"):
        __main__.main()
