"""What the estimators learn, in what time, beside scikit-learn. Parts:

python learning.py equality      KernelRidge(tol=1e-8) and scikit-learn's, leave-one-out and brute force
python learning.py regression    Census house, Cpusmall and Abalone beside exact kernel ridge regression
python learning.py covertype     type 2 or not, beside Nystroem + Ridge; --all: 464,809 rows to train, ours only;
                                 --validate: settings to choose among, on rows that are not tested on
python learning.py classes       a bandwidth for each class beside one for all: EMG, CTG, Gesture
python learning.py metric        the same with a learned metric, beside Nystroem + Ridge; --validate as before
python learning.py continuity    jumps of predictions along segments across clusters
python learning.py features      BlockBasisFeatures and Nystroem of the same stored floats before linear models
python learning.py budget        seconds of a clock that a search with a budget of 30 takes
python learning.py prediction    time of a new point for 10,000 and 200,000 training points

Run with OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 for processor times on one thread, and without these and with
`covertype --all-cores` for seconds of a clock on all cores.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import resource
import time
import warnings

import numpy as np
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as ExactKernelRidge
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline

import blockbasis as bb
from blockbasis import datasets

SPLITS = 5
BANDWIDTHS = {"abalone": [2.0, 4.0, 8.0, 16.0], "cpusmall": [4.0, 8.0, 16.0], "census_house": [1.0, 2.0, 4.0]}
RIDGES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


def split(name: str, seed: int, n_train: int, n_test: int, skip: int = 0) -> tuple[np.ndarray, ...]:
    X, y = elevators() if name == "elevators" else (datasets.load(name).X, datasets.load(name).y)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n_train], order[n_train + skip :][:n_test]
    return X[train], y[train], X[test], y[test]


def elevators() -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns and the target, from the directory that BLOCKBASIS_DATA names."""
    with np.load(pathlib.Path(os.environ["BLOCKBASIS_DATA"]) / "elevators.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float).ravel()
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1), y


def timed(job, clock=time.process_time):
    start = clock()
    result = job()
    return clock() - start, result


# --- equality --------------------------------------------------------------------------------------------------------


def run_equality(_: argparse.Namespace) -> None:
    X, y, X_new, _ = split("abalone", 0, 1500, 1000)
    y = (y - y.mean()) / y.std()
    print("| h | alpha | tol | new points | training points | error of the matrix / alpha |\n|" + " --- |" * 6)
    for h, tol in ((0.5, 1e-8), (1.0, 1e-8), (3.0, 1e-8), (10.0, 1e-8), (10.0, 1e-10), (10.0, 1e-12)):
        for alpha in (1e-3, 1e-1):
            ours = bb.KernelRidge(alpha, bandwidth=h, tol=tol, random_state=0).fit(X, y)
            theirs = ExactKernelRidge(alpha=alpha, kernel="rbf", gamma=1 / h**2).fit(X, y)
            new, old = (np.abs(ours.predict(Z) - theirs.predict(Z)).max() for Z in (X_new, X))
            error = np.linalg.norm(ours.factorization_.todense() - bb.Gaussian(h)(X), 2) / alpha
            print(f"| {h:g} | {alpha:g} | {tol:g} | {new:.1e} | {old:.1e} | {error:.1e} |", flush=True)
    X, y = X[:200], y[:200]
    print("\n| h | alpha | leave-one-out: largest difference from brute force |\n| --- | --- | --- |")
    for h in (0.5, 3.0):
        for alpha in (1e-3, 1e-1):
            model = bb.KernelRidge(alpha, bandwidth=h, n_clusters=5, rank=15, random_state=0).fit(X, y)
            system = bb.RidgeSystem(model.factorization_, alpha)
            ours = system.solve(y) / system.inverse_diagonal()
            difference = np.abs(ours - brute_force(model.factorization_.todense(), y, alpha)).max()
            print(f"| {h:g} | {alpha:g} | {difference:.1e} |")


