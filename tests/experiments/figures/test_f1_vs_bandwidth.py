"""The verdict says no when the figures do."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("peak", "holds"), [(0.5, True), (2.0, False)])
def test_the_smallest_class_must_peak_below_the_bandwidth_of_cross_validation(verdict, peak, holds):
    rows = [
        {"class": c, "h": h, "f1": 1.0 if h == best else 0.5, "accuracy": float(h == 2.0), "size": size}
        for c, size, best in ((0, 10, peak), (1, 90, 2.0))
        for h in (0.5, 1.0, 2.0)
    ]
    assert verdict("f1-vs-bandwidth", [({"data": "ctg"}, rows)]).holds == holds
