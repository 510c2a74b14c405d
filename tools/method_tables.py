"""Measure the tables of docs/which_method.md: models of tables, and kernel matrices.

``python -m tools.method_tables`` writes docs/tables/models.md, docs/tables/matrices.md, docs/comparison.svg and the
table of README.md. All data are generated or ship with scikit-learn.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import blockbasis as bb
from blockbasis.experiments import compare
from blockbasis.experiments.framework.curves import LABELS

README = Path(__file__).resolve().parent.parent / "README.md"
FOLDER = README.parent / "docs" / "tables"
#: Points of the kernel matrices, floats per point, and bandwidths.
POINTS, FLOATS, BANDWIDTHS = 2_000, 50, (4.0, 1.0, 0.3)
GAMMAS, ALPHAS = np.geomspace(1e-3, 1, 4), np.geomspace(1e-3, 1, 4)


def data_sets(rows: int = 2_000) -> dict[str, tuple[Any, Any, bool]]:
    """Return points, targets and whether they are classes, for each name."""
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 8, size=(rows, 6)).astype(float)
    target = (steps[:, 0] > 3) * (steps[:, 1] == 2) * 4.0 + (steps[:, 2] > 5) * 2 + (steps[:, 3] % 2)
    return {
        "Friedman's problem, 10 columns": (*make_friedman1(rows, noise=1.0, random_state=0), False),
        "diabetes, 10 columns": (*load_diabetes(return_X_y=True), False),
        "thresholds of codes, 6 columns": (steps, target + 0.3 * rng.normal(size=rows), False),
        "digits, 64 columns": (*load_digits(return_X_y=True), True),
    }


def models(classes: bool) -> dict[str, Callable[[], Any]]:
    """Return the constructors of the models by name."""
    if classes:
        grid = {"svc__C": [1, 10, 100], "svc__gamma": [1e-3, 1e-2, 1e-1]}
        return {
            "blockbasis": lambda: bb.KernelRidgeClassifierCV(random_state=0, n_jobs=1),
            "Nyström, 500": lambda: _scaled(
                Nystroem(n_components=500, random_state=0), LogisticRegression(max_iter=500)
            ),
            "exact kernel": lambda: GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3),
            "gradient boosting": lambda: HistGradientBoostingClassifier(random_state=0),
        }
    grid = {"kernelridge__alpha": ALPHAS, "kernelridge__gamma": GAMMAS}
    return {
        "blockbasis": lambda: bb.KernelRidgeCV(random_state=0, n_jobs=1),
        "Nyström, 500": lambda: _scaled(
            Nystroem(n_components=500, random_state=0), RidgeCV(np.geomspace(1e-4, 1e2, 7))
        ),
        "exact kernel": lambda: GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3),
        "gradient boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    }


def _scaled(features: Any, last: Any) -> Any:
    return make_pipeline(StandardScaler(), features, last)


def model_rows() -> list[list[str]]:
    """Fit each model to each data set, and return the rows of the table."""
    rows = []
    for name, (X, y, classes) in data_sets().items():
        X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
        cells = []
        for make in models(classes).values():
            start = time.process_time()
            with threadpool_limits(1):  # seconds of one thread, which other processes do not change
                model = make().fit(X_fit, y_fit)
            seconds = time.process_time() - start
            wrong = model.predict(X_test) - y_test
            error = float(np.mean(wrong != 0)) if classes else float(np.sqrt(np.mean(wrong**2)))
            cells.append((error, seconds))
        best = min(error for error, _ in cells)
        shown = [(f"**{e:.3g}**" if e == best else f"{e:.3g}") + f" ({s:.1f} s)" for e, s in cells]
        rows.append([f"{name}, {len(X_fit)} rows", "error rate" if classes else "RMSE", *shown])
    return rows


def matrix_rows() -> list[list[str]]:
    """Compare methods on the same points at three bandwidths, and return the rows of the table."""
    X = np.random.default_rng(0).normal(size=(POINTS, 3))
    methods = ["bbf", "svd", "nystrom", "nystrom-kmeans", "rpcholesky", "meka"]
    found = [compare(X, bb.Gaussian(h), methods=methods, budgets=[FLOATS], runs=1) for h in BANDWIDTHS]
    rows = []
    for method in methods:
        cells = []
        for result in found:
            (row,) = result.where(method=method)
            best = min(each["error"] for each in result.rows)
            error = f"**{row['error']:.1e}**" if row["error"] == best else f"{row['error']:.1e}"
            cells.append(f"{error} ({row['seconds']:.2g} s)")
        rows.append([LABELS[method], *cells])
    return rows


def with_table(page: str, measured: str) -> str:
    """Return a page with its table of models replaced by a new one."""
    return re.sub(
        r"^\| data \| measure \|.*?\n(?=\n)", lambda _: measured, page, count=1, flags=re.DOTALL | re.MULTILINE
    )


def draw_picture() -> None:
    """Draw docs/comparison.svg: error against memory and time of several methods."""
    X = np.random.default_rng(0).normal(size=(POINTS, 3))
    methods = ["bbf", "svd", "nystrom", "nystrom-kmeans", "rpcholesky", "random-features", "meka"]
    result = compare(X, bb.Gaussian(1.0), methods=methods, budgets=[10, 20, 50, 100], runs=1)
    figure = result.experiment.draw(result)
    figure.set_size_inches(9.5, 4.2)
    with rc_context({"svg.hashsalt": "blockbasis"}):
        figure.savefig(FOLDER.parent / "comparison.svg", metadata={"Date": None})


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    """Write both tables."""
    FOLDER.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    note = (
        "\nTest error, and processor seconds of the fit on one thread. Exact kernel: scikit-learn's `KernelRidge` or"
        "\n`SVC` with a grid search. Gradient boosting: scikit-learn's `HistGradientBoosting` with its defaults.\n"
    )
    measured = table(["data", "measure", *models(False)], model_rows())
    (FOLDER / "models.md").write_text(measured + note, encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), measured), encoding="utf-8")
    header = ["method", *(f"bandwidth {h:g}" for h in BANDWIDTHS)]
    note = f"\nRelative error and seconds, {POINTS:,} normal points in 3 dimensions, {FLOATS} floats per point.\n"
    (FOLDER / "matrices.md").write_text(table(header, matrix_rows()) + note, encoding="utf-8")
    draw_picture()


if __name__ == "__main__":
    main()
