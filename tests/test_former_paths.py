"""Names that were documented under another path are still found there."""

from __future__ import annotations

import importlib

import pytest

FORMER = {
    "exact": "operators.exact",
    "operator": "operators",
    "plotting": "report.figures",
    "selection": "planning.paper_rule",
    "storage": "operators.storage",
}


@pytest.mark.parametrize("former", FORMER)
def test_former_paths_have_the_same_objects(former):
    if former == "plotting":
        pytest.importorskip("matplotlib")
    module = importlib.import_module(f"blockbasis.{former}")
    names = [name for name in vars(module) if not name.startswith("_")]
    assert names
    homes = [importlib.import_module(f"blockbasis.{FORMER[former]}")]
    if former == "operator":
        homes += [importlib.import_module(f"blockbasis.operators.{each}") for each in ("block_basis", "product")]
    objects = [value for home in homes for value in vars(home).values()]
    for name in names:
        assert any(value is getattr(module, name) for value in objects), name
