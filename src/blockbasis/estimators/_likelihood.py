"""Marginal likelihood of a Gaussian process, its gradient, and its maximum over the hyperparameters.

The likelihood is exact, for samples that are small enough for a dense Cholesky factorization. A random sample of many
points contains no information about lengths below the distances of its points. Patches of neighbouring points are
therefore added, as independent data sets of the same process (a composite likelihood: Varin, Reid, Firth, Statistica
Sinica 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.linalg import lapack

from blockbasis._utils.parallel import single_threaded
from blockbasis.kernels import Kernel, Scaled, Sum, White
from blockbasis.kernels.hyperparameters import are_lengths, log_parameters, sensitivities, with_log_parameters
from blockbasis.partition import nearest_points

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Numbers of points of the random sample and of a patch, and number of patches.
SAMPLE_POINTS = 1_500
_PATCH_POINTS = 150
_PATCHES = 10
#: The first start is the best combination of these multiples of all lengths and these shares of noise, which are
#: compared on _TRIAL_POINTS points.
_MULTIPLES = 4.0 ** np.arange(-3, 4)
_NOISES = (0.5, 0.05, 0.005)
_TRIAL_POINTS = 300
#: Matrices of at most this many points are factorized by one thread. On a busy machine, several threads that wait for
#: each other took 100 times as long for 250 points.
_ONE_THREAD_POINTS = 500
#: Bounds: hyperparameters change at most by this factor, and the noise is at least this share of the variance of the
#: targets.
_FARTHEST = 1e6
_LEAST_NOISE = 1e-8
#: The noise is also at least this many rounding errors of the largest eigenvalue that the signal can have: below it,
#: the posterior mean and the likelihood are rounding errors, and the covariance may not be positive definite.
_ROUNDINGS = 10
#: Standard deviation of the logarithms of the random starts.
_SPREAD = 1.5
#: Stopping criteria of L-BFGS-B, for the likelihood per point.
_OPTIONS = {"ftol": 1e-7, "gtol": 1e-5, "maxiter": 200}
#: Value of minus the likelihood if the covariance cannot be factorized.
_IMPOSSIBLE = 1e25


class Sample(NamedTuple):
    """Points and targets of a likelihood.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points in float64.
    Y : ndarray of shape (n, n_targets)
        Targets minus their mean.
    noise : ndarray of shape (n,)
        Given variances of the noise, which are added to those of the covariance.
    """

    X: FloatArray
    Y: FloatArray
    noise: FloatArray

    def rows(self, chosen: IntArray | slice) -> Sample:
        return Sample(self.X[chosen], self.Y[chosen], self.noise[chosen])


@dataclass(frozen=True)
class Covariance:
    """Prior covariance ``signal_variance * kernel`` plus noise, and which of its hyperparameters are fitted.

    Parameters
    ----------
    kernel : Kernel
    signal_variance : float
    noise : float
        Variance of the noise; 0 if it is given with the data, and fitted otherwise.
    free_kernel, free_signal : bool
        Whether the kernel and the signal variance are fitted.
    least_share : float, default=0.0
        Least noise that is fitted, as a share of the variance of the signal.
    """

    kernel: Kernel
    signal_variance: float
    noise: float
    free_kernel: bool
    free_signal: bool
    least_share: float = 0.0

    @property
    def least_noise(self) -> float:
        """Least noise that is fitted."""
        return self.least_share * self.signal_variance * (self.kernel.at_zero or 1.0)

    @property
    def whole(self) -> Kernel:
        """Covariance as one kernel."""
        scaled = Scaled(self.kernel, self.signal_variance)
        return Sum((scaled, White(self.noise))) if self.noise else scaled

    @property
    def free(self) -> FloatArray:
        """Mask of the parameters of `whole` that are fitted."""
        flags = [self.free_signal, *[self.free_kernel] * len(log_parameters(self.kernel)), *[True] * bool(self.noise)]
        return np.array(flags)

    def with_parameters(self, values: FloatArray) -> Covariance:
        """Covariance with other logarithms of the free parameters."""
        count = len(values) - bool(self.noise)
        made = replace(
            self,
            kernel=with_log_parameters(self.kernel, values[1:count]) if self.free_kernel else self.kernel,
            signal_variance=math.exp(values[0]) if self.free_signal else self.signal_variance,
            noise=math.exp(values[-1]) if self.noise else 0.0,
        )
        return replace(made, noise=max(made.noise, made.least_noise)) if self.noise else made


def log_likelihood(covariance: Kernel, sample: Sample) -> tuple[float, FloatArray]:
    """Log marginal likelihood, summed over the targets, and its gradient with respect to the log-parameters.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the covariance of the targets is not positive definite.
    """
    X, Y, noise = sample
    n, n_targets = Y.shape
    K = covariance(X).astype(np.float64, copy=False)
    K[np.diag_indices(n)] += noise
    factor = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    dual = linalg.cho_solve((factor, True), Y, check_finite=False)
    logdet = 2 * float(np.log(np.diagonal(factor)).sum())
    value = -0.5 * (float(np.vdot(Y, dual)) + n_targets * (logdet + n * math.log(2 * math.pi)))
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)  # only the lower triangle is set
    weights = dual @ dual.T - n_targets * (np.tril(inverse) + np.tril(inverse, -1).T)
    return value, 0.5 * sensitivities(covariance, X, weights)


def most_likely(
    start: Covariance, data: Sample, n_restarts: int, rng: np.random.Generator, *, sample_points: int = SAMPLE_POINTS
) -> Covariance:
    """Maximize the likelihood. The start is meant for targets whose variance is about 1.

    Parameters
    ----------
    start : Covariance
        Multiples of its lengths, and other noises, are tried first.
    data : Sample
        With more than ``sample_points`` points, the maximum for a random sample of them is found first. It is the start
        of a search with the patches added.
    n_restarts : int
        Number of additional searches on the random sample, from random starts.
    rng : Generator
    sample_points : int

    Returns
    -------
    Covariance
    """
    if not start.free.any():
        return start
    start = replace(start, least_share=_ROUNDINGS * len(data.X) * float(np.finfo(np.float64).eps))
    with single_threaded() if len(data.X) <= _ONE_THREAD_POINTS else nullcontext():
        return _searched(start, data, n_restarts, rng, sample_points)


def _searched(
    start: Covariance, data: Sample, n_restarts: int, rng: np.random.Generator, sample_points: int
) -> Covariance:
    n = len(data.X)
    chosen = np.arange(n) if n <= sample_points else np.sort(rng.choice(n, sample_points, replace=False))
    sample = data.rows(chosen)
    first = _best_start(start, sample.rows(rng.permutation(len(chosen))[:_TRIAL_POINTS]))
    origin, free = log_parameters(first.whole), start.free
    places = [origin, *(origin + _SPREAD * free * rng.normal(size=(n_restarts, len(origin))))]
    best, _ = min((_climbed(first.with_parameters(at), [sample]) for at in places), key=lambda found: found[1])
    if n > sample_points:
        best, _ = _climbed(best, [sample, *_patches(best.kernel, data, rng)])
    return best


def _patches(kernel: Kernel, data: Sample, rng: np.random.Generator) -> list[Sample]:
    """Patches: the nearest neighbours of some random points, in the coordinates of the kernel."""
    Z = kernel.coordinates(data.X)
    places = Z[rng.choice(len(Z), _PATCHES, replace=False)]
    return [data.rows(np.sort(rows)) for rows in nearest_points(Z, places, _PATCH_POINTS)]


def _best_start(start: Covariance, sample: Sample) -> Covariance:
    """Best combination of a multiple of all lengths and a noise."""
    theta, lengths = log_parameters(start.whole), start.free & are_lengths(start.whole)
    values = {}
    for multiple in _MULTIPLES if lengths.any() else (1.0,):
        for noise in _NOISES if start.noise else (0.0,):
            at = theta + math.log(multiple) * lengths
            if start.noise:
                at[-1] = math.log(noise)
            values[tuple(at)] = _negative(start.with_parameters(at), [sample])[0]
    return start.with_parameters(np.array(min(values, key=lambda at: values[at])))


def _climbed(start: Covariance, samples: Sequence[Sample]) -> tuple[Covariance, float]:
    """Local maximum from a start by L-BFGS-B, and minus its log-likelihood per point."""
    theta, free = log_parameters(start.whole), start.free
    low, high = theta - math.log(_FARTHEST), theta + math.log(_FARTHEST)
    if start.noise:
        low[-1] = min(math.log(_LEAST_NOISE), theta[-1])

    def at(values: FloatArray) -> Covariance:
        every = theta.copy()
        every[free] = values
        return start.with_parameters(every)

    def negative(values: FloatArray) -> tuple[float, FloatArray]:
        covariance = at(values)
        value, slopes = _negative(covariance, samples)
        if start.noise and covariance.noise == covariance.least_noise:  # the noise then changes with the signal
            slopes[0], slopes[-1] = slopes[0] + slopes[-1], 0.0
        return value, slopes[free]

    bounds = optimize.Bounds(low[free], high[free])
    found = optimize.minimize(negative, theta[free], jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS)
    return at(found.x), float(found.fun)


def _negative(covariance: Covariance, samples: Sequence[Sample]) -> tuple[float, FloatArray]:
    """Minus the log-likelihood of independent samples per point, and its gradient."""
    whole, count = covariance.whole, sum(len(sample.X) for sample in samples)
    try:
        found = [log_likelihood(whole, sample) for sample in samples]
    except np.linalg.LinAlgError:
        return _IMPOSSIBLE, np.zeros(len(covariance.free))
    return -sum(value for value, _ in found) / count, -np.sum([slopes for _, slopes in found], axis=0) / count
