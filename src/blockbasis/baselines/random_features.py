"""Random Fourier features: a kernel as the mean of random waves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, Seed
from blockbasis.baselines.protocol import LowRank, check_problem, low_rank
from blockbasis.kernels import Cauchy, Gaussian, InverseMultiquadric, Kernel, Laplacian, Matern, RationalQuadratic

Mixture = Callable[[Any, int, np.random.Generator], FloatArray]


def _student(degrees: float, count: int, rng: np.random.Generator) -> FloatArray:
    """What makes normal frequencies of twice this variance multivariate t: the spectral density of a Matern kernel."""
    return degrees / (2 * rng.chisquare(degrees, count))


#: Every radial kernel here is a mean of Gaussians, k(x, y) = E exp(-s |x - y|^2 / h^2): how s is drawn for each.
_MIXTURES: dict[type[Kernel], Mixture] = {
    Gaussian: lambda kernel, count, rng: np.ones(count),
    Laplacian: lambda kernel, count, rng: _student(1, count, rng),
    Matern: lambda kernel, count, rng: _student(2 * kernel.nu, count, rng),
    Cauchy: lambda kernel, count, rng: rng.exponential(size=count),
    InverseMultiquadric: lambda kernel, count, rng: rng.gamma(0.5, size=count),
    RationalQuadratic: lambda kernel, count, rng: rng.gamma(kernel.alpha, size=count) / kernel.alpha,
}


def random_features(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Random Fourier features ("random kitchen sinks"), a cosine and a sine for each random frequency.

    Frequencies follow the kernel's spectral density: normal for the Gaussian, multivariate Cauchy for the Laplacian,
    multivariate t of 2 nu degrees for the Matern kernel; for the Cauchy kernel normal with an exponential variance, for
    the inverse multiquadric and the rational quadratic with a gamma one.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel
        A radial kernel of the package; a function has no spectral density to draw from.
    memory : int or str, default=None
        Floats, or a size such as "512MB"; the rank is what ``memory // n`` allows.
    rank : int, default=None
        Instead of ``memory``: at least 2. Of an odd rank one less is used.
    rng : int, Generator or None

    Returns
    -------
    LowRank

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS (2007).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import random_features
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = random_features(X, bb.Cauchy(2.0), rank=200, rng=0)
    >>> bb.relative_error(A, X, bb.Cauchy(2.0)).value < 0.2
    True
    """
    caller = "random_features"
    problem = check_problem(X, kernel, memory, rank, rng, caller=caller)
    if problem.rank == 1:
        raise ValueError(f"The 'rank' parameter of {caller} must be at least 2, a cosine and a sine. Got 1 instead.")
    points = problem.matrix.rows
    frequencies = draw_frequencies(problem.matrix.kernel, points.shape[1], problem.columns // 2, problem.rng)
    with single_threaded():
        phases = (points - points.mean(axis=0)) @ frequencies.T
        factor = np.concatenate((np.cos(phases), np.sin(phases)), axis=1)
    factor /= np.sqrt(len(frequencies))
    return low_rank("random-features", factor, problem)


def draw_frequencies(kernel: Kernel, dimension: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Frequencies w with E cos(w (x - y)) = k(x, y), one in each row."""
    if type(kernel) not in _MIXTURES:
        known = ", ".join(cls.__name__ for cls in _MIXTURES)
        raise ValueError(
            f"The 'kernel' parameter of random_features must be one whose spectral density is known: {known}. "
            f"Got {kernel!r} instead."
        )
    mixed = _MIXTURES[type(kernel)](kernel, count, rng)
    normal = rng.standard_normal((count, dimension))
    return np.asarray(np.sqrt(2 * mixed)[:, np.newaxis] * normal / kernel.bandwidth)  # type: ignore[attr-defined]
