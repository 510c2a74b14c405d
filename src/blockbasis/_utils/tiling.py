"""Ranges of rows or columns that bound the size of a block."""

from __future__ import annotations

#: Entries of a matrix that is worked through tile by tile.
_TILE_ENTRIES = 2**23


def tiles(length: int, height: int, entries: int | None = None) -> list[slice]:
    """Ranges that cover ``length`` columns, few enough that a tile of ``height`` rows has no more than ``entries``."""
    step = max(1, (_TILE_ENTRIES if entries is None else entries) // max(height, 1))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
