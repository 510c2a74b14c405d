"""Error against memory of all methods: measurements, plots, tables and verdicts of several experiments."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.accuracy import relative_error
from blockbasis.baselines.approximate import approximate
from blockbasis.baselines.protocol import Approximation, LowRank
from blockbasis.exceptions import PerformanceWarning
from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Result, Row, Table, Verdict
from blockbasis.experiments.framework.tables import pivot_table
from blockbasis.operators.exact import ExactKernel
from blockbasis.planning.search import default_clusters
from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

OURS, PAPER, BEST = "bbf", "bbf-paper", "svd"
LOW_RANK = (BEST, "nystrom", "nystrom-kmeans", "nystrom-leverage", "rpcholesky", "random-features")
METHODS = (OURS, PAPER, *LOW_RANK, "meka", "clra")
#: Labels of the methods in figures.
LABELS = {
    OURS: "BBF (default)",
    PAPER: "BBF (the paper's)",
    "svd": "SVD",
    "nystrom": "Nyström",
    "nystrom-kmeans": "Nyström, k-means",
    "nystrom-leverage": "Nyström, leverage",
    "rpcholesky": "RPCholesky",
    "random-features": "random features",
    "meka": "MEKA",
    "clra": "CLRA",
}
_CLUSTERED = (PAPER, "meka", "clra")
#: Competing methods of the paper; the others are later than the paper or are additions.
_OF_PAPER = tuple(method for method in METHODS if method not in (OURS, PAPER, "rpcholesky", "clra"))
#: Name of the paper's variant in verdicts.
PAPERS_OWN = "The paper's own algorithm"
#: Largest number of points for which errors are exact, and number of rows from which they are estimated beyond it.
_EXACT_POINTS, _ERROR_ROWS = 5_000, 2_000
#: Settings of the experiments with all methods that the paper does not give.
CLUSTERS = (
    "The paper chooses clusters by a tolerance and not by a memory: here its BBF, and with it MEKA and CLRA, have "
    "sqrt(n) / 4 of them."
)
ERROR_ROWS = f"Errors of more than {_EXACT_POINTS} points are estimated from {_ERROR_ROWS} rows."
#: Largest relative error in plots: the method has failed if the error is larger.
_PLOT_CEILING = 10.0
#: Smallest relative error in plots: a logarithmic axis has no zero.
_PLOT_FLOOR = 1e-17
#: Numbers of runs of every method in a full and in a quick experiment. The spread of other methods is compared with
#: that of MEKA, which has all runs in a quick experiment as well: the spread of two runs varies too much.
_RUNS, _QUICK_RUNS = 5, 2
_SPREAD_REFERENCE = "meka"
#: Methods that do not depend on the seed.
_DETERMINISTIC = (BEST,)


def error_rows(
    X: FloatArray,
    kernel: Any,
    method: str,
    budgets: Sequence[int],
    *,
    runs: int,
    rng: np.random.Generator,
    clusters: int | None = None,
) -> list[Row]:
    """Return the relative error of a method at each budget, in floats per point, for each run.

    ``clusters`` is that of `approximation_within`.
    """
    best = best_ranks(X, kernel, max(budgets), rng.spawn(1)[0]) if method == BEST else None
    error_of = _error_measure(X, kernel)
    rows = []
    for floats in budgets:
        for run, stream in enumerate(rng.spawn(different_runs(method, runs))):
            of_method, of_rows = stream.spawn(2)
            if best is None:
                A = approximation_within(X, kernel, method, floats * len(X), of_method, clusters=clusters)
            else:
                A = best(floats)
            rows.append({"floats": floats, "run": run, **_error_and_memory(A, error_of(A, of_rows))})
    return rows


def _error_measure(
    X: FloatArray, kernel: Any, *, exact_points: int = _EXACT_POINTS, n_rows: int = _ERROR_ROWS
) -> Callable[[Approximation, np.random.Generator], float]:
    """Return a function (A, rng) -> relative error, which uses the exact matrix if the points are few."""
    if len(X) > exact_points:
        return lambda A, rng: relative_error(A, X, kernel, n_rows=n_rows, rng=rng).value
    K = ExactKernel(X, kernel).todense()
    norm = float(np.linalg.norm(K))
    return lambda A, rng: float(np.linalg.norm(A.todense() - K)) / norm


def best_ranks(X: FloatArray, kernel: Any, floats: int, rng: np.random.Generator) -> Callable[[int], LowRank]:
    """Return a function r -> SVD of rank r for all r up to ``floats``, from one decomposition."""
    whole = approximation_within(X, kernel, BEST, floats * len(X), rng)
    assert isinstance(whole, LowRank)
    F = whole.factor[:, np.argsort(-np.linalg.norm(whole.factor, axis=0))]
    return lambda fewer: LowRank(BEST, F[:, :fewer])


def runs_of(method: str, quick: bool) -> int:
    """Return the number of runs of a method in an experiment that judges the spread over runs."""
    return _QUICK_RUNS if quick and method != _SPREAD_REFERENCE else _RUNS


def different_runs(method: str, runs: int) -> int:
    """Return the number of runs of a method; 1 if the method is deterministic."""
    return 1 if method in _DETERMINISTIC else runs


def error_row(X: FloatArray, kernel: Any, method: str, floats: int, rng: np.random.Generator) -> Row:
    """Return the relative error, the stored floats per point and the seconds of one run of a method."""
    of_method, of_rows = rng.spawn(2)
    start = time.perf_counter()
    A = approximation_within(X, kernel, method, floats * len(X), of_method)
    seconds = time.perf_counter() - start
    n_rows = None if len(X) <= _EXACT_POINTS else _ERROR_ROWS
    error = relative_error(A, X, kernel, n_rows=n_rows, rng=of_rows).value
    return {**_error_and_memory(A, error), "seconds": seconds}


def _error_and_memory(A: Approximation, error: float) -> Row:
    # JSON has no infinity, the error of an approximation that overflows.
    return {"error": error if math.isfinite(error) else None, "stored": A.stored / A.shape[0]}


def approximation_within(
    X: FloatArray, kernel: Any, method: str, memory: int, rng: np.random.Generator, *, clusters: int | None = None
) -> Approximation:
    """Return the approximation of a method within a budget of ``memory`` floats.

    The paper's BBF, MEKA and CLRA have the same number of clusters, as in the paper; None selects sqrt(n) / 4.
    """
    options = {"n_clusters": clusters or default_clusters(len(X))} if method in _CLUSTERED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # the curve shows whether compression pays
        return approximate(X, kernel, method, memory=memory, rng=rng, **options)


def draw_errors(axes: Any, result: Result, x: str, **selected: Any) -> None:
    """Plot the relative error against a column, with a curve for each method and a marker for each run."""
    places = sorted(result.distinct(x, **selected))
    for method in result.distinct("method", **selected):
        runs = {at: _errors(result, method=method, **selected, **{x: at}) for at in places}
        runs = {at: [max(error, _PLOT_FLOOR) for error in errors] for at, errors in runs.items() if errors}
        if runs:
            figures.runs_and_mean(axes, list(runs), list(runs.values()), label=LABELS[method], place=method)
    axes.set(xscale="log", yscale="log", ylabel="relative error")
    axes.set_xticks(places, [f"{at:g}" for at in places], minor=False)
    axes.set_xticks([], minor=True)
    drawn = [max(e, _PLOT_FLOOR) for e in _errors(result, **selected) if e < _PLOT_CEILING]
    axes.set_ylim(min(drawn, default=1e-3) / 1.5, min(max(drawn, default=1.0) * 1.5, _PLOT_CEILING))


def draw_error_panels(result: Result, x: str, *, xlabel: str, title: Callable[[Row], str]) -> Any:
    """Plot relative errors against a column in a panel for each data set; ``title`` maps a row to a panel's title."""
    names = result.distinct("data")
    figure, axes = figures.panels(len(names))
    for each, name in zip(axes, names, strict=True):
        draw_errors(each, result, x, data=name)
        each.set(title=f"{points.TITLES[name]}, {title(result.where(data=name)[0])}", xlabel=xlabel)
    figures.shared_legend(figure, axes[0])
    return figure


