"""The verdict says no when the figures do."""

from __future__ import annotations


def test_clusters_must_be_narrow_and_of_low_rank(verdict):
    def parts(radius, rank):
        whole = {"cluster": 0, "radius": 8.0, "size": 100, "rank": 90}
        return [({"n": 100}, [whole, {"cluster": 1, "radius": radius, "size": 9, "rank": rank, "rank_of_any_rows": 8}])]

    assert verdict("pendigits-clusters", parts(5.0, 4)).holds
    assert not verdict("pendigits-clusters", parts(9.0, 4)).holds
    assert not verdict("pendigits-clusters", parts(5.0, 8)).holds
