"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments.figures import curvature


def test_accuracy_must_fall_on_both_sides_of_the_radius(verdict):
    def parts(below):
        heights = {h: 0.9 if 0.1 <= h <= 0.4 else 0.8 for h in (*curvature._BANDWIDTHS, *curvature._DRAWN)}
        rows = [{"h": h, "accuracy": below if h < 0.1 else height} for h, height in sorted(heights.items())]
        return [({"n": 100}, rows)]

    assert verdict("curvature", parts(0.8)).holds
    assert not verdict("curvature", parts(0.9)).holds
