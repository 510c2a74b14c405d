from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockbasis._utils.tiling import _TILE_ENTRIES, tiles


@given(st.integers(0, 10**4), st.integers(0, 10**8))
def test_tiles_cover_and_stay_small(length, height):
    found = tiles(length, height)
    assert sum(tile.stop - tile.start for tile in found) == length
    assert [tile.stop for tile in found[:-1]] == [tile.start for tile in found[1:]]
    widest = max((tile.stop - tile.start for tile in found), default=1)
    assert widest == 1 or widest * height <= _TILE_ENTRIES
