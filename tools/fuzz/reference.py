"""Kernel matrices by their formulas: slow, obvious, and without anything of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: Largest error of an entry, relative to f(0), that the package promises for points of either precision.
PROMISED = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


@dataclass(frozen=True)
class Reference:
    """Entries of a kernel with one factor, a sum of profiles of distances, and white noise.

    Parameters
    ----------
    parts : tuple of pairs
        Profiles f(r), and the lengths by which columns are divided before r is taken.
    combine : callable
        From the values of the parts to those of the kernel.
    noise : float, default=0.0
        White noise, on the diagonal alone.
    """

    parts: tuple[tuple[Callable[[Array], Array], Any], ...]
    combine: Callable[..., Any]
    noise: float = 0.0

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Entries between all points of X and of Y; between those of X where Y is None."""
        X = np.asarray(X, dtype=np.float64)
        others = X if Y is None else np.asarray(Y, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            differences = X[:, np.newaxis] - others
            values = [profile(np.hypot.reduce(differences / lengths, axis=2)) for profile, lengths in self.parts]
        K = np.asarray(self.combine(*values), dtype=np.float64)
        return K if Y is not None else K + self.noise * np.eye(len(X))

    @property
    def at_zero(self) -> float:
        """The largest value, without noise."""
        return float(self.combine(*(profile(np.zeros(1)) for profile, _ in self.parts))[0])

    def rounding(self, X: Any) -> float:
        """Largest error that an entry may have: that promised, and what dividing columns by their lengths rounds."""
        X = np.asarray(X)
        dtype = X.dtype if X.dtype in PROMISED else np.dtype(np.float64)
        mapped = max((np.abs(X / lengths).max(initial=0.0) for _, lengths in self.parts if np.ndim(lengths)), default=0)
        return self.at_zero * (PROMISED[dtype] + 4 * float(np.finfo(dtype).eps) * float(mapped))


def gaussian(r: Array) -> Array:
    """exp(-r²)."""
    return np.exp(-(r**2))


def laplacian(r: Array) -> Array:
    """exp(-r)."""
    return np.exp(-r)


def matern(r: Array) -> Array:
    """Of order 5 / 2."""
    s = np.minimum(np.sqrt(5.0) * r, 1e3)  # beyond it is 0, and a square may overflow
    return (1 + s + s**2 / 3) * np.exp(-s)


def cauchy(r: Array) -> Array:
    """1 / (1 + r²)."""
    return 1 / (1 + r**2)


def one(profile: Callable[[Array], Array], lengths: Any, factor: float = 1.0) -> Reference:
    """A kernel of one part."""
    return Reference(((profile, lengths),), lambda values: factor * values)


def relative_distance(A: Any, K: Any) -> float:
    """Relative Frobenius distance, in units in which no square overflows or vanishes."""
    A, K = np.asarray(A, dtype=float), np.asarray(K, dtype=float)
    scale = np.abs(K).max(initial=0.0) or 1.0
    return float(np.linalg.norm((A - K) / scale) / np.linalg.norm(K / scale))
