from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.tables import Table, fit_table


@pytest.fixture(scope="session")
def fitted():
    """A regression and a classification of a small table, with their evaluations."""
    rng = np.random.default_rng(0)
    length, sex = rng.uniform(size=100), np.array(["M", "F", "I"], dtype=object)[rng.integers(3, size=100)]
    rings = np.sin(4 * length) + (sex == "I") + 0.05 * rng.normal(size=100)
    kind = np.where(rings > 0.6, "big", "small").astype(object)
    table = Table(("length", "sex", "rings", "kind"), (length, sex, rings, kind))
    return {
        "regression": fit_table(table.without("kind"), "rings", seed=0),
        "classification": fit_table(table.without("rings"), "kind", seed=0),
    }


@pytest.fixture(scope="session")
def factorization():
    X = np.random.default_rng(0).normal(size=(300, 2))
    return bb.factorize(X, bb.Gaussian(0.3), tol=1e-2, rng=0)
