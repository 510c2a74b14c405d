from __future__ import annotations

import pytest

from blockbasis.construction.method import ACCURATE, FAST, SURVEY, Method


@pytest.mark.parametrize(
    ("paper", "sampling", "inner", "sketched"),
    [
        (False, "energy", "sampled", True),
        (False, "energy", "exact", False),
        (False, "uniform", "sampled", False),
        (True, "randomized", "sampled", False),
    ],
)
def test_only_the_default_is_sketched(paper, sampling, inner, sketched):
    assert Method(paper, sampling, inner, diagonal=not paper, cutoff=None).sketched == sketched


def test_samples_shrink_with_what_they_are_for():
    for name in ("rows", "min_rows", "all_rows_size", "columns", "rows", "landmarks", "inner_rows"):
        assert getattr(ACCURATE, name) >= getattr(FAST, name) >= getattr(SURVEY, name)
    for sizes in (ACCURATE, FAST):  # a least-squares fit needs more rows than landmarks, and C more rows than functions
        assert sizes.rows > sizes.landmarks > 1
        assert sizes.columns > sizes.landmarks
        assert sizes.inner_rows > 1
