from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table


@pytest.fixture
def shells():
    """A table with numbers, text, missing values, dates and a target."""
    rng = np.random.default_rng(0)
    n = 120
    size = rng.uniform(0, 1, n)
    sex = np.array(["M", "F", "I"], dtype=object)[rng.integers(3, size=n)]
    rings = np.sin(3 * size) + (sex == "I") + 0.05 * rng.normal(size=n)
    size[:5] = np.nan
    sex[7] = None
    found = np.datetime64("2024-01-01") + rng.integers(0, 300, n).astype("timedelta64[D]")
    return Table(("size", "sex", "found", "rings"), (size, sex, found, rings), "shells.csv")
