"""Public calls with points, kernels and numbers of all kinds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import blockbasis as bb
from blockbasis.exceptions import AccuracyWarning, PerformanceWarning
from tools.fuzz.arguments import random_kernel, random_points
from tools.fuzz.case import Case, used

#: How a call may refuse; everything else is an error of the package.
REFUSALS = (ValueError, TypeError, MemoryError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Numbers:
    """Numbers that a call may take: clusters, ranks, a seed, and the scale of right-hand sides and targets."""

    n_clusters: int
    rank: int
    seed: int
    scale: float


def inputs(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Public calls with points, kernels and numbers of all kinds."""
    names = list(CALLS)
    while True:
        points, X = random_points(rng)
        kernel_name, kernel = random_kernel(rng)
        numbers = _numbers(rng)
        name = names[int(rng.integers(len(names)))]
        found = calling(lambda: CALLS[name](X, kernel, numbers, folder))  # noqa: B023 (called at once)
        yield name, found if found is None else f"{points} points, {kernel_name}, {numbers}: {found}"


def calling(call: Callable[[], Any]) -> str | None:
    """What is wrong with a call: an error that is no refusal, a stray warning, or a result that is not right."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            wrong = call()
        except REFUSALS:
            wrong = None
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
    stray = [each for each in caught if issubclass(each.category, RuntimeWarning)]
    if stray:
        return f"stray warning: {stray[0].message}"
    told = any(issubclass(each.category, (AccuracyWarning, PerformanceWarning, ConvergenceWarning)) for each in caught)
    return None if told or not wrong else str(wrong)


def _numbers(rng: np.random.Generator) -> Numbers:
    return Numbers(
        n_clusters=int(rng.integers(1, 6)),
        rank=int(rng.integers(1, 50)),
        seed=int(rng.integers(2**31)),
        scale=float(10.0 ** rng.uniform(-200, 200)),
    )


# --- calls, each of which says what is wrong with its result ---------------------------------------------------------


def _factored(X: Any, kernel: Any, numbers: Numbers) -> bb.BlockBasis:
    clusters = min(numbers.n_clusters, len(X))
    return bb.factorize(X, kernel, n_clusters=clusters, rank=numbers.rank, rng=numbers.seed)


def _entries(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    if not isinstance(kernel, bb.kernels.Kernel):
        raise TypeError
    K = kernel(X)
    if not np.isfinite(K).all():
        return "entries that are not finite"
    return None if np.array_equal(K, K.T) else "not symmetric"


def _products(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    A = _factored(X, kernel, numbers)
    error, estimate = _distance(A.todense(), kernel(X)), bb.relative_error(A, X, kernel).value
    return None if abs(error - estimate) <= 1e-6 + 0.01 * error else f"error {error}, reported {estimate}"


def _tolerance(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    error = _distance(bb.factorize(X, kernel, tol=1e-2, rng=numbers.seed).todense(), kernel(X))
    return None if error <= 1.05e-2 else f"error {error} above 1e-2"


def _systems(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    A, scale = _factored(X, kernel, numbers), numbers.scale
    b = scale * np.linspace(1, 2, A.shape[0])
    for method in ("direct", "cg", "minres"):
        found = bb.solve(A, b, 0.1, method=method)
        left = A.todense().astype(float) @ (found.x / scale) + 0.1 * found.x / scale - b / scale
        if found.converged and not np.linalg.norm(left) <= 1e-6 * np.linalg.norm(b / scale):
            return f"{method} claims convergence"
    return None


def _eigenvalues(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    A = _factored(X, kernel, numbers)
    count = min(3, A.shape[0], int(A.ranks.sum()))
    values = bb.eigh(A, count).values
    exact = np.linalg.eigvalsh(A.todense().astype(float))[::-1][:count]
    return None if np.abs(values - exact).max() <= 1e-6 * abs(exact[0]) else f"{values}, not {exact}"


def _cross(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    Y = X[: (len(X) + 1) // 2]
    clusters = (min(numbers.n_clusters, len(Y)), min(numbers.n_clusters, len(X)))
    B = bb.factorize_cross(Y, X, kernel, n_clusters=clusters, rank=numbers.rank, rng=numbers.seed)
    error, estimate = _distance(B.todense(), kernel(Y, X)), bb.relative_error(B, X, kernel, Y=Y).value
    return None if abs(error - estimate) <= 1e-6 + 0.01 * error else f"error {error}, reported {estimate}"


def _saving(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    A = _factored(X, kernel, numbers)
    bb.save(A, folder / "input.bbf")
    return None if used(bb.load(folder / "input.bbf")) == used(A) else "another operator was loaded"


def _fitted(make: Callable[..., Any]) -> Callable[[Any, Any, Numbers, Path], str | None]:
    def call(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
        model = make(kernel=kernel, random_state=numbers.seed % 1000)
        model.fit(X, numbers.scale * np.linspace(0, 1, len(X)))
        values = model.predict(X) if hasattr(model, "predict") else model.transform(X)
        return None if np.isfinite(np.asarray(values)).all() else "predictions that are not finite"

    return call


def _labelled(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    labels = np.arange(len(X)) % 3
    model = bb.KernelRidgeClassifier(kernel=kernel, random_state=numbers.seed % 1000).fit(X, labels)
    if not np.isin(model.predict(X), labels).all():
        return "labels that are not in the data"
    return None if np.isfinite(model.decision_function(X)).all() else "decisions that are not finite"


def _clustered(X: Any, kernel: Any, numbers: Numbers, folder: Path) -> str | None:
    model = bb.SpectralClustering(2, kernel=kernel, random_state=numbers.seed % 1000)
    return None if np.isin(model.fit_predict(X), (0, 1)).all() else "labels that are none"


def _distance(A: Any, K: Any) -> float:
    A, K = np.asarray(A, dtype=float), np.asarray(K, dtype=float)
    scale = np.abs(K).max(initial=0.0) or 1.0
    return float(np.linalg.norm((A - K) / scale) / np.linalg.norm(K / scale))


CALLS: dict[str, Callable[[Any, Any, Numbers, Path], str | None]] = {
    "entries": _entries,
    "products": _products,
    "tolerance": _tolerance,
    "systems": _systems,
    "eigenvalues": _eigenvalues,
    "cross": _cross,
    "saving": _saving,
    "KernelRidge": _fitted(bb.KernelRidge),
    "KernelRidgeCV": _fitted(bb.KernelRidgeCV),
    "KernelRidgeClassifier": _labelled,
    "GaussianProcessRegressor": _fitted(bb.GaussianProcessRegressor),
    "KernelPCA": _fitted(bb.KernelPCA),
    "BlockBasisFeatures": _fitted(bb.BlockBasisFeatures),
    "SpectralClustering": _clustered,
}
