"""Public calls, each of which says what is wrong with its result: None where it is that of a dense reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.baselines import approximate
from tools.fuzz.case import used
from tools.fuzz.reference import Reference, gaussian, one, relative_distance

#: Largest error of a prediction, relative to the targets, of a system whose condition is at most that of `_ridge`.
PREDICTED = 1e-5
#: Baselines that take any kernel.
BASELINES = ("svd", "nystrom", "nystrom-kmeans", "nystrom-leverage", "rpcholesky", "clra", "bbf")


@dataclass(frozen=True)
class Given:
    """What a call may take, and what the entries of the kernel must be."""

    X: Any = field(repr=False)
    kernel: Any = field(repr=False)
    reference: Reference = field(repr=False)
    n_clusters: int
    rank: int
    seed: int
    scale: float
    folder: Path = field(repr=False)

    @property
    def estimator(self) -> dict[str, Any]:
        """Parameters of an estimator."""
        return {"kernel": self.kernel, "random_state": self.seed % 1000}

    @property
    def rounding(self) -> float:
        """Largest relative error that rounding of the entries may leave in what is made of them."""
        return max(1e-6, 10 * len(self.X) * self.reference.rounding(self.X) / self.reference.at_zero)

    def factored(self) -> bb.BlockBasis:
        clusters = min(self.n_clusters, len(self.X))
        return bb.factorize(self.X, self.kernel, n_clusters=clusters, rank=self.rank, rng=self.seed)


def _only_kernels(given: Given) -> None:
    """Refuse names of kernels, which estimators alone take."""
    if not isinstance(given.kernel, bb.kernels.Kernel):
        raise TypeError


def _ridge(given: Given) -> float:
    """A ridge with which systems of few points are well-conditioned."""
    return 0.1 * given.reference.at_zero


def _entries_of(given: Given) -> Reference:
    """The reference for an estimator: kernels that have names take the number of columns."""
    return one(gaussian, np.sqrt(np.shape(given.X)[1])) if isinstance(given.kernel, str) else given.reference


# --- operators -------------------------------------------------------------------------------------------------------


def _entries(given: Given) -> str | None:
    _only_kernels(given)
    K = given.kernel(given.X)
    worst = np.abs(K - given.reference(given.X)).max(initial=0.0)
    if not worst <= given.reference.rounding(given.X):
        return f"entries off by {worst}"
    return None if np.array_equal(K, K.T) else "not symmetric"


def _exact_products(given: Given) -> str | None:
    K = bb.ExactKernel(given.X, given.kernel)
    v = given.scale * np.linspace(-1, 2, len(given.X))
    expected = given.reference(given.X) @ (v / given.scale)
    worst = np.abs(np.asarray(K @ v, dtype=float) / given.scale - expected).max()
    return None if worst <= given.rounding * np.abs(expected).max() else f"product off by {worst}"


def _products(given: Given) -> str | None:
    A = given.factored()
    dense, v = A.todense().astype(float), np.linspace(-1, 2, A.shape[0])
    if not np.abs(A @ v - dense @ v).max() <= given.rounding * np.abs(dense).max():
        return "product and entries differ"
    return _reported(dense, given.reference(given.X), bb.relative_error(A, given.X, given.kernel).value, given)


def _reported(dense: Any, K: Any, estimate: float, given: Given) -> str | None:
    error = relative_distance(dense, K)
    return None if abs(error - estimate) <= given.rounding + 0.01 * error else f"error {error}, reported {estimate}"


def _tolerance(given: Given) -> str | None:
    A = bb.factorize(given.X, given.kernel, tol=1e-2, rng=given.seed)
    error = relative_distance(A.todense(), given.reference(given.X))
    return None if error <= 1.05e-2 else f"error {error} above 1e-2"


def _planned(given: Given) -> str | None:
    plan = bb.plan(given.X, given.kernel, tol=1e-2, rng=given.seed)
    A = bb.factorize(given.X, given.kernel, plan=plan, rng=given.seed)
    error = relative_distance(A.todense(), given.reference(given.X))
    return None if error <= 1.05e-2 else f"error {error} above 1e-2"


def _budget(given: Given) -> str | None:
    memory = 50 * len(given.X)
    A = bb.factorize(given.X, given.kernel, memory=memory, rng=given.seed)
    if A.stored > memory:
        return f"{A.stored} floats of {memory}"
    return _reported(A.todense(), given.reference(given.X), bb.relative_error(A, given.X, given.kernel).value, given)


def _cross(given: Given) -> str | None:
    X, Y = given.X, given.X[: (len(given.X) + 1) // 2]
    clusters = (min(given.n_clusters, len(Y)), min(given.n_clusters, len(X)))
    B = bb.factorize_cross(Y, X, given.kernel, n_clusters=clusters, rank=given.rank, rng=given.seed)
    estimate = bb.relative_error(B, X, given.kernel, Y=Y).value
    return _reported(B.todense(), given.reference(Y, X), estimate, given)


def _extended(given: Given) -> str | None:
    """A semi-definite kernel has no entry beyond the roots of the diagonal; the extension is held to 1.5 of them."""
    B = given.factored().extend(given.X).todense()
    most = 1.5 * given.reference.at_zero * (1 + given.rounding)
    return None if np.abs(B).max(initial=0.0) <= most else f"entries of {np.abs(B).max()}, at most {most}"


def _saving(given: Given) -> str | None:
    A, path = given.factored(), given.folder / "input.bbf"
    bb.save(A, path)
    return None if used(bb.load(path)) == used(A) else "another operator was loaded"


def _baseline(given: Given) -> str | None:
    name = BASELINES[given.seed % len(BASELINES)]
    A = approximate(given.X, given.kernel, name, memory=40 * len(given.X), rng=given.seed)
    dense = A @ np.eye(A.shape[0])
    said = _reported(dense, given.reference(given.X), bb.relative_error(A, given.X, given.kernel).value, given)
    return said if said is None else f"{name}: {said}"


# --- solvers and spectra ---------------------------------------------------------------------------------------------


def _systems(given: Given) -> str | None:
    A, scale = given.factored(), given.scale
    b = scale * np.linspace(1, 2, A.shape[0])
    for method in ("direct", "cg", "minres"):
        found = bb.solve(A, b, 0.1, method=method)
        left = A.todense().astype(float) @ (found.x / scale) + 0.1 * found.x / scale - b / scale
        if found.converged and not np.linalg.norm(left) <= 1e-6 * np.linalg.norm(b / scale):
            return f"{method} claims convergence"
    return None


def _exact_systems(given: Given) -> str | None:
    A, scale = given.factored(), given.scale
    ridge, b = _ridge(given), np.linspace(1, 2, A.shape[0])
    found = bb.exact_solve(given.X, given.kernel, scale * b, ridge, preconditioner=A)
    expected = np.linalg.solve(given.reference(given.X) / ridge + np.eye(len(b)), b)
    worst = np.abs(found.x / scale * ridge - expected).max()
    wrong = found.converged and not worst <= max(1e-4, 10 * given.rounding) * np.abs(expected).max()
    return f"claims convergence, off by {worst}" if wrong else None


def _ridge_systems(given: Given) -> str | None:
    A = given.factored()
    ridge, b = _ridge(given), np.linspace(1, 2, A.shape[0])
    system = bb.RidgeSystem(A, ridge)
    shifted = A.todense().astype(float) / ridge + np.eye(len(b))
    inverse = np.linalg.inv(shifted)
    pairs = {
        "solve": (system.solve(b) * ridge, inverse @ b),
        "inverse_diagonal": (system.inverse_diagonal() * ridge, np.diag(inverse)),
        "quadratic": (system.quadratic(b) * ridge, b @ inverse @ b),
        "logdet": (system.logdet() - len(b) * np.log(ridge), np.linalg.slogdet(shifted)[1]),
    }
    size = max(1.0, abs(len(b) * np.log(ridge)))
    for name, (found, expected) in pairs.items():
        if not np.abs(np.subtract(found, expected)).max() <= given.rounding * max(np.abs(expected).max(), size):
            return f"{name}: {found}, not {expected}"
    return None


def _eigenvalues(given: Given) -> str | None:
    A = given.factored()
    count = min(3, A.shape[0], int(A.ranks.sum()))
    values = bb.eigh(A, count).values
    exact = np.linalg.eigvalsh(A.todense().astype(float))[::-1][:count]
    return None if np.abs(values - exact).max() <= 1e-6 * abs(exact[0]) else f"{values}, not {exact}"


def _spectra(given: Given) -> str | None:
    A = given.factored()
    unit = given.reference.at_zero
    values = np.abs(np.linalg.eigvalsh(A.todense().astype(float) / unit))
    norm = bb.spectral_norm(A, rng=given.seed)
    if norm.converged and not abs(norm.value / unit - values.max()) <= 2e-3 * values.max():
        return f"norm {norm.value / unit}, not {values.max()}"
    rank, expected = bb.stable_rank(A, rng=given.seed), float((values**2).sum() / values.max() ** 2)
    if rank.converged and not abs(rank.value - expected) <= 1e-2 * expected:
        return f"stable rank {rank.value}, not {expected}"
    scores = bb.leverage_scores(A, ridge=0.1 * unit)
    shifted = np.linalg.inv(A.todense().astype(float) / unit + 0.1 * np.eye(len(values)))
    worst = np.abs(scores - (1 - 0.1 * np.diag(shifted))).max()
    return None if worst <= given.rounding else f"leverage scores off by {worst}"


# --- estimators ------------------------------------------------------------------------------------------------------


def _ridge_regression(given: Given) -> str | None:
    """Of few points, which are kept exactly: the textbook's."""
    y = np.linspace(0, 1, len(given.X))
    ridge = _ridge(given)
    model = bb.KernelRidge(ridge, **given.estimator).fit(given.X, given.scale * y)
    reference = _entries_of(given)
    K = reference(given.X, given.X) / ridge
    noise = reference.noise / ridge
    expected = K @ np.linalg.solve(K + (1 + noise) * np.eye(len(y)), y)
    worst = np.abs(model.predict(given.X) / given.scale - expected).max()
    return None if worst <= max(PREDICTED, 10 * given.rounding) else f"predictions off by {worst}"


