"""The verdict says no when the figures do."""

from __future__ import annotations


def transform(series_power=2.0, blocks_power=1.0, fixed_power=1.0, off=0.5):
    parts = []
    for d, series in ((5, 1.0), (40, series_power)):
        for method, power in (("ifgt", series), ("bbf", blocks_power), ("bbf-fixed", fixed_power)):
            facts = {"direct": d == 40, "largest_error": off * 1e-3, "stored": 50}
            rows = [{"points": n, "application": n**power, "total": n**power, **facts} for n in (1000, 2000)]
            parts.append(({"d": d, "method": method}, rows))
    return parts


def test_the_transform_must_keep_its_bound_and_fall_back_to_quadratic(verdict):
    assert verdict("gauss-transform", transform()).holds
    assert not verdict("gauss-transform", transform(off=1.5)).holds
    assert not verdict("gauss-transform", transform(series_power=1.0)).holds
    assert not verdict("gauss-transform", transform(blocks_power=1.4)).holds
    assert not verdict("gauss-transform", transform(fixed_power=1.4)).holds
    assert "not as claimed" not in verdict("gauss-transform", transform()).sentence
    amiss = verdict("gauss-transform", transform(series_power=1.0, fixed_power=1.4)).sentence
    assert "not as claimed: the product of BBF, 10 clusters of rank 50, d = 5, all of BBF, 10 clusters" in amiss
    assert "the product by IFGT, d = 40" in amiss
