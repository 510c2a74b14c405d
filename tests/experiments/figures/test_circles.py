"""The verdict says no when the figures do."""

from __future__ import annotations


def test_the_smaller_class_must_be_lost_sooner(verdict):
    def parts(low, high):
        rows = [
            {"h": h, "class": c, "f1": float(first <= h <= last), "accuracy": 1.0}
            for c, first, last in ((1, 0.5, 2.0), (2, low, high))
            for h in (0.5, 1.0, 2.0, 8.0)
        ]
        return [({"n": 100}, rows)]

    assert verdict("circles", parts(0.5, 1.0)).holds
    assert not verdict("circles", parts(0.5, 2.0)).holds
    assert not verdict("circles", parts(0.5, 8.0)).holds
