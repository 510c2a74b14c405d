"""Tables on disk, and a sample that is smaller than they are."""

from __future__ import annotations

import sys

import numpy as np
import pytest


@pytest.fixture
def small_sample(monkeypatch):
    """1,000 rows determine a factorization, so that small tables are read in pieces."""
    for name, module in list(sys.modules.items()):
        if name.startswith("blockbasis") and hasattr(module, "SAMPLE_ROWS"):
            monkeypatch.setattr(module, "SAMPLE_ROWS", 1_000)
    return 1_000


@pytest.fixture(scope="session")
def points():
    """3,000 points in three columns."""
    return np.random.default_rng(0).normal(size=(3000, 3))


@pytest.fixture
def on_disk(points, tmp_path):
    """The points as a memory map."""
    array = np.memmap(tmp_path / "points.bin", dtype=np.float64, mode="w+", shape=points.shape)
    array[...] = points
    return array


@pytest.fixture
def parquet(points, tmp_path):
    """The points in three Parquet files of row groups of 400 rows, with a target."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, rows in enumerate(np.split(np.arange(len(points)), 3)):
        table = pyarrow.table({"a": points[rows, 0], "b": points[rows, 1], "c": points[rows, 2], "y": rows * 1.0})
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=400)
    return tmp_path
