"""The improved fast Gauss transform against the block basis factorization, in 5 and in 40 dimensions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis import plotting
from blockbasis.baselines import ifgt
from blockbasis.datasets import unit_cube_mixture
from blockbasis.exceptions import PerformanceWarning
from blockbasis.experiments.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.timing import column, draw_growth, exponent, product_seconds, timed

_BANDWIDTH, _TOL = 0.5, 1e-3
_DIMENSIONS = {
    5: ([1000, 2000, 4000], [5000, 10_000, 20_000, 40_000, 80_000]),
    40: ([1000, 2000], [5000, 10_000, 20_000]),
}
_CHECKED_ROWS = 500
#: Exponents of n up to which growth counts as linear, and from which as quadratic.
_LINEAR, _QUADRATIC = 1.1, 1.7


def _parts(quick: bool) -> list[Settings]:
    return [
        {"method": method, "d": d, "sizes": few if quick else many}
        for d, (few, many) in _DIMENSIONS.items()
        for method in ("ifgt", "bbf")
    ]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    return [_at_size(settings["method"], settings["d"], n, rng) for n in settings["sizes"]]


def _at_size(method: str, d: int, n: int, rng: np.random.Generator) -> Row:
    X = unit_cube_mixture(n, d, rng=np.random.default_rng(0))  # the same centres at every size
    kernel = bb.Gaussian(_BANDWIDTH)
    if method == "ifgt":
        built, A = timed(lambda: ifgt(X, kernel, tol=_TOL, rng=rng))
        facts = {"direct": A.direct, "error_over_bound": _error_over_bound(A, X, kernel, rng)}
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)
            built, B = timed(lambda: bb.factorize(X, kernel, tol=_TOL, rng=rng))
        A, facts = B, {"stored": B.stored / n}
    applied = product_seconds(A, rng)
    return {"points": n, "application": applied, "total": built + applied, **facts}


def _error_over_bound(A: Any, X: Any, kernel: bb.Gaussian, rng: np.random.Generator) -> float:
    """Largest error of a product in some rows, over the tolerance times the moduli of the vector."""
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
            for method in ("ifgt", "bbf"):
                rows = result.where(d=d, method=method)
                draw_growth(each, column(rows, "points"), column(rows, what), label=method.upper(), place=method)
            each.set(xlabel="points", title=f"{what} time, d = {d}")
            each.legend(frameon=False)
    return figure


def _judge(result: Result) -> Verdict:
    holds, sentences = True, []
    for d in result.distinct("d"):
        series = result.where(d=d, method="ifgt")
        blocks = result.where(d=d, method="bbf")
        growth = {
            (method, what): exponent(column(rows, "points"), column(rows, what))
            for method, rows in (("ifgt", series), ("bbf", blocks))
            for what in ("application", "total")
        }
        direct = all(row["direct"] for row in series)
        worst = max(column(series, "error_over_bound"))
        as_said = growth["ifgt", "application"] <= _LINEAR if d < 10 else growth["ifgt", "application"] >= _QUADRATIC
        holds &= worst <= 1 and as_said and max(growth["bbf", what] for what in ("application", "total")) <= _LINEAR
        sentences.append(
            f"d = {d}: a product by IFGT grows with exponent {growth['ifgt', 'application']:.2f}"
            f"{' (direct evaluation)' if direct else ''}, its error at most {worst:.2g} of its bound; BBF's exponents "
            f"are {growth['bbf', 'application']:.2f} for a product and {growth['bbf', 'total']:.2f} in all."
        )
    return Verdict(holds, " ".join(sentences))


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
)
