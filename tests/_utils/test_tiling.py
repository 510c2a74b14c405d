from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockbasis._utils.tiling import tiles


@given(length=st.integers(0, 10**4), height=st.integers(0, 10**8), entries=st.integers(1, 10**8))
def test_tiles_cover_and_stay_small(length, height, entries):
    found = tiles(length, height, entries)
    assert sum(tile.stop - tile.start for tile in found) == length
    assert [tile.stop for tile in found[:-1]] == [tile.start for tile in found[1:]]
    widest = max((tile.stop - tile.start for tile in found), default=1)
    assert widest == 1 or widest * height <= entries


def test_tiles_are_bounded_without_being_told():
    assert len(tiles(1000, 10)) == 1
    assert len(tiles(10**4, 10**6)) > 100
