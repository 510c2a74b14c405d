"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments.framework import points


def test_statistics_are_compared_with_the_table(verdict):
    def parts(stable_rank=2, held=99.99, leverage=4.34):
        return [
            ({"data": "abalone", "inverse_square": 0.25}, [{"stable_rank": 9}]),
            (
                {"data": points.ALPHABETICAL, "inverse_square": 0.25},
                [{"stable_rank": stable_rank, "held": held, "leverage": leverage}],
            ),
        ]

    assert verdict("statistics", parts()).holds
    assert not verdict("statistics", parts(stable_rank=4)).holds
    assert not verdict("statistics", parts(held=99.5)).holds
    assert not verdict("statistics", parts(leverage=4.7)).holds
