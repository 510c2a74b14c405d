"""Real data for the benchmarks: NAME.npz files in the directory that BLOCKBASIS_DATA names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np


def load_standardized(name: str, n: int | None = None, seed: int = 0) -> np.ndarray:
    """Points of a data set, each column to mean 0 and standard deviation 1; a random part when ``n`` is given."""
    home = os.environ.get("BLOCKBASIS_DATA")
    if not home:
        sys.exit("Set BLOCKBASIS_DATA to the directory that holds the data sets as NAME.npz.")
    path = Path(home) / f"{name}.npz"
    if not path.is_file():
        sys.exit(f"{path} is not there.")
    with np.load(path) as archive:
        X = archive["X"].astype(np.float64)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if n is not None and n < len(X):
        X = X[np.random.default_rng(seed).choice(len(X), n, replace=False)]
    return X
