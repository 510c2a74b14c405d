"""Pieces of the page: verdicts, tables, numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Content = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """Something that must be shown, and what was found.

    Parameters
    ----------
    must : str
    found : str
    holds : bool or None
        None when it was not measured.
    """

    must: str
    found: str
    holds: bool | None

    def __str__(self) -> str:
        word = {True: "yes", False: "**no**", None: "not measured"}[self.holds]
        return f"- {self.must}: {word}" + (f" ({self.found})" if self.found else "")


def at_most(must: str, values: Iterable[float], bound: float, summary: Callable[[Any], Any] = np.max) -> Verdict:
    """Whether a summary (the largest by default) of the values is at most ``bound``."""
    values = np.array(list(values), dtype=float)
    if not values.size:
        return Verdict(must, "", None)
    found = float(summary(values))
    return Verdict(must, number(found), bool(found <= bound))


def share_at_least(must: str, holds: Iterable[bool], bound: float, more: str = "") -> Verdict:
    """Whether at least this share of the cells holds."""
    holds = np.array(list(holds), dtype=bool)
    if not holds.size:
        return Verdict(must, "", None)
    found = f"{holds.mean():.1%} of {holds.size}" + (f", {more}" if more else "")
    return Verdict(must, found, bool(holds.mean() >= bound))


def ratio_of(a: float | None, b: float | None) -> float:
    """a / b; not a number where one is missing."""
    return float("nan") if a is None or not b else a / b


def number(value: Any, digits: int = 3) -> str:
    """A number as a table shows it."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    value = float(value)
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(number(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def succeeded(content: Content) -> list[dict[str, Any]]:
    """Records of the cells that did not fail."""
    return [record for record in content["records"] if "failed" not in record]


def failures(content: Content) -> str:
    """A line for each cell that failed."""
    lines = []
    for record in content["records"]:
        if "failed" in record:
            cell = ", ".join(f"{key}={value}" for key, value in record.items() if key != "failed")
            lines.append(f"- failed: {cell}: {record['failed']}")
    return "\n".join(lines)
