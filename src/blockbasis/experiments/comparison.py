"""Comparison of all methods on given points: error against memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_choice, check_integer, check_points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.framework.curves import (
    LABELS,
    METHODS,
    OURS,
    different_runs,
    draw_errors,
    error_row,
    mean_errors,
    mean_seconds,
)
from blockbasis.experiments.framework.running import run
from blockbasis.kernels import CallableKernel, as_kernel
from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Default budgets in floats per point.
BUDGETS = (10, 20, 50, 100)
#: Relative errors up to this are of the size of rounding, and name no best method.
_ROUNDING = 1e-12


def compare(
    X: Any,
    kernel: Any,
    *,
    methods: Sequence[str] = METHODS,
    budgets: Sequence[int] = BUDGETS,
    runs: int = 3,
    seed: int = 0,
) -> Result:
    """Compute the relative error of each method at each budget.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    methods : sequence of str
        Names of `blockbasis.baselines.approximate`; by default all methods that accept a budget. "meka", "clra" and
        "bbf-paper" have sqrt(n) / 4 clusters.
    budgets : sequence of int, default=(10, 20, 50, 100)
        Budgets in floats per point, at least 3.
    runs : int, default=3
        Number of runs of each method with different random numbers.
    seed : int, default=0
        Seed of the random numbers.

    Returns
    -------
    Result
        Result with a row for each run. If a method does not support a budget or the kernel, the row has a note with the
        reason.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.experiments import compare
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> result = compare(X, bb.Gaussian(0.5), methods=["bbf", "nystrom"], budgets=[20], runs=2)
    >>> [row["method"] for row in result.rows]
    ['bbf', 'bbf', 'nystrom', 'nystrom']
    """
    caller = "compare"
    X = check_points(X, name="X", caller=caller, dtype=np.float64)
    kernel = as_kernel(kernel, caller=caller)
    for method in methods:
        check_choice(method, METHODS, name="methods", caller=caller)
    budgets = [check_integer(floats, name="budgets", caller=caller, low=3) for floats in budgets]
    runs = check_integer(runs, name="runs", caller=caller, low=1)
    shared = {
        "points": len(X),
        "columns": X.shape[1],
        "kernel": type(kernel).__name__ if isinstance(kernel, CallableKernel) else repr(kernel),
    }
    # One part per run, so that its random numbers do not depend on the other methods and budgets.
    parts = [
        {"method": method, "floats": floats, "run": each, **shared}
        for method in methods
        for floats in budgets
        for each in range(different_runs(method, runs))
    ]

    def measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
        return [_row(X, kernel, settings, rng)]

    experiment = Experiment(
        "comparison",
        f"{len(X)} points, {X.shape[1]} columns, {kernel}",
        "4.2.1",
        "At the same memory the block basis factorization has a lower error than the competing methods.",
        lambda quick: parts,
        measure,
        _draw,
        _judge,
    )
    return run(experiment, seed=check_integer(seed, name="seed", caller=caller, low=0))


def _row(X: FloatArray, kernel: Any, settings: Settings, rng: np.random.Generator) -> Row:
    method, floats = settings["method"], settings["floats"]
    try:
        return error_row(X, kernel, method, floats, rng)
    except ValueError as error:  # points and kernel are checked, so that the method does not support them
        return {"note": f"{method}, {floats} floats per point: {error}"}


def _draw(result: Result) -> Any:
    figure, (by_memory, by_time) = figures.panels(2)
    figure.set_size_inches(11, 5)
    draw_memory(result, by_memory)
    by_memory.set_title(result.experiment.title)
    draw_time(result, by_time)
    by_time.set(title="Error against time", ylabel="", ylim=by_memory.get_ylim())
    figures.shared_legend(figure, by_memory)
    return figure


def draw_memory(result: Result, axes: Any) -> None:
    """Plot the error of each method against the floats per point, with a marker for each run.

    Parameters
    ----------
    result : Result
        What `compare` returned.
    axes : matplotlib.axes.Axes
    """
    draw_errors(axes, result, "floats")
    axes.set_xlabel("floats per point")


def draw_time(result: Result, axes: Any) -> None:
    """Plot the mean error against the mean time of each method, with a marker for each budget.

    Parameters
    ----------
    result : Result
        What `compare` returned.
    axes : matplotlib.axes.Axes
    """
    for method in result.distinct("method"):
        places = []
        for floats in result.distinct("floats", method=method):
            error = mean_errors(result, floats=floats).get(method)
            seconds = mean_seconds(result, floats=floats).get(method)
            if error and seconds and np.isfinite(error):
                places.append((seconds, error))
        if places:
            axes.plot(*zip(*places, strict=True), **figures.style(method), ms=5, label=LABELS[method])
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative error")


def _judge(result: Result) -> Verdict:
    errors_at = {floats: mean_errors(result, floats=floats) for floats in result.distinct("floats")}
    best_at = {floats: min(errors, key=lambda m: errors[m]) for floats, errors in errors_at.items() if errors}
    if best_at and all(errors_at[floats][best] <= _ROUNDING for floats, best in best_at.items()):
        return Verdict(None, "All errors are of the size of rounding: no method is best.")
    if not best_at:
        return Verdict(None, "Nothing was measured.")
    beaten = [
        f"at {floats} floats per point {LABELS[best]} is best" for floats, best in best_at.items() if best != OURS
    ]
    where = (
        "at every budget" if len(best_at) == len(errors_at) else f"at {', '.join(map(str, best_at))} floats per point"
    )
    return Verdict(not beaten, "; ".join(beaten) + "." if beaten else f"{LABELS[OURS]} is best {where}.")