def tabulate_errors(result: Result, across: str) -> list[Table]:
    """Return a table of the mean relative errors of all methods for each data set."""
    return [
        pivot_table(
            result,
            f"{points.TITLES[name]}, relative error",
            down="method",
            across=across,
            value="error",
            names=LABELS,
            data=name,
        )
        for name in result.distinct("data")
    ]


def _errors(result: Result, **selected: Any) -> list[float]:
    """Return the relative errors of the selected runs; infinity for an approximation that overflowed."""
    found = [row["error"] for row in result.where(**selected) if "error" in row]
    return [math.inf if error is None else error for error in found]


def mean_errors(result: Result, **selected: Any) -> dict[str, float]:
    """Return the mean error over the runs of each method."""
    errors = {method: _errors(result, method=method, **selected) for method in result.distinct("method", **selected)}
    return {method: float(np.mean(runs)) for method, runs in errors.items() if runs}


def mean_seconds(result: Result, **selected: Any) -> dict[str, float]:
    """Return the mean time over the runs of each method, where it was measured."""
    rows = [row for row in result.where(**selected) if "seconds" in row]
    methods = dict.fromkeys(row["method"] for row in rows)
    return {each: float(np.mean([row["seconds"] for row in rows if row["method"] == each])) for each in methods}


def spread(result: Result, **selected: Any) -> float:
    """Return the standard deviation of the error over the runs, from the unbiased variance."""
    errors = _errors(result, **selected)
    return float(np.std(errors, ddof=1)) if np.isfinite(errors).all() else math.inf


