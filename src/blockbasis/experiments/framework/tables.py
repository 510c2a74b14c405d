"""Tables of the measurements of an experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blockbasis.experiments.framework.base import Result, Table


def pivot_table(
    result: Result,
    caption: str,
    *,
    down: str,
    across: str,
    value: str,
    names: Mapping[Any, str] | None = None,
    **selected: Any,
) -> Table:
    """Return a table of the means of ``value`` by the columns ``down`` and ``across``; ``names`` labels the rows."""
    rows = [row for row in result.where(**selected) if {down, across, value} <= row.keys()]
    columns = sorted({row[across] for row in rows})
    lines = []
    for name in dict.fromkeys(row[down] for row in rows):
        cells = [[row[value] for row in rows if (row[down], row[across]) == (name, at)] for at in columns]
        lines.append((_text(name) if names is None else names[name], *map(_mean, cells)))
    return Table(caption, (f"{down} \\ {across}".replace("_", " "), *map(_text, columns)), tuple(lines))


def _mean(values: list[float | None]) -> str:
    if not values:
        return "-"
    mean = float(np.mean([math.inf if value is None else value for value in values]))
    if not math.isfinite(mean):
        return "overflow"
    return f"{mean:.0f}" if 100 <= mean < 1e6 else f"{mean:.3g}"  # 4177 and not 4.18e+03


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
