"""Gaussian processes, kernel PCA and spectral clustering beside scikit-learn's.

BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py equality                  the same parameters given to both
python benchmarks/gaussian_process.py lengths [--points 1000]                       a function of 3 of 20 columns
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py tables [--points 2000]    elevators and bike, published splits
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py small [--points 1500]     the time beside scikit-learn's
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py heaton                    simulated temperatures
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py coverage [--points 10000] intervals on five data sets
python benchmarks/gaussian_process.py many [--points 100000]                        ours alone
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py processes                 these six, one after the other
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py components                kernel PCA
python benchmarks/gaussian_process.py clusters [--points 50000]                     spectral clustering
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import blockbasis as bb
from blockbasis import datasets

N_TEST = 1000


@dataclass(frozen=True)
class Split:
    """A random part to train on and another to test on; targets standardised by the first."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, name: str, n: int, seed: int = 0) -> Split:
        data = datasets.load(name)
        order = np.random.default_rng(seed).permutation(len(data.X))
        train, test = order[:n], order[n : n + N_TEST]
        y = data.y.astype(float)
        y = (y - y[train].mean()) / y[train].std()
        return cls(data.X[train], y[train], data.X[test], y[test])


def timed(job):
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def length_scale(h: float) -> float:
    return bb.Gaussian(h).length_scale


# --- the same parameters ---------------------------------------------------------------------------------------------

SETTINGS: dict[str, dict] = {
    "n_clusters=1, rank=1500": {"n_clusters": 1, "rank": 1500},
    "tol=1e-8": {"tol": 1e-8},
    "n_clusters=1, rank=700": {"n_clusters": 1, "rank": 700},
    "n_clusters=3, rank=300": {"n_clusters": 3, "rank": 300},
    "default": {},
}


def run_equality(n: int) -> None:
    split = Split.of("abalone", n)
    print("| bandwidth, noise | settings | log marginal likelihood | relative error | mean, largest error ", end="")
    print("| std, largest error | processor seconds, ours | scikit-learn's |\n|" + " --- |" * 8)
    for h, signal, noise in ((5.5, 8.0, 0.4), (2.0, 1.0, 0.4), (1.0, 1.0, 0.1)):
        peer = GaussianProcessRegressor(ConstantKernel(signal) * RBF(length_scale(h)), alpha=noise, optimizer=None)
        theirs, _ = timed(lambda peer=peer: peer.fit(split.X, split.y))
        exact = peer.log_marginal_likelihood_value_
        mean, std = peer.predict(split.X_test, return_std=True)
        for name, settings in SETTINGS.items():
            model = bb.GaussianProcessRegressor(
                bandwidth=h, signal_variance=signal, alpha=noise, mean=None, random_state=0, n_jobs=1, **settings
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", bb.PerformanceWarning)  # tol=1e-8 of so few points is the whole matrix
                ours, _ = timed(lambda model=model: model.fit(split.X, split.y))
            found, deviation = model.predict(split.X_test, return_std=True, include_noise=False)
            error = abs(model.log_marginal_likelihood_value_ / exact - 1)
            errors = f"{np.abs(found - mean).max():.1e} | {np.abs(deviation - std).max():.1e}"
            print(f"| {h:g}, {noise:g} | {name} | {exact:.2f} | {error:.1e} | {errors} | {ours:.1f} | {theirs:.1f} |")


# --- each its own parameters -----------------------------------------------------------------------------------------


def published(name: str, split: int) -> Split:
    """A published split; targets standardised by its training part."""
    with np.load(Path(os.environ["BLOCKBASIS_DATA"]) / f"{name}.npz") as data:
        X, y, test = data["X"].astype(float), data["y"].astype(float).ravel(), data["test"][:, split].astype(bool)
    y = (y - y[~test].mean()) / y[~test].std()
    return Split(X[~test], y[~test], X[test], y[test])


SCORES = "test RMSE | mean absolute error | negative log density | within 80% | within 95%"


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> str:
    errors = np.abs(y - mean)
    density = np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * (errors / std) ** 2)
    inside = " | ".join(f"{np.mean(errors < limit * std):.3f}" for limit in (1.2816, 1.96))
    return f"{np.sqrt(np.mean(errors**2)):.4f} | {errors.mean():.4f} | {density:.3f} | {inside}"


def header(*columns: str) -> None:
    names = " | ".join(columns).split(" | ")
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names), flush=True)