def _of_paper(result: Result, **selected: Any) -> str:
    """Return the error of the paper's variant, or the number of runs in which it fails, as text."""
    errors = _errors(result, method=PAPER, **selected)
    failed = sum(error > 1 for error in errors)
    if failed:
        return f"the paper's is worse than zero in {failed} of {len(errors)} runs, its median {np.median(errors):.2g}"
    return f"the paper's {np.mean(errors):.2g}"


def judge_memory(result: Result) -> Verdict:
    """Judge whether our error is the lowest at every budget and varies less than that of MEKA.

    The verdict refers to our default algorithm; the sentence reports the paper's variant as well.
    """
    cells = [(name, floats) for name in result.distinct("data") for floats in result.distinct("floats", data=name)]
    beaten, paper_beaten, unsteady, gains, below_named = [], [], [], [], 0
    for name, floats in cells:
        errors = mean_errors(result, data=name, floats=floats)
        others = {method: error for method, error in errors.items() if method not in (OURS, PAPER)}
        best = min(others, key=lambda method: others[method])
        gains.append(others[best] / errors[OURS])
        where = f"{points.TITLES[name]} at {floats} floats ({LABELS[best]} {others[best]:.2g}"
        if errors[OURS] >= others[best]:
            beaten.append(f"{where}, ours {errors[OURS]:.2g})")
        if errors[PAPER] >= others[best]:
            paper_beaten.append(f"{where}, {_of_paper(result, data=name, floats=floats)})")
        below_named += errors[PAPER] < min(errors[method] for method in _OF_PAPER if method in errors)
        of_each = (spread(result, data=name, floats=floats, method=m) for m in (OURS, _SPREAD_REFERENCE))
        if next(of_each) >= next(of_each):
            unsteady.append(f"{points.TITLES[name]} at {floats} floats")
    count = len(cells)
    return Verdict(
        not beaten and not unsteady,
        f"Judged by our default. It is below every competing method in {count - len(beaten)} of {count} cases, by a "
        f"factor {min(gains):.2g} to {max(gains):.2g} below the best of them"
        + (f"; not for {', '.join(beaten)}" if beaten else "")
        + f". Its spread over runs is below MEKA's in {count - len(unsteady)} of {count}"
        + (f", not for {', '.join(unsteady)}" if unsteady else "")
        + f". {PAPERS_OWN} is below every method that the paper compares with in {below_named} of {count}, and below "
        + f"RPCholesky and CLRA too in {count - len(paper_beaten)}"
        + (f"; not for {', '.join(paper_beaten)}." if paper_beaten else "."),
        ours_only=below_named < count,
    )
