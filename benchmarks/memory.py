"""Predicted and measured peaks of memory, each call in a process of its own.

    python benchmarks/memory.py [CASE ...] [--threads 1]

The prediction is the number of bytes with which the guard compares free memory, and what the call had allocated before
it; the measurement is the largest growth of resident memory during the call. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
from measure import THREAD_VARIABLES, forget_peak, peak_megabytes

import blockbasis as bb
from blockbasis._utils import machine

#: Number of points, columns, and a call. X are normal points, y a target.
CASES = {
    "tol, 5,000": (5_000, 4, "bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=0)"),
    "tol, 20,000": (20_000, 5, "bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0)"),
    "tol, 20,000, isolated": (20_000, 3, "bb.factorize(X, bb.Gaussian(0.3), tol=5e-2, rng=0)"),
    "tol, 50,000, fine": (50_000, 3, "bb.factorize(X, bb.Gaussian(2.0), tol=1e-4, rng=0)"),
    "tol, 200,000": (200_000, 5, "bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0)"),
    "memory, 20,000": (20_000, 8, "bb.factorize(X, bb.Gaussian(2.0), memory=2_000_000, rng=0)"),
    "memory, 200,000": (200_000, 5, "bb.factorize(X, bb.Gaussian(2.0), memory='100MB', rng=0)"),
    "ranks, 5,000": (5_000, 5, "bb.factorize(X, bb.Gaussian(2.0), n_clusters=10, rank=50, rng=0)"),
    "ranks, 20,000": (20_000, 5, "bb.factorize(X, bb.Gaussian(2.0), n_clusters=20, rank=100, rng=0)"),
    "ranks, 200,000": (200_000, 5, "bb.factorize(X, bb.Gaussian(2.0), n_clusters=30, rank=40, rng=0)"),
    "paper, 20,000": (
        20_000,
        5,
        "bb.factorize(X, bb.Gaussian(2.0), n_clusters=20, rank=40, algorithm='paper', rng=0)",
    ),
    "cross, 10,000": (10_000, 5, "bb.factorize_cross(X[:5000], X, bb.Gaussian(2.0), n_clusters=10, rank=40, rng=0)"),
    "cross, 100,000": (
        100_000,
        5,
        "bb.factorize_cross(X[:50_000], X, bb.Gaussian(2.0), n_clusters=20, rank=30, rng=0)",
    ),
    "KernelRidge, 5,000": (5_000, 5, "bb.KernelRidge(random_state=0).fit(X, y)"),
    "KernelRidge, 50,000": (50_000, 5, "bb.KernelRidge(random_state=0).fit(X, y)"),
    "KernelRidge exact, 5,000": (5_000, 5, "bb.KernelRidge(memory='1GB', random_state=0).fit(X, y)"),
    "KernelRidgeCV exact, 5,000": (
        5_000,
        5,
        "bb.KernelRidgeCV(kernel='gaussian', metric=None, random_state=0).fit(X, y)",
    ),
    "KernelRidgeCV exact, 11,000": (
        11_000,
        5,
        "bb.KernelRidgeCV(kernel='gaussian', metric=None, random_state=0).fit(X, y)",
    ),
    "GaussianProcessRegressor, 1,500": (1_500, 3, "bb.GaussianProcessRegressor(random_state=0).fit(X, y)"),
    "GaussianProcessRegressor, 10,000": (10_000, 3, "bb.GaussianProcessRegressor(random_state=0).fit(X, y)"),
    "KernelPCA, 20,000": (20_000, 5, "bb.KernelPCA(n_components=5, random_state=0).fit(X)"),
    "SpectralClustering, 20,000": (20_000, 5, "bb.SpectralClustering(4, random_state=0).fit(X)"),
    "ExactKernel.todense, 10,000": (10_000, 5, "bb.ExactKernel(X, bb.Gaussian(2.0)).todense()"),
}
SMALL = "bb.factorize(X[:300], bb.Gaussian(2.0), tol=0.1, rng=0)"


def peaks(name: str) -> tuple[float, float]:
    """Predicted and measured megabytes of a case, in this process."""
    n, d, call = CASES[name]
    X = np.random.default_rng(0).normal(size=(n, d))
    y = np.sin(X).sum(axis=1)
    names = {"bb": bb, "X": X, "y": y}
    predicted = [0.0]

    def note(needed: int, *others: object, **named: object) -> None:
        _give_back()
        predicted.append(_resident() - before + needed / 1e6)

    eval(SMALL, names)  # what is loaded once is not the call's own
    _give_back()
    forget_peak()
    before = peak_megabytes()
    with mock.patch.object(machine, "require_memory", note):
        eval(call, names)
    return max(predicted), peak_megabytes() - before


def _give_back() -> None:
    """Return pages that are free to the system: what is resident is then what is used."""
    ctypes.CDLL(None).malloc_trim(0)


def _resident() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        warnings.simplefilter("ignore")
        print(json.dumps(peaks(options.cases[0])))
        return
    print("| case | predicted MB | measured MB | ratio |\n| --- | --- | --- | --- |")
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(options.threads))
    for name in options.cases or CASES:
        command = [sys.executable, __file__, "--here", name]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        predicted, measured = json.loads(shown)
        print(f"| {name} | {predicted:.0f} | {measured:.0f} | {predicted / measured:.2f} |", flush=True)


if __name__ == "__main__":
    main()
