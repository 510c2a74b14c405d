"""Real data for the benchmarks: standardised, and all of it or a random part."""

from __future__ import annotations

import sys

import numpy as np

from blockbasis import datasets


def load_standardized(name: str, n: int | None = None, seed: int = 0) -> np.ndarray:
    """Points of a data set, each column to mean 0 and standard deviation 1; a random part when ``n`` is given."""
    try:
        X = datasets.load(name).X
    except OSError as error:
        sys.exit(str(error))
    if n is not None and n < len(X):
        X = X[np.random.default_rng(seed).choice(len(X), n, replace=False)]
    return X