def fitted(split: Split, kernel="matern", **settings) -> tuple[float, bb.GaussianProcessRegressor]:
    model = bb.GaussianProcessRegressor(kernel, random_state=0, n_jobs=1, **settings)
    return timed(lambda: model.fit(split.X, split.y))


def fitted_peer(split: Split) -> tuple[float, GaussianProcessRegressor]:
    """scikit-learn's process with one length for each standardised column."""
    kernel = ConstantKernel() * Matern(np.ones(split.X.shape[1]), nu=1.5) + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # lengths of columns that do not matter
        return timed(lambda: GaussianProcessRegressor(kernel, random_state=0).fit(split.X, split.y))


def standardized(split: Split) -> Split:
    scaler = StandardScaler().fit(split.X)
    return Split(scaler.transform(split.X), split.y, scaler.transform(split.X_test), split.y_test)


def run_lengths(n: int) -> None:
    """A function of 3 of 20 columns."""
    header("seed", "lengths of the 3 columns", "least of the others", "noise (0.1)", "processor seconds")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 20))
        y = np.sin(2 * X[:, 3]) + X[:, 8] * X[:, 15] + 0.1 * rng.normal(size=n)
        seconds, model = fitted(Split(X, y, X, y), "gaussian")
        relevant = model.bandwidth_[[3, 8, 15]]
        least = np.delete(model.bandwidth_, [3, 8, 15]).min()
        shown = ", ".join(f"{length:.2f}" for length in relevant)
        noise = np.sqrt(model.noise_variance_)
        print(f"| {seed} | {shown} | {least:.1f} | {noise:.3f} | {seconds:.1f} |", flush=True)


def run_tables(n: int) -> None:
    """Published splits, with Matern 3/2 kernels, beside scikit-learn on ``n`` of the points."""
    header("data", "split", "model", SCORES, "processor seconds of the fit")
    for name in ("elevators", "bike"):
        for index in range(3):
            split = published(name, index)
            seconds, model = fitted(split)
            found = scores(split.y_test, *model.predict(split.X_test, return_std=True))
            print(f"| {name} | {index} | blockbasis | {found} | {seconds:.0f} |", flush=True)
        some = standardized(published(name, 0))
        chosen = np.random.default_rng(0).permutation(len(some.X))[:n]
        few = Split(some.X[chosen], some.y[chosen], some.X_test, some.y_test)
        for label, (seconds, model) in (("blockbasis", fitted(few)), ("scikit-learn", fitted_peer(few))):
            found = scores(few.y_test, *model.predict(few.X_test, return_std=True))
            print(f"| {name} | 0 | {label}, {n} points | {found} | {seconds:.0f} |", flush=True)


def run_small(n: int) -> None:
    """The time of a fit beside scikit-learn's: one length for each column, no restarts."""
    header("data", "model", "log marginal likelihood", SCORES, "processor seconds")
    split = standardized(Split.of("abalone", n))
    for label, (seconds, model) in (("blockbasis", fitted(split, mean=None)), ("scikit-learn", fitted_peer(split))):
        found = scores(split.y_test, *model.predict(split.X_test, return_std=True))
        print(f"| abalone, {n} | {label} | {model.log_marginal_likelihood_value_:.1f} | {found} | {seconds:.1f} |")


def run_heaton(_: int) -> None:
    """Simulated temperatures: length, variance, mean and noise as published (its deviation is 0.4), and all fitted."""
    with np.load(Path(os.environ["BLOCKBASIS_DATA"]) / "heaton_sim.npz") as data:
        X, y, test = data["X"].astype(float), data["y"].astype(float).ravel() - 44.49105, data["test"][:, 0] > 0
    split = Split(X[~test], y[~test], X[test], y[test])
    given = {"bandwidth": None, "signal_variance": 16.40771, "mean": None}
    header("parameters", SCORES, "processor seconds, fit and mean", "and deviations")
    for label, kernel, settings in (
        ("given, noise variance 0.16", bb.Laplacian(1 / 0.75), {**given, "alpha": 0.4**2}),
        ("given, noise variance 0.4", bb.Laplacian(1 / 0.75), {**given, "alpha": 0.4}),
        ("fitted", "laplacian", {}),
    ):
        seconds, model = fitted(split, kernel, **settings)
        predicting, _ = timed(lambda model=model: model.predict(split.X_test))
        spreading, found = timed(lambda model=model: model.predict(split.X_test, return_std=True))
        shown = scores(split.y_test, *found)
        print(f"| {label} | {shown} | {seconds + predicting:.1f} | {spreading:.1f} |", flush=True)


