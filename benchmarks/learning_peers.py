"""Searches with no argument beside what scikit-learn has: errors and processor seconds, means over three splits.

python benchmarks/learning_peers.py [--data NAME ...] [--methods NAME ...] [--splits 3] [--out FOLDER]

Data are NPZ files in the directory that BLOCKBASIS_DATA names; the splits are those published with them, or nine to
one at random. Columns are standardised for the peers and given as they are to ours; targets have standard deviation 1.
No setting of ours depends on the data set, and none was chosen on test rows. Seconds are of the processor. All data
sets of one split come before the next split, the quick ones first. Of ours there are also the expected calibration
error of the probabilities, and the shares of the targets within intervals of 80% and 95%. Writes learning.jsonl, from
which a run that was interrupted goes on, learning.json (means) and learning.md. Run with OPENBLAS_NUM_THREADS=1
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import time
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import blockbasis as bb

REGRESSION = ("abalone", "cpusmall", "pumadyn32nm", "elevators", "bike", "census_house", "keggdirected")
CLASSES = ("pendigits", "gesture", "covtype")
QUICK_FIRST = (*REGRESSION[:3], *CLASSES[:2], *REGRESSION[3:], "covtype")
ALPHAS = np.logspace(-6, 2, 9)
GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0)
EXACT_ROWS = 10_000
FIGURES = ("error", "seconds", "calibration", "within 80%", "within 95%")
#: Of the Gaussian process; with classes it is one against the rest, each with its own iterations.
PROCESS_ROWS = {"regression": 2_000, "classes": 1_000}


def split(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Points and targets to learn from, and to test on."""
    with np.load(pathlib.Path(os.environ["BLOCKBASIS_DATA"]) / f"{name}.npz") as file:
        X, y, published = file["X"].astype(float), file["y"], file.get("test")
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[len(X) // 10 :], order[: len(X) // 10]
    if published is not None:
        train, test = np.flatnonzero(~published[:, seed]), np.flatnonzero(published[:, seed])
    elif name == "pendigits":
        train, test = np.arange(7494), np.arange(7494, len(X))
    elif name == "covtype":
        train, test = order[:100_000], order[100_000:120_000]
    if name in REGRESSION:
        y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def standardised(X: np.ndarray, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    return (X - mean) / deviation, (X_new - mean) / deviation


# --- methods: predictions at new points, and the model where it says more than these ---------------------------------


def ours(X, y, X_new, classes, seed):
    model = (bb.KernelRidgeClassifierCV if classes else bb.KernelRidgeCV)(random_state=seed, n_jobs=1)
    return model.fit(X, y).predict(X_new), model


def boosting(X, y, X_new, classes, seed):
    model = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return model(max_iter=1000, early_stopping=True, random_state=seed).fit(X, y).predict(X_new), None


def nystroem(X, y, X_new, classes, seed):
    X, X_new = standardised(X, X_new)
    linear = RidgeClassifierCV(ALPHAS) if classes else RidgeCV(ALPHAS)
    pipeline = make_pipeline(Nystroem(n_components=min(1500, len(X) // 2), random_state=seed), linear)
    grid = {"nystroem__gamma": [gamma / X.shape[1] for gamma in GAMMAS]}
    return GridSearchCV(pipeline, grid, cv=3).fit(X, y).predict(X_new), None


def exact(X, y, X_new, classes, seed):
    X, X_new = standardised(X, X_new)
    rows = np.random.default_rng(seed).permutation(len(X))
    labels = np.unique(y) if classes else None
    Y = 2.0 * (y[:, np.newaxis] == labels) - 1 if classes else y
    grid = {"gamma": [gamma / X.shape[1] for gamma in GAMMAS], "alpha": [1e-3, 1e-2, 1e-1]}
    few = rows[:2000]
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3, scoring="neg_mean_squared_error").fit(X[few], Y[few])
    rows = rows[:EXACT_ROWS]
    values = search.best_estimator_.fit(X[rows], Y[rows]).predict(X_new)
    return labels[values.argmax(axis=1)] if classes else values, None


def process(X, y, X_new, classes, seed):
    """scikit-learn's Gaussian process on some rows, with a length for each column; one length for classes."""
    X, X_new = standardised(X, X_new)
    rows = np.random.default_rng(seed).permutation(len(X))[: PROCESS_ROWS["classes" if classes else "regression"]]
    d = X.shape[1]
    if classes:
        model = GaussianProcessClassifier(1.0 * RBF(np.sqrt(d)), random_state=seed)
    else:
        model = GaussianProcessRegressor(1.0 * RBF(np.full(d, np.sqrt(d))) + WhiteKernel(0.1), random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # lengths of columns that do not matter grow to the bound
        return model.fit(X[rows], y[rows]).predict(X_new), None


METHODS = {"ours": ours, "boosting": boosting, "nystroem": nystroem, "exact": exact, "process": process}


# --- the table -------------------------------------------------------------------------------------------------------


def error_of(name: str, y: np.ndarray, guess: np.ndarray) -> float:
    """RMSE; share of wrong classes; for gesture, 1 less the mean F1 of the classes."""
    if name in REGRESSION:
        return float(np.sqrt(np.mean((guess - y) ** 2)))
    return float(1 - f1_score(y, guess, average="macro")) if name == "gesture" else float(np.mean(guess != y))


def calibration_error(model, X: np.ndarray, y: np.ndarray, n_bins: int = 10) -> float:
    """Mean difference of the largest probability and the share of right classes, in bins of equal width."""
    probabilities = model.predict_proba(X)
    largest, right = probabilities.max(axis=1), model.classes_[probabilities.argmax(axis=1)] == y
    bins = np.minimum((largest * n_bins).astype(int), n_bins - 1)
    return sum(abs(float((right[bins == b] - largest[bins == b]).sum())) for b in range(n_bins)) / len(y)


def covered(model, X: np.ndarray, y: np.ndarray, coverage: float) -> float:
    """Share of the targets within intervals."""
    lower, upper = model.predict_interval(X, coverage)
    return float(np.mean((lower <= y) & (y <= upper)))


def measured(name: str, method: str, seed: int) -> dict[str, object]:
    X, y, X_new, y_new = split(name, seed)
    start = time.process_time()
    guess, model = METHODS[method](X, y, X_new, name in CLASSES, seed)
    seconds, more = time.process_time() - start, {}
    if model is not None and name in CLASSES:
        more = {"calibration": calibration_error(model, X_new, y_new)}
    elif model is not None:
        more = {"within 80%": covered(model, X_new, y_new, 0.8), "within 95%": covered(model, X_new, y_new, 0.95)}
    return {
        **more,
        "data": name,
        "method": method,
        "split": seed,
        "rows": len(X),
        "error": error_of(name, y_new, guess),
        "seconds": seconds,
    }


def summary(records: list[dict]) -> dict[str, dict]:
    """For each data set its rows, and for each method the means over the splits that were run."""
    means: dict[str, dict] = {}
    for name in QUICK_FIRST:
        own = [record for record in records if record["data"] == name]
        if not own:
            continue
        means[name] = {"rows": own[0]["rows"], "methods": {}}
        for method in METHODS:
            runs = [record for record in own if record["method"] == method]
            if runs:
                kinds = [kind for kind in FIGURES if all(kind in run for run in runs)]
                figures = {kind: float(np.mean([run[kind] for run in runs])) for kind in kinds}
                means[name]["methods"][method] = {**figures, "splits": len(runs)}
    return means


def markdown(means: dict[str, dict]) -> str:
    """Mean errors and processor seconds, a line for each data set; the least error is bold.

    The last columns are our error over the least of the peers, our seconds over those of Nystroem's search, and what
    else was measured of ours.
    """
    lines = [
        "| data | rows | splits | "
        + " | ".join(f"{m}: error | s" for m in METHODS)
        + " | error / best | s / Nystroem | calibration | within 80% | within 95% |",
        "| --- " * (8 + 2 * len(METHODS)) + "|",
    ]
    for name, line in means.items():
        runs, cells = line["methods"], []
        least = min(run["error"] for run in runs.values())
        for method in METHODS:
            run = runs.get(method)
            bold = "**" if run and run["error"] == least else ""
            cells.append(f"{bold}{run['error']:.4g}{bold} | {run['seconds']:.0f}" if run else "- | -")
        best = min((run["error"] for method, run in runs.items() if method != "ours"), default=np.nan)
        mine, other = runs.get("ours", {}), runs.get("nystroem", {})
        cells.append(f"{mine.get('error', np.nan) / best:.3f}")
        cells.append(f"{mine.get('seconds', np.nan) / other.get('seconds', np.nan):.2f}")
        cells += [f"{mine[kind]:.3f}" if kind in mine else "-" for kind in FIGURES[2:]]
        splits = "/".join(str(run["splits"]) for run in runs.values())
        lines.append(f"| {name} | {line['rows']} | {splits} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_tables(records: list[dict], out: pathlib.Path) -> str:
    means = summary(records)
    (out / "learning.json").write_text(json.dumps(means, indent=1) + "\n")
    table = markdown(means)
    (out / "learning.md").write_text(table)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=QUICK_FIRST, default=QUICK_FIRST)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "learning.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["data"], record["method"], record["split"]) for record in records}
    wanted = [name for name in QUICK_FIRST if name in arguments.data]
    for seed, name, method in itertools.product(range(arguments.splits), wanted, arguments.methods):
        # Pendigits has one split: only ours draws at random there.
        if (name, method, seed) in done or (name == "pendigits" and seed > 0 and method != "ours"):
            continue
        records.append(measured(name, method, seed))
        with path.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        print(json.dumps(records[-1]), flush=True)
        write_tables(records, arguments.out)
    print(write_tables(records, arguments.out))


if __name__ == "__main__":
    main()