def _process(given: Given) -> str | None:
    """With hyperparameters that are given: mean and deviation of the textbook."""
    y = np.linspace(0, 1, len(given.X))
    ridge, scale = _ridge(given), given.scale**0.5  # whose square is a number
    settings = {"bandwidth": None, "signal_variance": scale**2, "alpha": ridge * scale**2, "mean": None}
    model = bb.GaussianProcessRegressor(**given.estimator, **settings).fit(given.X, scale * y)
    reference = _entries_of(given)
    K = reference(given.X, given.X) / ridge
    noise = 1 + reference.noise / ridge
    inverse = np.linalg.inv(K + noise * np.eye(len(y)))
    mean, deviation = model.predict(given.X, return_std=True, include_noise=False)
    variance = ridge * np.maximum(np.diag(K) - np.einsum("ij,jk,ik->i", K, inverse, K), 0)
    bound = max(PREDICTED, 10 * given.rounding)
    if not np.abs(mean / scale - K @ inverse @ y).max() <= bound:
        return f"means off by {np.abs(mean / scale - K @ inverse @ y).max()}"
    worst = np.abs((deviation / scale) ** 2 - variance).max() / reference.at_zero
    return None if worst <= bound else f"variances off by {worst}"


def _finite_fit(make: Callable[..., Any]) -> Callable[[Given], str | None]:
    """A fit whose hyperparameters are searched for: its predictions are finite, whatever is found."""

    def call(given: Given) -> str | None:
        model = make(**given.estimator).fit(given.X, given.scale * np.linspace(0, 1, len(given.X)))
        return None if np.isfinite(model.predict(given.X)).all() else "predictions that are not finite"

    return call


