"""Points and kernels of all kinds, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import blockbasis as bb
from tools.fuzz.reference import Reference, cauchy, gaussian, laplacian, matern, one


def random_points(rng: np.random.Generator) -> tuple[str, Any]:
    """Name and values of points; some are no points at all."""
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    kinds: dict[str, Callable[[], Any]] = {
        "normal": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "whole": lambda: np.round(3 * X).astype(int),
        "equal": lambda: np.repeat(X[:1], n, axis=0),
        "repeated": lambda: X[rng.integers(n, size=n)],
        "constant column": lambda: np.column_stack((X, np.ones(n))),
        "far": lambda: X + 10.0 ** rng.uniform(0, 12),
        "scaled": lambda: X * 10.0 ** rng.uniform(-170, 140),
        "outlier": lambda: np.concatenate((X, np.full((1, d), 10.0 ** rng.uniform(2, 14)))),
        "heavy": lambda: rng.standard_cauchy(size=(n, d)),
        "NaN": lambda: np.where(rng.random((n, d)) < 0.1, np.nan, X),
        "infinite": lambda: np.where(rng.random((n, d)) < 0.1, np.inf, X),
        "empty": lambda: X[:0],
        "without columns": lambda: X[:, :0],
        "one-dimensional": lambda: X[:, 0],
        "three-dimensional": lambda: X[None],
        "list": lambda: X.tolist(),
        "columns first": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "words": lambda: X.astype(str),
        "complex": lambda: X + 1j,
        "objects": lambda: X.astype(object),
        "truth": lambda: X > 0,
        "nothing": lambda: None,
        "read-only": lambda: _read_only(X.copy()),
    }
    name = str(rng.choice(list(kinds)))
    return name, kinds[name]()


def _read_only(X: Any) -> Any:
    X.setflags(write=False)
    return X


def random_kernel(rng: np.random.Generator) -> tuple[str, Any, Reference]:
    """Name and object of a kernel, and what its entries must be; some are no kernels at all."""
    h = float(10.0 ** rng.uniform(-3, 3))
    factor, extreme = (float(10.0 ** rng.uniform(-300, 300)) for _ in range(2))
    kinds: list[tuple[Any, Reference]] = [
        (bb.Gaussian(h), one(gaussian, h)),
        (bb.Laplacian(h), one(laplacian, h)),
        (bb.Matern(h, nu=2.5), one(matern, h)),
        (bb.Cauchy(h), one(cauchy, h)),
        (
            2.0 * bb.Gaussian(h) + bb.Laplacian(1.0),
            Reference(((gaussian, h), (laplacian, 1.0)), lambda f, g: 2 * f + g),
        ),
        (
            bb.Gaussian(h) * bb.Cauchy(1.0) + bb.White(0.1),
            Reference(((gaussian, h), (cauchy, 1.0)), lambda f, g: f * g, noise=0.1),
        ),
        (factor * bb.Gaussian(h), one(gaussian, h, factor)),
        (bb.Gaussian(extreme), one(gaussian, extreme)),
        (bb.Gaussian([h, 1.0]), one(gaussian, np.array([h, 1.0]))),
        ("gaussian", one(gaussian, 1.0)),
        (3, one(gaussian, 1.0)),
    ]
    kernel, reference = kinds[int(rng.integers(len(kinds)))]
    return repr(kernel), kernel, reference