def run_coverage(n: int) -> None:
    header("data", "n", SCORES, "processor seconds of the fit")
    for name in ("abalone", "cpusmall", "census_house"):
        split = Split.of(name, min(n, len(datasets.load(name).X) - N_TEST))
        seconds, model = fitted(split)
        found = scores(split.y_test, *model.predict(split.X_test, return_std=True))
        print(f"| {name} | {len(split.X)} | {found} | {seconds:.0f} |", flush=True)
    for name in ("pumadyn32nm", "keggdirected"):
        split = published(name, 0)
        seconds, model = fitted(split)
        found = scores(split.y_test, *model.predict(split.X_test, return_std=True))
        print(f"| {name} | {len(split.X)} | {found} | {seconds:.0f} |", flush=True)


def run_many(n: int) -> None:
    header("n", SCORES, "noise (0.2)", "processor seconds of the fit")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n + N_TEST, 4))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + X[:, 2] ** 2 + 0.2 * rng.normal(size=len(X))
    split = Split(X[:n], y[:n], X[n:], y[n:])
    seconds, model = fitted(split)
    found = scores(split.y_test, *model.predict(split.X_test, return_std=True))
    print(f"| {n} | {found} | {np.sqrt(model.noise_variance_):.4f} | {seconds:.0f} |", flush=True)


# --- components and clusters -----------------------------------------------------------------------------------------


def run_components(n: int) -> None:
    split = Split.of("abalone", n)
    print("| settings | eigenvalues, relative | eigenvectors | scores of new points | ours, s | scikit-learn, s |")
    print("|" + " --- |" * 6)
    peer = KernelPCA(8, kernel="rbf", gamma=1 / 16, eigen_solver="dense")
    theirs, _ = timed(lambda: peer.fit(split.X))
    for name, settings in SETTINGS.items():
        if name == "tol=1e-8":
            continue
        model = bb.KernelPCA(8, bandwidth=4.0, random_state=0, n_jobs=1, **settings)
        ours, _ = timed(lambda model=model: model.fit(split.X))
        values = np.abs(model.eigenvalues_ / peer.eigenvalues_ - 1).max()
        vectors = np.abs(model.eigenvectors_ - peer.eigenvectors_).max()
        scores = np.abs(model.transform(split.X_test) - peer.transform(split.X_test)).max()
        print(f"| {name} | {values:.1e} | {vectors:.1e} | {scores:.1e} | {ours:.1f} | {theirs:.1f} |", flush=True)


def run_clusters(n: int) -> None:
    print("| points | n | adjusted Rand index with the truth | with scikit-learn's | ours, s | scikit-learn, s |")
    print("|" + " --- |" * 6)
    for count in (2_000, n):
        for name, (X, truth) in {
            "circles": make_circles(count, factor=0.4, noise=0.04, random_state=0),
            "moons": make_moons(count, noise=0.05, random_state=0),
        }.items():
            model = bb.SpectralClustering(2, bandwidth=0.25, random_state=0, n_jobs=1)
            ours, _ = timed(lambda model=model, X=X: model.fit(X))
            agreement, theirs = "", ""
            if count <= 5_000:
                peer = SpectralClustering(2, gamma=16.0, random_state=0)
                seconds, _ = timed(lambda peer=peer, X=X: peer.fit(X))
                agreement, theirs = f"{adjusted_rand_score(model.labels_, peer.labels_):.4f}", f"{seconds:.1f}"
            found = adjusted_rand_score(model.labels_, truth)
            print(f"| {name} | {count} | {found:.4f} | {agreement} | {ours:.1f} | {theirs} |", flush=True)


def run_processes(_: int) -> None:
    for part in ("lengths", "tables", "small", "heaton", "coverage", "many"):
        run, points = RUNS[part]
        print(f"\n{part}\n")
        run(points)


RUNS = {
    "equality": (run_equality, 1500),
    "lengths": (run_lengths, 1000),
    "tables": (run_tables, 2000),
    "small": (run_small, 1500),
    "heaton": (run_heaton, 0),
    "coverage": (run_coverage, 10_000),
    "many": (run_many, 100_000),
    "processes": (run_processes, 0),
    "components": (run_components, 1500),
    "clusters": (run_clusters, 50_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=RUNS)
    parser.add_argument("--points", type=int)
    arguments = parser.parse_args()
    run, points = RUNS[arguments.part]
    run(arguments.points or points)


if __name__ == "__main__":
    main()
