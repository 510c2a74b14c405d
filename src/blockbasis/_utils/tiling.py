"""Division of index ranges into consecutive slices."""

from __future__ import annotations

#: Default number of entries of a tile: 64 MiB in float64.
_TILE_ENTRIES = 2**23


def tiles(length: int, height: int, entries: int | None = None) -> list[slice]:
    """Divide ``length`` columns of ``height`` rows into slices of at most ``entries`` entries, or of one column."""
    return ranges(0, length, max(1, (_TILE_ENTRIES if entries is None else entries) // max(height, 1)))


def ranges(start: int, stop: int, step: int) -> list[slice]:
    """Divide the range from ``start`` to ``stop`` into slices of length ``step``; the last one may be shorter."""
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]