def _labelled(make: Callable[..., Any]) -> Callable[[Given], str | None]:
    def call(given: Given) -> str | None:
        labels = np.arange(len(given.X)) % 3
        model = make(**given.estimator).fit(given.X, labels)
        decisions, found = model.decision_function(given.X), model.predict(given.X)
        if not np.isfinite(decisions).all():
            return "decisions that are not finite"
        best = decisions.argmax(axis=1) if decisions.ndim == 2 else (decisions > 0).astype(int)
        return None if np.array_equal(found, model.classes_[best]) else "labels that are not those of the decisions"

    return call


def _features(given: Given) -> str | None:
    F = np.asarray(bb.BlockBasisFeatures(**given.estimator).fit_transform(given.X), dtype=float)
    error = relative_distance(F @ F.T, _entries_of(given)(given.X, given.X))
    return None if error <= max(1e-4, given.rounding) else f"features whose products are off by {error}"


def _components(given: Given) -> str | None:
    values = bb.KernelPCA(n_components=2, **given.estimator).fit(given.X).eigenvalues_
    K = _entries_of(given)(given.X, given.X)
    centred = K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()
    exact = np.linalg.eigvalsh(centred)[::-1][: len(values)]
    worst = np.abs(values - exact).max(initial=0.0)
    return None if worst <= given.rounding * np.abs(K).max() * len(K) else f"eigenvalues {values}, not {exact}"


def _clustered(given: Given) -> str | None:
    labels = bb.SpectralClustering(2, **given.estimator).fit_predict(given.X)
    _, place = np.unique(_entries_of(given)(given.X, given.X), axis=0, return_inverse=True)
    if not np.isin(labels, (0, 1)).all():
        return "labels that are none"
    if place.max() == 0:  # points that the kernel does not tell apart have no two clusters
        return None
    same = all(len(set(labels[place.ravel() == each])) == 1 for each in range(int(place.max()) + 1))
    return None if same else "equal points with different labels"


CALLS: dict[str, Callable[[Given], str | None]] = {
    "entries": _entries,
    "exact products": _exact_products,
    "products": _products,
    "tolerance": _tolerance,
    "plan": _planned,
    "budget": _budget,
    "cross": _cross,
    "extension": _extended,
    "saving": _saving,
    "baselines": _baseline,
    "systems": _systems,
    "exact systems": _exact_systems,
    "ridge systems": _ridge_systems,
    "eigenvalues": _eigenvalues,
    "spectra": _spectra,
    "KernelRidge": _ridge_regression,
    "KernelRidgeCV": _finite_fit(bb.KernelRidgeCV),
    "KernelRidgeClassifier": _labelled(bb.KernelRidgeClassifier),
    "KernelRidgeClassifierCV": _labelled(bb.KernelRidgeClassifierCV),
    "GaussianProcessRegressor": _process,
    "GaussianProcessRegressor, auto": _finite_fit(bb.GaussianProcessRegressor),
    "KernelPCA": _components,
    "BlockBasisFeatures": _features,
    "SpectralClustering": _clustered,
}
