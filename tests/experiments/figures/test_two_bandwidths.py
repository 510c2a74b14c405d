"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments.figures import two_bandwidths


def test_much_lower_is_at_least_half(verdict):
    def parts(large, small):
        places = two_bandwidths._BANDWIDTHS
        return [
            ({"data": name, "h": h}, [{"rank": rank, "points": 1000}])
            for name, both in places.items()
            for h, rank in zip(both, (large, small), strict=True)
        ]

    assert verdict("two-bandwidths", parts(100, 200)).holds
    assert not verdict("two-bandwidths", parts(150, 200)).holds
