"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments.framework import points


def ranks(at_four=(66, 28, 11), as_in_the_file=(64, 25, 10), smaller=(4177, 4177, 4177)):
    cases = (
        (points.ALPHABETICAL, 0.25, smaller),
        (points.ALPHABETICAL, 4.0, at_four),
        ("abalone", 4.0, as_in_the_file),
    )
    tolerances = (1e-4, 1e-3, 1e-2)
    return [
        (
            {"data": name, "h": h},
            [{"tol": t, "rank": r, "points": 4177} for t, r in zip(tolerances, found, strict=True)],
        )
        for name, h, found in cases
    ]


def test_ranks_must_fall_to_those_known(verdict):
    assert verdict("rank-vs-bandwidth", ranks()).holds
    assert not verdict("rank-vs-bandwidth", ranks(at_four=(65, 28, 11))).holds
    assert not verdict("rank-vs-bandwidth", ranks(as_in_the_file=(64, 25, 11))).holds
    assert not verdict("rank-vs-bandwidth", ranks(smaller=(60, 28, 11))).holds
