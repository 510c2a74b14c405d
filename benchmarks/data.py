"""Points for the benchmarks: real data, standardised, all of it or a random part; and generated mixtures."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import numpy as np

from blockbasis import datasets

#: Data sets that the package does not know: NPZ files in the directory that BLOCKBASIS_DATA names.
FILES = ("bike", "elevators", "keggdirected")
#: Generated points: the number of columns follows.
MIXTURE = "mixture-"


class DataAbsent(OSError):
    """A data set is not at hand."""


def standardized(name: str, n: int | None = None, seed: int = 0) -> np.ndarray:
    """Points of a data set, each column to mean 0 and standard deviation 1; a random part when ``n`` is given."""
    X = _whole(name)
    if n is not None and n < len(X):
        X = X[np.random.default_rng(seed).choice(len(X), n, replace=False)]
    return X


def load_standardized(name: str, n: int | None = None, seed: int = 0) -> np.ndarray:
    """As `standardized`, for scripts: ends the program with a message when the data set is not at hand."""
    try:
        return standardized(name, n, seed)
    except OSError as error:
        sys.exit(str(error))


def points_of(data: str, n: int | None = None, seed: int = 0) -> np.ndarray:
    """Points of a data set, or of a generated mixture with so many columns ("mixture-5")."""
    if data.startswith(MIXTURE):
        assert n is not None
        return mixture(n, int(data.removeprefix(MIXTURE)), seed)
    return standardized(data, n, seed)


def mixture(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Normal clouds around ten centres in the unit cube."""
    rng = np.random.default_rng(seed)
    return rng.random((10, d))[rng.integers(0, 10, n)] + 0.1 * rng.standard_normal((n, d))


def is_at_hand(name: str) -> bool:
    """Whether a data set can be loaded without a download."""
    if name.startswith(MIXTURE):
        return True
    try:
        return _file(name).exists() if name in FILES else datasets.find(name) is not None
    except OSError:
        return False


def forget_whole_data() -> None:
    """Give back the memory of data sets of which a part was drawn."""
    _whole.cache_clear()


@functools.lru_cache(maxsize=2)
def _whole(name: str) -> np.ndarray:
    if name not in FILES:
        try:
            return datasets.load(name).X
        except OSError as error:
            raise DataAbsent(str(error)) from error
    if not _file(name).exists():
        raise DataAbsent(f"{name} is not at hand: {_file(name)} does not exist (BLOCKBASIS_DATA names the directory)")
    with np.load(_file(name)) as arrays:
        X = arrays["X"].astype(np.float64)
    deviations = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1)


def _file(name: str) -> Path:
    return Path(os.environ.get("BLOCKBASIS_DATA", ".")) / f"{name}.npz"
