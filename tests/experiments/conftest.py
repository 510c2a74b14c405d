from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from blockbasis.experiments.framework import points

#: Data sets in place of the real ones, so that every experiment runs without them: as many columns, few points.
SHAPES = {
    "abalone": (160, 8),
    "pendigits": (200, 16),
    "pendigits-train": (200, 16),
    "ctg": (160, 21),
    "emg": (200, 8),
    "gesture": (160, 32),
    "otto": (160, 93),
    "cpusmall": (160, 12),
    "mushroom": (160, 20),
    "census_house": (300, 16),
    "covtype": (300, 54),
    "alternating": (160, 2),
    "circles": (160, 2),
}


@pytest.fixture
def small_data(monkeypatch):
    """Clouds around two or three centres under the names of the paper's data sets."""

    def stand_in(name, n=None):
        rows, columns = SHAPES[name.removesuffix("-alphabetical")]
        rng = np.random.default_rng(len(name))
        labels = np.arange(rows) % 3
        X = 3 * rng.normal(size=(3, columns))[labels] + rng.normal(size=(rows, columns))
        return (X - X.mean(axis=0)) / X.std(axis=0), labels

    monkeypatch.setattr(points, "load_points", stand_in)
