"""Gaussian processes, kernel PCA and spectral clustering beside scikit-learn's.

BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py equality                  the same parameters given to both
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py fitted [--points 1500]    each chooses its own
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py many [--points 18000]     Census house, ours alone
BLOCKBASIS_DATA=... python benchmarks/gaussian_process.py components                kernel PCA
python benchmarks/gaussian_process.py clusters [--points 50000]                     spectral clustering
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import adjusted_rand_score

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
                bandwidth=h, signal_variance=signal, alpha=noise, random_state=0, n_jobs=1, **settings
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", bb.PerformanceWarning)  # tol=1e-8 of so few points is the whole matrix
                ours, _ = timed(lambda model=model: model.fit(split.X, split.y))
            found, deviation = model.predict(split.X_test, return_std=True)
            error = abs(model.log_marginal_likelihood_value_ / exact - 1)
            errors = f"{np.abs(found - mean).max():.1e} | {np.abs(deviation - std).max():.1e}"
            print(f"| {h:g}, {noise:g} | {name} | {exact:.2f} | {error:.1e} | {errors} | {ours:.1f} | {theirs:.1f} |")


# --- each its own parameters -----------------------------------------------------------------------------------------


def run_fitted(n: int) -> None:
    split = Split.of("abalone", n)
    _print_scores_header()
    peer = GaussianProcessRegressor(ConstantKernel() * RBF(1.0) + WhiteKernel(), random_state=0)
    seconds, _ = timed(lambda: peer.fit(split.X, split.y))
    mean, std = peer.predict(split.X_test, return_std=True)
    signal, noise = peer.kernel_.k1.k1.constant_value, peer.kernel_.k2.noise_level
    chosen = f"{np.sqrt(2) * peer.kernel_.k1.k2.length_scale:.2f} | {signal:.2f} | {noise:.3f}"
    # scikit-learn's white kernel adds the noise to the deviations it returns.
    _print_scores("scikit-learn", chosen, peer.log_marginal_likelihood_value_, mean, std, split, seconds)
    exact = {"exact": {"n_clusters": 1, "rank": n}} if n <= 3000 else {}
    for name, settings in {
        **exact,
        "default": {},
        "memory=50 n": {"memory": 50 * n},
        "tol=1e-3": {"tol": 1e-3},
    }.items():
        _print_fit(name, settings, split)


def run_many(n: int) -> None:
    split = Split.of("census_house", n)
    _print_scores_header()
    for floats in (50, 100):
        _print_fit(f"memory={floats} n", {"memory": floats * n}, split)


def _print_fit(name: str, settings: dict, split: Split) -> None:
    model = bb.GaussianProcessRegressor(random_state=0, n_jobs=1, **settings)
    seconds, _ = timed(lambda: model.fit(split.X, split.y))
    mean, std = model.predict(split.X_test, return_std=True)
    chosen = f"{model.bandwidth_:.2f} | {model.signal_variance_:.2f} | {model.noise_variance_:.3f}"
    deviations = np.sqrt(std**2 + model.noise_variance_)
    _print_scores(name, chosen, model.log_marginal_likelihood_value_, mean, deviations, split, seconds)


def _print_scores_header() -> None:
    print("| model | bandwidth | signal variance | noise | log marginal likelihood | test RMSE ", end="")
    print("| test negative log density | processor seconds |\n|" + " --- |" * 8)


def _print_scores(
    name: str, chosen: str, likelihood: float, mean: np.ndarray, std: np.ndarray, split: Split, seconds: float
) -> None:
    errors = mean - split.y_test
    density = np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * (errors / std) ** 2)
    scores = f"{np.sqrt(np.mean(errors**2)):.4f} | {density:.4f}"
    print(f"| {name} | {chosen} | {likelihood:.2f} | {scores} | {seconds:.1f} |", flush=True)


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


RUNS = {
    "equality": (run_equality, 1500),
    "fitted": (run_fitted, 1500),
    "many": (run_many, 18_000),
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
