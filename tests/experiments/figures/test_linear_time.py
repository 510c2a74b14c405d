"""The verdict says no when the figures do."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("power", [1.0, 1.3])
def test_growth_counts_as_linear_up_to_an_exponent(verdict, power):
    rows = [{"points": n, "seconds": 1e-6 * n**power} for n in (1000, 2000, 4000)]
    parts = [({"data": "census_house", "algorithm": each}, rows) for each in ("default", "paper")]
    assert verdict("linear-time", parts).holds == (power == 1.0)
    named = "above are Census house, default and Census house, paper" in verdict("linear-time", parts).sentence
    assert named == (power == 1.3)
