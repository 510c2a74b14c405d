"""The verdict says no when the figures do."""

from __future__ import annotations


def test_singular_values_must_fall_slowly(verdict):
    def parts(power):
        values = [{"index": i, "value": float(i) ** -power} for i in range(1, 1001)]
        return [({"data": "ctg", "h": 0.5}, [{"rank": 10, "points": 1000}, *values])]

    assert verdict("small-bandwidth-spectra", parts(1.0)).holds
    assert not verdict("small-bandwidth-spectra", parts(3.0)).holds


def test_rounding_is_no_slow_fall(verdict):
    values = [{"index": i, "value": 1.0 if i <= 50 else 1e-17} for i in range(1, 1001)]
    assert not verdict(
        "small-bandwidth-spectra", [({"data": "ctg", "h": 0.5}, [{"rank": 50, "points": 1000}, *values])]
    ).holds
