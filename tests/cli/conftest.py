from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def call(monkeypatch):
    """Runs a command and returns its exit code and everything it printed, in one line."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from blockbasis.cli import console
    from blockbasis.cli.app import app

    monkeypatch.setattr(console.stdout, "width", 300)
    monkeypatch.setattr(console.stderr, "width", 300)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        return result.exit_code, " ".join(result.output.split())

    return run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "points.csv"
    X = np.random.default_rng(0).normal(size=(120, 3))
    np.savetxt(path, X, delimiter=",", header="a,b,price", comments="")
    return path
