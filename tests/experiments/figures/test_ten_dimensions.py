"""The verdict says no when the figures do."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("ranks", "holds"), [((9, 3, 1), True), ((3, 9, 1), False)])
def test_ranks_in_ten_dimensions_must_fall(verdict, ranks, holds):
    rows = [{"h": h, "tol": tol, "rank": rank} for tol in (1e-4, 1e-3, 1e-2) for h, rank in enumerate(ranks)]
    last = {1: 2.0, 2: 1.0}
    rows += [{"h": h, "class": c, "f1": float(h <= last[c])} for c in (1, 2) for h in (0.5, 1.0, 2.0, 8.0)]
    assert verdict("ten-dimensions", [({"n": 100}, rows)]).holds == holds
