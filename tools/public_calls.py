"""Every public name of the package called once, with the versions that it ran with.

    python -m tools.public_calls

`make test-oldest` and `make test-newest` begin with it.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.baselines import approximate
from blockbasis.tables import Table, fit_table

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl")
X = np.random.default_rng(0).normal(size=(120, 2))
Y = np.sin(X[:, 0])
TABLE = Table(("a", "b", "y"), (*X.T, Y))
KERNEL = bb.Gaussian(1.0)
A = bb.factorize(X, KERNEL, n_clusters=3, rank=10, rng=0)
SMALL: dict[str, Any] = {"n_clusters": 3, "rank": 10, "random_state": 0}


def _stored(saved: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        bb.save(saved, Path(folder) / "saved.bbf")
        return bb.load(Path(folder) / "saved.bbf")


def _told() -> list[bb.ProgressEvent]:
    events: list[bb.ProgressEvent] = []
    bb.factorize(X, KERNEL, n_clusters=3, rank=10, rng=0, progress=events.append)
    assert isinstance(events[0], bb.ProgressEvent)
    return events


def _warned(category: type[Warning], call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert any(issubclass(each.category, category) for each in caught)
    return 0.0


def _refused() -> float:
    try:
        bb.load(__file__)
    except bb.StorageError:
        return 0.0
    raise AssertionError("a file that is none was loaded")


#: What is called, by the public names that the call stands for. Each gives numbers, which must be finite.
CALLS: dict[str, Callable[[], Any]] = {
    "factorize, BlockBasis, A @ v": lambda: A @ Y,
    "A @ V": lambda: A @ X,
    "A.T @ v": lambda: A.T @ Y,
    "A.todense": lambda: A.todense(),
    "A.diagonal": lambda: A.diagonal(),
    "A.extend, CrossBlockBasis": lambda: A.extend(X[:9] + 0.1) @ Y,
    "factorize(tol=)": lambda: bb.factorize(X, KERNEL, tol=1e-2, rng=0) @ Y,
    "factorize(memory=)": lambda: bb.factorize(X, KERNEL, memory=20_000, rng=0) @ Y,
    "factorize(algorithm='paper')": lambda: bb.factorize(X, KERNEL, n_clusters=3, rank=9, algorithm="paper", rng=0) @ Y,
    "plan, Plan": lambda: bb.factorize(X, KERNEL, plan=bb.plan(X, KERNEL, tol=0.1, rng=0), rng=0) @ Y,
    "factorize_cross": lambda: bb.factorize_cross(X[:50], X, KERNEL, n_clusters=3, rank=9, rng=0) @ Y,
    "ExactKernel": lambda: bb.ExactKernel(X, KERNEL) @ Y,
    "ExactCrossKernel": lambda: bb.ExactCrossKernel(X[:9], X, KERNEL) @ Y,
    "Partition": lambda: bb.factorize(X, KERNEL, partition=A.partition, rank=9, rng=0) @ Y,
    "Gaussian": lambda: bb.Gaussian(1.0)(X),
    "Laplacian": lambda: bb.Laplacian(1.0)(X),
    "Matern": lambda: bb.Matern(1.0, nu=2.5)(X),
    "Cauchy": lambda: bb.Cauchy(1.0)(X),
    "InverseMultiquadric": lambda: bb.InverseMultiquadric(1.0)(X),
    "RationalQuadratic": lambda: bb.RationalQuadratic(1.0)(X),
    "White": lambda: (bb.Gaussian([1.0, 2.0]) * bb.Cauchy(1.0) + bb.White(0.1))(X),
    "with_metric": lambda: KERNEL.with_metric(np.eye(2))(X),
    "relative_error, ErrorEstimate": lambda: bb.relative_error(A, X, KERNEL).value,
    "dot_test": lambda: bb.dot_test(A, rng=0),
    "spectral_error": lambda: bb.spectral_error(A, X, KERNEL, rng=0).value,
    "spectral_approximation, SpectralApproximation": lambda: bb.spectral_approximation(A, X, KERNEL, 0.1, rng=0).upper,
    "spectral_norm, SpectralEstimate": lambda: bb.spectral_norm(A, rng=0).value,
    "stable_rank": lambda: bb.stable_rank(A, rng=0).value,
    "numerical_rank": lambda: bb.numerical_rank(A, 1e-2, rng=0),
    "leverage_scores": lambda: bb.leverage_scores(A, ridge=0.1),
    "solve, Solution, direct": lambda: bb.solve(A, Y, 0.1).x,
    "solve, minres": lambda: bb.solve(A, Y, 0.1, method="minres").x,
    "solve, cg": lambda: bb.solve(A, Y, 0.1, method="cg").x,
    "RidgeSystem": lambda: bb.RidgeSystem(A, 0.1).solve(Y),
    "RidgeSystem.logdet": lambda: bb.RidgeSystem(A, 0.1).logdet(),
    "RidgeSystem.inverse_diagonal": lambda: bb.RidgeSystem(A, 0.1).inverse_diagonal(),
    "eigh, Eigenpairs": lambda: bb.eigh(A, 3).values,
    "exact_solve": lambda: bb.exact_solve(X, KERNEL, Y, 0.1, preconditioner=A).x,
    "save, load": lambda: _stored(A) @ Y,
    "save, load of an estimator": lambda: _stored(bb.KernelRidge(**SMALL).fit(X, Y)).predict(X),
    "StorageError": _refused,
    "ProgressEvent": lambda: len(_told()),
    "AccuracyWarning": lambda: _warned(
        bb.AccuracyWarning, lambda: bb.factorize(X.astype(np.float32), KERNEL, tol=1e-9, rng=0)
    ),
    "PerformanceWarning": lambda: _warned(
        bb.PerformanceWarning,
        lambda: bb.factorize(
            np.random.default_rng(0).normal(size=(700, 9)), bb.Gaussian(1.0), tol=1e-6, diagonal=False, rng=0
        ),
    ),
    "KernelRidge": lambda: bb.KernelRidge(**SMALL).fit(X, Y).predict(X),
    "KernelRidge.predict_interval": lambda: bb.KernelRidge(**SMALL).fit(X, Y).predict_interval(X),
    "KernelRidgeCV": lambda: bb.KernelRidgeCV(random_state=0).fit(X, Y).predict(X),
    "KernelRidgeClassifier": lambda: bb.KernelRidgeClassifier(**SMALL).fit(X, Y > 0).predict_proba(X),
    "TableModel": lambda: _stored(fit_table(TABLE, "y", seed=0)[0]).predict(TABLE)[0],
    "KernelRidgeClassifierCV": lambda: bb.KernelRidgeClassifierCV(random_state=0).fit(X, Y > 0).predict_proba(X),
    "GaussianProcessRegressor": lambda: bb.GaussianProcessRegressor(random_state=0).fit(X, Y).predict(X, True),
    "KernelPCA": lambda: bb.KernelPCA(n_components=2, **SMALL).fit_transform(X),
    "BlockBasisFeatures": lambda: bb.BlockBasisFeatures(**SMALL).fit_transform(X),
    "SpectralClustering": lambda: bb.SpectralClustering(2, random_state=0).fit_predict(X),
    "baselines.approximate": lambda: approximate(X, KERNEL, "nystrom", rank=9, rng=0) @ Y,
}


def outcome(call: Callable[[], Any]) -> str | None:
    """What is wrong with a call."""
    try:
        values = call()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is listed)
        return f"{type(error).__name__}: {error}"
    return None if np.isfinite(np.asarray(values, dtype=float)).all() else "not finite"


def main() -> int:
    """Print versions and the list; the number of calls that failed."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(f"Python {platform.python_version()}, {versions}")
    failed = 0
    for name, call in CALLS.items():
        wrong = outcome(call)
        failed += wrong is not None
        print(f"    {name}: {wrong or 'ok'}", flush=True)
    print(f"{len(CALLS) - failed} of {len(CALLS)} public calls")
    return failed


if __name__ == "__main__":
    sys.exit(main())
