"""Ours and the methods it is compared with: each takes points and a case, and returns an operator with @ and stored.

An absent package makes its methods absent, never an error.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cases import Case
from sklearn.kernel_approximation import Nystroem, RBFSampler

import blockbasis as bb
from blockbasis.baselines import approximate

#: Columns of a product with many vectors that pykeops is compiled for, and that gpytorch is given.
FEW_COLUMNS = 16
#: Interpolation weights of a point: four for each dimension.
KISS_LARGEST_DIMENSION = 4


class LowRank:
    """F Fᵀ of a feature matrix F."""

    def __init__(self, features: np.ndarray) -> None:
        self.features = features
        self.shape, self.stored = (len(features), len(features)), features.size

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.features @ (self.features.T @ V)


class KeOps:
    """The exact matrix, evaluated by pykeops in every product."""

    stored = 0

    def __init__(self, X: np.ndarray, bandwidth: float) -> None:
        import pykeops
        from pykeops.numpy import LazyTensor

        pykeops.set_verbose(False)
        X = np.ascontiguousarray(X)
        rows, columns = LazyTensor(X[:, np.newaxis, :]), LazyTensor(X[np.newaxis, :, :])
        self._matrix = (-((rows - columns) ** 2).sum(-1) / bandwidth**2).exp()
        self.shape = (len(X), len(X))

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        if V.ndim == 1:
            return self._matrix @ np.ascontiguousarray(V)
        # One width for all: every other would be compiled anew.
        padded = np.pad(V, ((0, 0), (0, -V.shape[1] % FEW_COLUMNS)))
        pieces = np.split(padded, padded.shape[1] // FEW_COLUMNS, axis=1)
        return np.concatenate([self._matrix @ np.ascontiguousarray(p) for p in pieces], axis=1)[:, : V.shape[1]]


class Torch:
    """A linear operator of gpytorch, with NumPy in and out."""

    def __init__(self, operator: Any, stored: int) -> None:
        self._operator, self.stored, self.shape = operator, stored, tuple(operator.shape)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        import torch

        columns = torch.from_numpy(V.reshape(len(V), -1))
        with torch.no_grad():  # few at a time: a grid's transforms of many columns take gigabytes
            pieces = [self._operator @ piece for piece in columns.split(FEW_COLUMNS, dim=1)]
        return torch.cat(pieces, dim=1).numpy().reshape(V.shape)


# --- one function for each method ------------------------------------------------------------------------------------


def ours(X: np.ndarray, case: Case, threads: int, **options: Any) -> Any:
    """Plan, build and check by tolerance, in one call, unless other options are given."""
    return bb.factorize(X, case.kernel, rng=case.seed, n_jobs=threads, **(options or {"tol": case.tol}))


class Tiled:
    """The exact Gaussian kernel matrix, evaluated in tiles of rows by NumPy in every product."""

    stored = 0

    def __init__(self, X: np.ndarray, bandwidth: float, tile: int = 256) -> None:
        self._X, self._squares = X / bandwidth, np.einsum("ij,ij->i", X, X) / bandwidth**2
        self._tile, self.shape = tile, (len(X), len(X))

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        result = np.empty((len(self._X), *V.shape[1:]))
        for start in range(0, len(self._X), self._tile):
            rows = slice(start, start + self._tile)
            entries = self._X[rows] @ (2 * self._X.T)
            entries -= self._squares
            entries -= self._squares[rows, np.newaxis]
            result[rows] = np.exp(entries, out=entries) @ V
        return result


def exact_numpy(X: np.ndarray, case: Case, threads: int) -> Tiled:
    return Tiled(X, case.bandwidth)


def exact(X: np.ndarray, case: Case, threads: int) -> Any:
    return bb.ExactKernel(X, case.kernel, n_jobs=threads)


def nystroem(X: np.ndarray, case: Case, threads: int, components: int) -> LowRank:
    method = Nystroem(
        gamma=case.bandwidth**-2, n_components=min(components, len(X)), random_state=case.seed, n_jobs=threads
    )
    return LowRank(method.fit_transform(X))


def rbf_sampler(X: np.ndarray, case: Case, threads: int, components: int) -> LowRank:
    method = RBFSampler(gamma=case.bandwidth**-2, n_components=components, random_state=case.seed)
    return LowRank(method.fit_transform(X))


def rpcholesky(X: np.ndarray, case: Case, threads: int, components: int) -> Any:
    return approximate(X, case.kernel, "rpcholesky", rank=components, rng=case.seed)


def keops(X: np.ndarray, case: Case, threads: int) -> KeOps:
    return KeOps(X, case.bandwidth)


def sgpr(X: np.ndarray, case: Case, threads: int, components: int) -> Torch:
    """Inducing points drawn from the data, with gpytorch's own diagonal correction."""
    import torch
    from gpytorch.kernels import InducingPointKernel
    from gpytorch.likelihoods import GaussianLikelihood

    torch.set_num_threads(threads)
    picked = np.random.default_rng(case.seed).choice(len(X), min(components, len(X)), replace=False)
    kernel = InducingPointKernel(_rbf(case), torch.from_numpy(X[picked]), GaussianLikelihood())
    return Torch(_evaluated(kernel, X), len(X) * (len(picked) + 1))


