"""The improved fast Gauss transform against the block basis factorization, in 5 and in 40 dimensions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis import plotting
from blockbasis._typing import FloatArray
from blockbasis.baselines import ifgt
from blockbasis.datasets import unit_cube_mixture
from blockbasis.exceptions import PerformanceWarning
from blockbasis.experiments.base import Experiment, Result, Row, Settings, Table, Verdict
from blockbasis.experiments.tables import crossed
from blockbasis.experiments.timing import column, draw_growth, exponent, product_seconds, shortest

_BANDWIDTH, _TOL = 0.5, 1e-3
#: BBF that keeps IFGT's tolerance, the tolerance times the moduli of the vector: a cluster for each of the cloud's
#: centres, and a rank that does. And BBF to a relative error as small, which is far less.
_FIXED = {"n_clusters": 10, "rank": 50}
_METHODS = {"ifgt": "IFGT", "bbf-fixed": "BBF, 10 clusters of rank 50", "bbf": "BBF, to a relative error of 0.001"}
_FEW = [1000, 2000]
_SIZES = {
    ("ifgt", 5): [5000, 10_000, 20_000, 40_000, 80_000],
    ("bbf", 5): [5000, 10_000, 20_000, 40_000, 80_000],
    ("bbf-fixed", 5): [5000, 10_000, 20_000, 40_000, 80_000],
    ("ifgt", 40): [5000, 10_000, 20_000],
    ("bbf", 40): [1250, 2500, 5000],  # which fill half of a dense matrix
    ("bbf-fixed", 40): [5000, 10_000, 20_000, 40_000, 80_000],
}
_CHECKED_ROWS = 500
#: Exponents of n up to which growth counts as linear, and from which as quadratic.
_LINEAR, _QUADRATIC = 1.1, 1.7


def _parts(quick: bool) -> list[Settings]:
    return [
        {"method": method, "d": d, "sizes": _FEW if quick else sizes, "repetitions": 1 if quick else 2}
        for (method, d), sizes in _SIZES.items()
    ]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    return [_at_size(settings, n, rng) for n in settings["sizes"]]


def _at_size(settings: Settings, n: int, rng: np.random.Generator) -> Row:
    X = unit_cube_mixture(n, settings["d"], rng=np.random.default_rng(0))  # the same centres at every size
    kernel = bb.Gaussian(_BANDWIDTH)
    built, A = shortest(partial(_built, settings["method"], X, kernel, rng), settings["repetitions"])
    applied = product_seconds(A, rng)
    return {
        "points": n,
        "application": applied,
        "total": built + applied,
        "stored": A.stored / n,
        "direct": bool(getattr(A, "direct", False)),
        "error_over_bound": _error_over_bound(A, X, kernel, rng),
    }


def _built(method: str, X: FloatArray, kernel: bb.Gaussian, rng: np.random.Generator) -> Any:
    if method == "ifgt":
        return ifgt(X, kernel, tol=_TOL, rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # what does not pay is what the curve shows
        return bb.factorize(X, kernel, rng=rng, **({"tol": _TOL} if method == "bbf" else _FIXED))


def _error_over_bound(A: Any, X: FloatArray, kernel: bb.Gaussian, rng: np.random.Generator) -> float:
    """Largest error of a product in some rows, over the tolerance times the moduli of the vector: IFGT's bound."""
    v = rng.standard_normal(len(X))
    some = rng.choice(len(X), min(_CHECKED_ROWS, len(X)), replace=False)
    off = np.abs((A @ v)[some] - kernel(X[some], X) @ v).max()
    return float(off / (_TOL * np.abs(v).sum()))


def _draw(result: Result) -> Any:
    dimensions = result.distinct("d")
    figure, axes = plotting.panels(2 * len(dimensions), columns=len(dimensions))
    for place, d in enumerate(dimensions):
        for row, what in enumerate(("application", "total")):
            each = axes[row * len(dimensions) + place]
            for method, label in _METHODS.items():
                for direct, how in ((False, ""), (True, ", directly")):
                    rows = result.where(d=d, method=method, direct=direct)
                    if rows:
                        x, seconds = column(rows, "points"), column(rows, what)
                        draw_growth(each, x, seconds, label=f"{label}{how}", place=method)
            each.set(xlabel="points", title=f"{what} time, d = {d}")
            each.legend(frameon=False, fontsize="x-small")
    return figure


def _judge(result: Result) -> Verdict:
    holds, sentences = True, []
    for d in result.distinct("d"):
        growth = {method: _exponents(_alike(result.where(d=d, method=method))) for method in _METHODS}
        series, direct = growth["ifgt"]["application"], all(row["direct"] for row in result.where(d=d, method="ifgt"))
        worst = {m: max(column(result.where(d=d, method=m), "error_over_bound")) for m in _METHODS}
        as_said = series <= _LINEAR if d < 10 else series >= _QUADRATIC
        linear = max(growth["bbf-fixed"].values()) <= _LINEAR
        holds &= as_said and linear and max(worst.values()) <= 1
        largest = max(result.where(d=d, method="bbf"), key=lambda row: float(row["points"]))
        sentences.append(
            f"d = {d}: a product by IFGT grows with exponent {series:.2f}{' (direct evaluation)' if direct else ''}, "
            f"its error at most {worst['ifgt']:.2g} of its bound. BBF of {_FIXED['n_clusters']} clusters and rank "
            f"{_FIXED['rank']}: exponents {_both(growth['bbf-fixed'])}, its error at most {worst['bbf-fixed']:.2g} of "
            f"that bound. To a relative error of {_TOL:g}, {worst['bbf']:.1g} of that bound, BBF takes "
            f"{largest['stored']:.0f} floats per point at {largest['points']} points, with exponents "
            f"{_both(growth['bbf'])}."
        )
    return Verdict(holds, " ".join(sentences))


def _alike(rows: list[Row]) -> list[Row]:
    """Those that show how a method grows: of IFGT's the sizes that it does not evaluate directly, where it has some."""
    series = [row for row in rows if not row["direct"]]
    return series if len(series) > 1 else rows


def _exponents(rows: list[Row]) -> dict[str, float]:
    return {what: exponent(column(rows, "points"), column(rows, what)) for what in ("application", "total")}


def _both(growth: dict[str, float]) -> str:
    return f"{growth['application']:.2f} for a product and {growth['total']:.2f} in all"


def _tabulate(result: Result) -> list[Table]:
    return [
        crossed(
            result,
            f"d = {d}, seconds of {label}",
            down="method",
            across="points",
            value=what,
            names=_METHODS,
            d=d,
        )
        for d in result.distinct("d")
        for what, label in (("application", "a product"), ("total", "factorization and product"))
    ]


EXPERIMENT = Experiment(
    "gauss-transform",
    "Improved fast Gauss transform against BBF",
    "4.2.4",
    "The time of IFGT grows linearly with n for d = 5 and falls back to quadratic for d = 40; that of BBF stays "
    "linear.",
    _parts,
    _measure,
    _draw,
    _judge,
    timed=True,
    tabulate=_tabulate,
)
