"""Points with targets and with classes, small enough for dense references."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def regression():
    """400 points, one target, and 50 new points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(450, 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=450)
    return X[:400], y[:400], X[400:]


@pytest.fixture(scope="module")
def classes():
    """400 points in three classes, one of them small and inside another, and 100 new points with theirs."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(500, 2))
    y = np.where(np.hypot(X[:, 0] - 0.5, X[:, 1]) < 0.25, "small", np.where(X[:, 0] > 0, "right", "left"))
    return X[:400], y[:400], X[400:], y[400:]
