"""Timing of factorizations and products, and exponents of their growth."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis.experiments.framework.base import Row

T = TypeVar("T")

#: Seconds for which a product is repeated: a single product is too short to time.
_LEAST_SECONDS = 0.1


def timed(job: Callable[[], T]) -> tuple[float, T]:
    """Return the duration in seconds of a function call, and its result."""
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def shortest(job: Callable[[], T], repetitions: int) -> tuple[float, T]:
    """Return the shortest duration in seconds of several calls, and the last result."""
    seconds, result = timed(job)
    for _ in range(repetitions - 1):
        again, result = timed(job)
        seconds = min(seconds, again)
    return seconds, result


def product_seconds(A: Any, rng: np.random.Generator) -> float:
    """Return the shortest duration in seconds of repeated products with one vector."""
    v = rng.standard_normal(A.shape[1])
    seconds, _ = timed(lambda: A @ v)
    end = time.perf_counter() + _LEAST_SECONDS
    while time.perf_counter() < end:
        seconds = min(seconds, timed(lambda: A @ v)[0])
    return seconds


def exponent(x: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent of a power law fitted to times: the slope of a line on a log-log plot."""
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0])


def column(rows: Sequence[Row], name: str) -> list[float]:
    """Return the values of a column."""
    return [row[name] for row in rows]


def draw_growth(axes: Any, x: Sequence[float], seconds: Sequence[float], *, label: str, place: int | str) -> None:
    """Plot times on logarithmic axes, with their exponent in the label."""
    growth = f" (exponent {exponent(x, seconds):.2f})" if len(x) > 1 else ""
    axes.plot(x, seconds, **figures.style(place), label=f"{label}{growth}")
    axes.set(xscale="log", yscale="log", ylabel="seconds")


def draw_linear(axes: Any, x: Sequence[float], through: float) -> None:
    """Plot a grey line of slope 1 through the time ``through`` at ``x[0]``."""
    axes.plot(x, [through * each / x[0] for each in x], color="0.6", linestyle=":", label="linear")
