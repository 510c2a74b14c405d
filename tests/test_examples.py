"""The examples run, with few points."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SIZES = {
    "features": {"n": 400, "n_new": 100, "n_components": 40},
    "gaussian_process": {"n": 120, "n_new": 50},
    "kernels": {"n": 700},
    "ridge": {"n": 400, "n_new": 900, "n_clusters": 3},
    "search": {"n": 200, "n_new": 50},
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_an_example_runs(name, capsys):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(**SIZES[name])
    assert len(capsys.readouterr().out.splitlines()) >= 4