def kiss(X: np.ndarray, case: Case, threads: int, components: int) -> Torch:
    """Interpolation from a grid with so many places for each column."""
    import torch
    from gpytorch.kernels import GridInterpolationKernel

    torch.set_num_threads(threads)
    d = X.shape[1]
    # The same bounds for all columns: with bounds of their own gpytorch 1.15 seems to exchange columns, and the error
    # stays at some per cent however fine the grid is.
    margin = 2.01 * (X.max() - X.min()) / (components - 4.02)
    bounds = ((float(X.min() - margin), float(X.max() + margin)),) * d
    kernel = GridInterpolationKernel(_rbf(case), grid_size=components, num_dims=d, grid_bounds=bounds)
    weights = 2 * len(X) * 4**d  # values and their places
    return Torch(_evaluated(kernel, X), weights + d * components)


def _rbf(case: Case) -> Any:
    import torch
    from gpytorch.kernels import RBFKernel

    kernel = RBFKernel().to(torch.float64)  # before the length is set, which float32 would round
    kernel.lengthscale = case.bandwidth / math.sqrt(2)  # gpytorch: exp(-|x - y|² / (2 l²))
    return kernel


def _evaluated(kernel: Any, X: np.ndarray) -> Any:
    import torch

    with torch.no_grad():
        return kernel.to(torch.float64).eval()(torch.from_numpy(np.ascontiguousarray(X))).evaluate_kernel()


# --- all of them -----------------------------------------------------------------------------------------------------

DOUBLINGS = (50, 100, 200, 400, 800, 1600, 3200)


@dataclass(frozen=True)
class Method:
    """A method: how it is called, what it needs, and the budgets it is compared at.

    Parameters
    ----------
    title : str
    build : callable
        Of points, case, threads and one budget.
    packages : tuple of str
        What must be installed.
    small : dict
        Budget of a first call on few points, which is not timed.
    budgets : tuple of dict
    largest_dimension : int or None
        Columns up to which the method applies.
    error_rows : int or None
        Rows from which its error is measured, where the usual number takes too long.
    """

    title: str
    build: Callable[..., Any]
    packages: tuple[str, ...]
    small: dict[str, Any]
    budgets: tuple[dict[str, Any], ...] = field(default=({},))
    largest_dimension: int | None = None
    error_rows: int | None = None

    @property
    def absent(self) -> list[str]:
        return [package for package in self.packages if importlib.util.find_spec(package) is None]

    @property
    def version(self) -> str:
        """Of the packages, or which of them are absent."""
        if self.absent:
            return f"absent ({', '.join(self.absent)} not installed)"
        return ", ".join(f"{package} {_version(package)}" for package in self.packages)


def _version(package: str) -> str:
    if package == "blockbasis":  # may be a source tree on the path, without metadata
        return bb.__version__
    return importlib.metadata.version({"sklearn": "scikit-learn"}.get(package, package))


def _components(*sizes: int) -> tuple[dict[str, Any], ...]:
    return tuple({"components": size} for size in sizes)


METHODS = {
    "ours": Method(
        "blockbasis", ours, ("blockbasis",), {"tol": 0.1}, tuple({"tol": tol} for tol in (1e-1, 1e-2, 1e-3))
    ),
    "exact": Method("exact, ours", exact, ("blockbasis",), {}),
    "exact-numpy": Method("exact, tiled NumPy", exact_numpy, ("numpy",), {}),
    "nystroem": Method("Nystroem", nystroem, ("sklearn",), {"components": 10}, _components(*DOUBLINGS)),
    "rbf-sampler": Method("RBFSampler", rbf_sampler, ("sklearn",), {"components": 10}, _components(*DOUBLINGS)),
    "rpcholesky": Method(
        "randomly pivoted Cholesky", rpcholesky, ("blockbasis",), {"components": 10}, _components(*DOUBLINGS[:-1])
    ),
    "pykeops": Method("pykeops, exact", keops, ("pykeops",), {}, error_rows=FEW_COLUMNS),
    "sgpr": Method(
        "gpytorch inducing points", sgpr, ("torch", "gpytorch"), {"components": 10}, _components(*DOUBLINGS[:-1])
    ),
    "kiss": Method(
        "gpytorch KISS",
        kiss,
        ("torch", "gpytorch"),
        {"components": 8},
        _components(10, 20, 40, 80),
        KISS_LARGEST_DIMENSION,
        error_rows=4 * FEW_COLUMNS,
    ),
}


def present() -> dict[str, str]:
    """Version of each method's packages, or what is absent."""
    return {name: method.version for name, method in METHODS.items()}
