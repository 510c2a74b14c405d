"""The verdict says no when the figures do."""

from __future__ import annotations


def test_blocks_must_be_better_at_the_same_memory(verdict):
    def parts(blocks, low_rank, stored=10.0):
        return [
            (
                {"data": name, "sampling": how, "clusters": k},
                [{"rank": r, "run": 0, "stored": at * r, "error": error / r} for r in (1, 2)],
            )
            for name in ("abalone", "pendigits")
            for how in ("randomized", "uniform", "leverage", "exact")
            for k, error, at in ((10, blocks, stored), (1, low_rank, 10.0))
        ]

    assert verdict("structure", parts(0.1, 0.3)).holds
    assert not verdict("structure", parts(0.3, 0.1)).holds
    assert not verdict("structure", parts(0.1, 0.3, stored=1000.0)).holds  # no memory that both have
