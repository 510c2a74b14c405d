"""Random Fourier features: a kernel as the mean of products of random cosines and sines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, Seed
from blockbasis.baselines.protocol import LowRank, check_problem, low_rank
from blockbasis.kernels import Cauchy, Gaussian, InverseMultiquadric, Kernel, Laplacian, Matern, RationalQuadratic

ScaleSampler = Callable[[Any, int, np.random.Generator], FloatArray]


def _student_scales(degrees: float, count: int, rng: np.random.Generator) -> FloatArray:
    """Sample s such that normal frequencies of variance 2 s are multivariate t: the Matern spectral density."""
    return degrees / (2 * rng.chisquare(degrees, count))


#: Samplers of s. Every kernel here is a scale mixture of Gaussians, k(x, y) = E exp(-s |x - y|^2 / h^2).
_SCALE_SAMPLERS: dict[type[Kernel], ScaleSampler] = {
    Gaussian: lambda kernel, count, rng: np.ones(count),
    Laplacian: lambda kernel, count, rng: _student_scales(1, count, rng),
    Matern: lambda kernel, count, rng: _student_scales(2 * kernel.nu, count, rng),
    Cauchy: lambda kernel, count, rng: rng.exponential(size=count),
    InverseMultiquadric: lambda kernel, count, rng: rng.gamma(0.5, size=count),
    RationalQuadratic: lambda kernel, count, rng: rng.gamma(kernel.alpha, size=count) / kernel.alpha,
}


def random_features(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Random Fourier features ("random kitchen sinks"), a cosine and a sine for each random frequency.

    The frequencies are samples of the kernel's spectral density. It is normal for the Gaussian kernel, multivariate
    Cauchy for the Laplacian, and multivariate t with 2 nu degrees of freedom for the Matern kernel. For the Cauchy
    kernel it is normal with an exponential variance; for the inverse multiquadric and the rational quadratic kernel it
    is normal with a gamma variance.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel
        A radial kernel of the package. The spectral density of a user's function is unknown.
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Number of features, at least 2, given instead of ``memory``. An odd number is reduced by one.
    rng : int, Generator or None
        Samples the frequencies.

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
        raise ValueError(
            f"The 'rank' parameter of {caller} must be at least 2, for a cosine and a sine. Got 1 instead."
        )
    points = problem.matrix.rows
    frequencies = draw_frequencies(problem.matrix.kernel, points.shape[1], problem.budget_rank // 2, problem.rng)
    with single_threaded():
        phases = (points - points.mean(axis=0)) @ frequencies.T
        factor = np.concatenate((np.cos(phases), np.sin(phases)), axis=1)
    factor /= np.sqrt(len(frequencies))
    return low_rank("random-features", factor, problem)


def draw_frequencies(kernel: Kernel, dimension: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return ``count`` frequencies w as rows, sampled so that E cos(w (x - y)) = k(x, y)."""
    if type(kernel) not in _SCALE_SAMPLERS:
        known = ", ".join(cls.__name__ for cls in _SCALE_SAMPLERS)
        raise ValueError(
            f"The 'kernel' parameter of random_features must be a kernel with a known spectral density: {known}. "
            f"Got {kernel!r} instead."
        )
    scales = _SCALE_SAMPLERS[type(kernel)](kernel, count, rng)
    normal = rng.standard_normal((count, dimension))
    return np.asarray(np.sqrt(2 * scales)[:, np.newaxis] * normal / kernel.bandwidth)  # type: ignore[attr-defined]