def brute_force(K: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    residuals = np.empty_like(y)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        a = np.linalg.solve(K[np.ix_(others, others)] + alpha * np.eye(len(y) - 1), y[others])
        residuals[i] = y[i] - K[i, others] @ a
    return residuals


# --- regression ------------------------------------------------------------------------------------------------------


def run_regression(arguments: argparse.Namespace) -> None:
    print("| data | rows | exact RMSE | ours | ratio | worst split | floats per point | exact s | ours s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.data or ("abalone", "cpusmall", "census_house"):
        n = len(datasets.load(name).X)
        n_train = min(int(0.8 * n), arguments.points or 18_000)
        rows = [one_regression(name, seed, n_train, n - int(0.8 * n)) for seed in range(arguments.splits)]
        exact, ours, floats, exact_seconds, seconds = np.array(rows).T
        print(
            f"| {name} | {n_train} | {exact.mean():.4f} | {ours.mean():.4f} | {ours.mean() / exact.mean():.3f} | "
            f"{(ours / exact).max():.3f} | {floats.max():.0f} | {exact_seconds.mean():.1f} | {seconds.mean():.1f} |",
            flush=True,
        )


def one_regression(name: str, seed: int, n_train: int, n_test: int) -> tuple[float, ...]:
    """Ours chooses bandwidth and ridge by leave-one-out; exact: the better, at the new points, of that choice and of
    its own leave-one-out on 2,000 rows."""
    X, y, X_new, y_new = split(name, seed, n_train, n_test)
    mean, scale = y.mean(), y.std()
    y, y_new = (y - mean) / scale, (y_new - mean) / scale
    model = bb.KernelRidge(RIDGES, bandwidth=BANDWIDTHS[name], memory=150 * n_train, random_state=seed)
    seconds, model = timed(lambda: model.fit(X, y))
    choices = {exact_choice(X[:2000], y[:2000], BANDWIDTHS[name]), (model.bandwidth_, model.alpha_)}
    exact_seconds, exact = timed(lambda: [exact_ridge(X, y, X_new, *choice) for choice in choices])
    rmse = [float(np.sqrt(np.mean((values - y_new) ** 2))) for values in (*exact, model.predict(X_new))]
    return min(rmse[:-1]), rmse[-1], model.factorization_.stored / n_train, exact_seconds / len(choices), seconds


def exact_choice(X: np.ndarray, y: np.ndarray, bandwidths: list[float]) -> tuple[float, float]:
    best = np.inf
    for h in bandwidths:
        values, vectors = linalg.eigh(bb.Gaussian(h)(X), overwrite_a=True, check_finite=False, driver="evd")
        for alpha in RIDGES:
            inverse = 1 / (np.maximum(values, 0) + alpha)
            a = vectors @ (inverse * (vectors.T @ y))
            error = np.mean((a / np.einsum("ij,j,ij->i", vectors, inverse, vectors)) ** 2)
            if error < best:
                best, chosen = error, (h, alpha)
    return chosen


def exact_ridge(X: np.ndarray, y: np.ndarray, X_new: np.ndarray, h: float, alpha: float) -> np.ndarray:
    K = bb.Gaussian(h)(X)
    K[np.diag_indices_from(K)] += alpha
    a = linalg.cho_solve(linalg.cho_factor(K, overwrite_a=True, check_finite=False), y)
    return bb.ExactCrossKernel(X_new, X, bb.Gaussian(h)) @ a


# --- covertype -------------------------------------------------------------------------------------------------------

#: Bandwidth, clusters, rank and ridge; two budgets of time.
COVERTYPE = [(2.0, 180, 15, 1e-1), (3.0, 300, 24, 3e-3)]
#: Among these they were chosen, by `covertype --validate`: on rows that are neither trained nor tested on.
CANDIDATES = [
    (3.0, 120, 20, 3e-3),
    (3.0, 180, 15, 3e-3),
    (3.0, 250, 12, 3e-3),
    (2.0, 180, 15, 1e-1),
    (3.0, 180, 24, 3e-3),
    (3.0, 180, 36, 3e-3),
    (3.0, 300, 24, 3e-3),
    (2.0, 300, 24, 1e-1),
]


def run_covertype(arguments: argparse.Namespace) -> None:
    n_train = 464_809 if arguments.all else 100_000
    n_test = 581_012 - n_train if arguments.all else 20_000
    X, y, X_new, y_new = split("covtype", 0, n_train, n_test, skip=n_test if arguments.validate else 0)
    y, y_new = np.where(y == 2, 1.0, -1.0), np.where(y_new == 2, 1.0, -1.0)
    print("| method | error | fit s | predict s | share of the first |\n| --- | --- | --- | --- | --- |")
    first = None
    tried = CANDIDATES if arguments.validate else COVERTYPE
    n_jobs, clock = (None, time.perf_counter) if arguments.all_cores else (1, time.process_time)
    for label, model, dtype in methods(tried, n_jobs, only_ours=arguments.all or arguments.validate):
        Z, Z_new = X.astype(dtype), X_new.astype(dtype)
        fit, _ = timed(lambda: model.fit(Z, y), clock)  # noqa: B023 (called at once)
        predict, values = timed(lambda: model.predict(Z_new), clock)  # noqa: B023
        first = first or fit + predict
        error = np.mean(np.sign(values) != y_new)
        print(f"| {label} | {error:.2%} | {fit:.1f} | {predict:.1f} | {(fit + predict) / first:.3f} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory of the process: {peak:.1f} GiB")


def methods(tried: list[tuple[float, int, int, float]], n_jobs: int | None, *, only_ours: bool):
    if not only_ours:
        nystroem = Nystroem(gamma=1 / 16, n_components=3000, random_state=0)
        yield "Nystroem(3000), h=4, + Ridge(0.01)", make_pipeline(nystroem, Ridge(alpha=1e-2)), np.float64
    for h, k, r, alpha in tried:
        settings = {"n_clusters": k, "rank": r, "keep_points": False, "random_state": 0, "n_jobs": n_jobs}
        model = bb.KernelRidge(alpha, bandwidth=h, **settings)
        yield f"KernelRidge({alpha:g}), h={h:g}, k={k}, r={r}", model, np.float32


#: Clusters and rank with a learned metric, and what they were chosen among, by `metric --validate`.
METRIC = [(300, 16)]
METRIC_CANDIDATES = [(300, 24), (300, 16), (300, 12), (200, 16)]


def run_metric(arguments: argparse.Namespace) -> None:
    """Type 2 or not, with a metric learned, in the coordinates of which the bandwidth is found as well."""
    n_test = 20_000
    skip = n_test if arguments.validate else 0
    X, y, X_new, y_new = split("covtype", 0, arguments.points or 100_000, n_test, skip=skip)
    y, y_new = np.where(y == 2, 1.0, -1.0), np.where(y_new == 2, 1.0, -1.0)
    print("| method | error | fit s | predict s |\n| --- | --- | --- | --- |")
    for label, each, dtype in metric_methods(validating=arguments.validate):
        Z, Z_new = X.astype(dtype), X_new.astype(dtype)
        fit, _ = timed(lambda: each.fit(Z, y))  # noqa: B023 (called at once)
        predict, values = timed(lambda: each.predict(Z_new))  # noqa: B023
        print(f"| {label} | {np.mean(np.sign(values) != y_new):.2%} | {fit:.1f} | {predict:.1f} |", flush=True)


def metric_methods(*, validating: bool):
    for k, r in METRIC_CANDIDATES if validating else METRIC:
        settings = {"n_clusters": k, "rank": r, "keep_points": False, "random_state": 0, "n_jobs": 1}
        model = bb.KernelRidgeCV(kernel="laplacian", metric="diagonal", fit_intercept=False, **settings)
        yield f"KernelRidgeCV, metric, k={k}, r={r}", model, np.float32
    if not validating:
        nystroem = make_pipeline(Nystroem(gamma=1 / 16, n_components=3000, random_state=0), Ridge(alpha=1e-2))
        yield "Nystroem(3000)", nystroem, np.float64


# --- continuity ------------------------------------------------------------------------------------------------------

SEGMENTS, STEPS, HALVINGS = 200, 257, 24


def run_continuity(_: argparse.Namespace) -> None:
    """The largest jump along segments between points of different clusters.

    The steepest of some steps of a segment is halved again and again, and the steeper half taken: what a continuous
    function changes there goes to zero, and a jump stays.
    """
    X, y, _, _ = split("elevators", 0, 12_000, 1_000)
    y = (y - y.mean()) / y.std()
    print("| model | clusters | largest jump / deviation of the target |\n| --- | --- | --- |")
    for rank in (20, 60):
        model = bb.KernelRidge(0.1, bandwidth=6.0, n_clusters=40, rank=rank, random_state=0, n_jobs=1).fit(X, y)
        labels = model.factorization_.partition.labels
        first, last = np.random.default_rng(0).integers(len(X), size=(2, 20 * SEGMENTS))
        across = np.flatnonzero(labels[first] != labels[last])[:SEGMENTS]
        jumps = jumps_along(model.predict, X[first[across]], X[last[across]])
        print(f"| KernelRidge, rank {rank} | {model.factorization_.n_clusters} | {jumps.max():.1e} |", flush=True)


def jumps_along(predict, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The change in the steepest step of each segment, after halvings."""

    def values(places: np.ndarray) -> np.ndarray:
        points = A[:, np.newaxis] + places[..., np.newaxis] * (B - A)[:, np.newaxis]
        return predict(points.reshape(-1, A.shape[1])).reshape(places.shape)

    rows, places = np.arange(len(A)), np.tile(np.linspace(0, 1, STEPS), (len(A), 1))
    steepest = np.abs(np.diff(values(places), axis=1)).argmax(axis=1)
    left, right = places[rows, steepest], places[rows, steepest + 1]
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        at = values(np.stack([left, middle, right], axis=1))
        first = np.abs(at[:, 1] - at[:, 0]) >= np.abs(at[:, 2] - at[:, 1])
        left, right = np.where(first, left, middle), np.where(first, middle, right)
    return np.abs(np.diff(values(np.stack([left, right], axis=1)), axis=1))[:, 0]


# --- features --------------------------------------------------------------------------------------------------------

COMPONENTS = 300
#: Data, rows to learn from and to test on, and bandwidths and penalties to choose among.
FEATURES = (
    ("elevators", 14_000, 2_000, ((3.0, 6.0), (1e-3, 1e-1))),
    ("covtype", 50_000, 20_000, ((2.0, 4.0), (1e-2,))),
)


def run_features(arguments: argparse.Namespace) -> None:
    """Logistic regression on Covertype, and Huber's on elevators with outliers, by features of both kinds.

    Bandwidth and penalty of each are chosen on a part of the rows to learn from.
    """
    print("| data | features | bandwidth, penalty | error | stored floats a point | s |\n|" + " --- |" * 6)
    for name, n_train, n_test, grid in FEATURES:
        X, y, X_new, y_new = split(name, 0, arguments.points or n_train, n_test)
        y, y_new = with_outliers(y, y_new) if name == "elevators" else (y == 2, y_new == 2)
        few = len(X) // 2
        for label in ("ours", "Nystroem"):
            tried = [(pipeline(label, name, *each), each) for each in itertools.product(*grid)]
            errors = [loss(model.fit(X[:few], y[:few]), X[-2000:], y[-2000:]) for model, _ in tried]
            model, chosen = tried[int(np.argmin(errors))]
            seconds, _ = timed(lambda: model.fit(X, y))  # noqa: B023 (called at once)
            Phi = model[0].transform(X_new)
            stored = (Phi.nnz if sparse.issparse(Phi) else Phi.size) / len(X_new)
            cells = (name, label, chosen, f"{loss(model, X_new, y_new):.4f}", f"{stored:.0f}", f"{seconds:.1f}")
            print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def pipeline(label: str, name: str, h: float, penalty: float):
    """Features of one kind and a linear model that is not one of least squares."""
    features = Nystroem(gamma=1 / h**2, n_components=COMPONENTS, random_state=0)
    if label == "ours":
        features = bb.BlockBasisFeatures(COMPONENTS, bandwidth=h, random_state=0, n_jobs=1)
    huber = name == "elevators"
    linear = HuberRegressor(alpha=penalty, max_iter=500) if huber else LogisticRegression(C=1 / penalty, max_iter=300)
    return make_pipeline(features, linear)


def loss(model, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong classes; for targets, the mean absolute error, which outliers among them sway little."""
    guess = model.predict(X)
    return float(np.mean(guess != y) if y.dtype == bool else np.mean(np.abs(guess - y)))


def with_outliers(y: np.ndarray, y_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised targets; 5% of those to learn from are moved by 10 standard deviations."""
    mean, scale, rng = y.mean(), y.std(), np.random.default_rng(0)
    y, y_new = (y - mean) / scale, (y_new - mean) / scale
    y[rng.permutation(len(y))[: len(y) // 20]] += 10.0
    return y, y_new


# --- a budget of time ------------------------------------------------------------------------------------------------


def run_budget(_: argparse.Namespace) -> None:
    """Seconds of a clock of searches with time_budget=30: rows that they learned from, and the R^2."""
    print("| data | rows | learned from | test R^2 | s |\n| --- | --- | --- | --- | --- |")
    for name, n_train in (("elevators", 14_000), ("census_house", 20_000), ("covtype", 200_000)):
        X, y, X_new, y_new = split(name, 0, n_train, 2_000)
        y, y_new = (y == 2, y_new == 2) if name == "covtype" else (y, y_new)
        model = bb.KernelRidgeCV(time_budget=30.0, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bb.PerformanceWarning)  # not all rows have time
            seconds, _ = timed(lambda: model.fit(X, y.astype(float)), time.perf_counter)  # noqa: B023
        rows, score = np.count_nonzero(model.dual_coef_), model.score(X_new, y_new.astype(float))
        print(f"| {name} | {n_train} | {rows} | {score:.3f} | {seconds:.1f} |", flush=True)


# --- a bandwidth for each class --------------------------------------------------------------------------------------


def run_classes(arguments: argparse.Namespace) -> None:
    for name in arguments.data or ("ctg", "gesture", "emg"):
        n = len(datasets.load(name).X)
        n_train = min(int(0.8 * n), arguments.points or 18_000)
        settings = {"memory": 150 * n_train, "keep_points": False}
        scores, chosen = [], []
        for seed in range(arguments.splits):
            X, y, X_new, y_new = split(name, seed, n_train, n - int(0.8 * n))
            one = bb.KernelRidgeClassifier([0.01, 0.1], bandwidth="auto", random_state=seed, **settings)
            each = bb.KernelRidgeClassifier([0.01, 0.1], bandwidth="per-class", random_state=seed, **settings)
            labels = np.unique(y)
            scores.append(
                [
                    f1_score(y_new, model.fit(X, y).predict(X_new), average=None, labels=labels, zero_division=0)
                    for model in (one, each)
                ]
            )
            chosen.append((np.full(len(labels), one.bandwidth_), each.bandwidth_))
        show_classes(name, X, y, np.mean(scores, axis=0), np.mean(chosen, axis=0))


def show_classes(name: str, X: np.ndarray, y: np.ndarray, scores: np.ndarray, chosen: np.ndarray) -> None:
    labels, counts = np.unique(y, return_counts=True)
    radii = [np.sqrt(((X[y == c] - X[y == c].mean(axis=0)) ** 2).sum(axis=1).mean()) for c in labels]
    print(f"\n{name}\n\n| class | points | radius | h of all | its own h | F1, one h | F1, its own |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for i in np.argsort(counts):
        print(
            f"| {labels[i]} | {counts[i]} | {radii[i]:.2f} | {chosen[0][i]:.2g} | {chosen[1][i]:.2g} | "
            f"{scores[0][i]:.3f} | {scores[1][i]:.3f} |"
        )
    print(f"| mean | | | | | {scores[0].mean():.3f} | {scores[1].mean():.3f} |", flush=True)


# --- prediction ------------------------------------------------------------------------------------------------------


def run_prediction(arguments: argparse.Namespace) -> None:
    print("| training points | microseconds for a new point |\n| --- | --- |")
    rng = np.random.default_rng(0)
    X_new = rng.normal(size=(20_000, 8))
    for n in (10_000, 200_000):
        X = rng.normal(size=(n, 8))
        model = bb.KernelRidge(0.1, bandwidth=3.0, n_clusters=50, rank=40, keep_points=False, random_state=0, n_jobs=1)
        model.fit(X, np.sin(X[:, 0]))
        model.predict(X_new)
        seconds = min(timed(lambda: model.predict(X_new))[0] for _ in range(7))  # noqa: B023
        print(f"| {n} | {1e6 * seconds / len(X_new):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {
        "equality": run_equality,
        "regression": run_regression,
        "covertype": run_covertype,
        "metric": run_metric,
        "continuity": run_continuity,
        "features": run_features,
        "budget": run_budget,
        "classes": run_classes,
        "prediction": run_prediction,
    }
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("--data", nargs="*", help="data sets of the part, instead of all")
    parser.add_argument("--points", type=int, help="training points at most")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--all", action="store_true", help="Covertype: 464,809 rows to train")
    parser.add_argument("--all-cores", action="store_true", help="Covertype: threads, and seconds of a clock")
    parser.add_argument("--validate", action="store_true", help="covertype, metric: choose settings, on other rows")
    arguments = parser.parse_args()
    parts[arguments.part](arguments)


if __name__ == "__main__":
    main()
