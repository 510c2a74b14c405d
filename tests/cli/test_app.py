from __future__ import annotations

from importlib.metadata import version

import pytest

pytest.importorskip("typer")


def test_the_version_is_said(call):
    assert call("--version") == (0, f"blockbasis {version('blockbasis')}")
