from __future__ import annotations

from importlib.metadata import version

import pytest

pytest.importorskip("typer")


def test_the_version_is_said(call):
    assert call("--version") == (0, f"blockbasis {version('blockbasis')}")


def test_completion_of_the_shell_can_be_installed(call):
    code, text = call("--help")
    assert code == 0
    assert "--install-completion" in text


def test_wrong_usage_is_one_line_with_the_command_that_says_more(call):
    code, text = call("fit", "--targets", "x")
    assert code == 2
    assert text.startswith("Error: No such option: --targets")
    assert text.endswith("fit --help.")
