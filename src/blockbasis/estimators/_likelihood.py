"""The marginal likelihood of a Gaussian process, its gradient, and its maximum over all hyperparameters.

It is the exact one, of samples small enough for a dense Cholesky factorization. A random sample of many points knows
the long scales and nothing below the distance of its points; so it is joined by patches of points next to each other,
each an independent data set of the same process (a composite likelihood: Varin, Reid, Firth, Statistica Sinica 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.linalg import lapack

from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.kernels import Kernel, Scaled, Sum, White
from blockbasis.kernels.hyperparameters import are_lengths, log_parameters, sensitivities, with_log_parameters
from blockbasis.partition import nearest_points

#: Points of the random sample, of a patch, and of all patches.
SAMPLE_POINTS = 1_500
_PATCH_POINTS = 150
_PATCHES = 10
#: The first start is the best of these multiples of all lengths and shares of noise, on so many points.
_MULTIPLES = 4.0 ** np.arange(-3, 4)
_NOISES = (0.5, 0.05, 0.005)
_TRIAL_POINTS = 300
#: Hyperparameters stay within this factor of their start, and the noise above this share of the targets' variance.
_FARTHEST = 1e6
_LEAST_NOISE = 1e-8
#: Standard deviation of the logarithms from which further searches start.
_SPREAD = 1.5
#: A search ends where steps gain less than this, or slopes are less, for each point.
_OPTIONS = {"ftol": 1e-7, "gtol": 1e-5, "maxiter": 200}
#: Stands for minus the likelihood of what cannot be factored.
_IMPOSSIBLE = 1e25


class Sample(NamedTuple):
    """Some of the data.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        In float64.
    Y : ndarray of shape (n, n_targets)
        Around their mean.
    noise : ndarray of shape (n,)
        Variances beside those of the covariance.
    """

    X: FloatArray
    Y: FloatArray
    noise: FloatArray

    def rows(self, chosen: IntArray | slice) -> Sample:
        return Sample(self.X[chosen], self.Y[chosen], self.noise[chosen])


@dataclass(frozen=True)
class Covariance:
    """The prior ``signal_variance * kernel`` and its noise, where that is fitted; and what of it is free.

    Parameters
    ----------
    kernel : Kernel
    signal_variance : float
    noise : float
        0 where the noise is given with the data.
    free_kernel, free_signal : bool
        Whether these are to be fitted. The noise is, unless it is 0.
    """

    kernel: Kernel
    signal_variance: float
    noise: float
    free_kernel: bool
    free_signal: bool

    @property
    def whole(self) -> Kernel:
        """The covariance as one kernel."""
        scaled = Scaled(self.kernel, self.signal_variance)
        return Sum((scaled, White(self.noise))) if self.noise else scaled

    @property
    def free(self) -> FloatArray:
        """Which of the parameters of the whole are to be fitted."""
        flags = [self.free_signal, *[self.free_kernel] * len(log_parameters(self.kernel)), *[True] * bool(self.noise)]
        return np.array(flags)

    def with_parameters(self, values: FloatArray) -> Covariance:
        """The same with other logarithms of its parameters; what is not free stays as it is."""
        count = len(values) - bool(self.noise)
        return replace(
            self,
            kernel=with_log_parameters(self.kernel, values[1:count]) if self.free_kernel else self.kernel,
            signal_variance=math.exp(values[0]) if self.free_signal else self.signal_variance,
            noise=math.exp(values[-1]) if self.noise else 0.0,
        )


def log_likelihood(covariance: Kernel, sample: Sample) -> tuple[float, FloatArray]:
    """Logarithm of the marginal likelihood, summed over the targets, and its gradient by the log-parameters.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where the covariance of the targets is not positive definite.
    """
    X, Y, noise = sample
    n, n_targets = Y.shape
    K = covariance(X).astype(np.float64, copy=False)
    K[np.diag_indices(n)] += noise
    factor = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    dual = linalg.cho_solve((factor, True), Y, check_finite=False)
    logdet = 2 * float(np.log(np.diagonal(factor)).sum())
    value = -0.5 * (float(np.vdot(Y, dual)) + n_targets * (logdet + n * math.log(2 * math.pi)))
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)  # of which the lower triangle counts
    weights = dual @ dual.T - n_targets * (np.tril(inverse) + np.tril(inverse, -1).T)
    return value, 0.5 * sensitivities(covariance, X, weights)


def most_likely(start: Covariance, data: Sample, n_restarts: int, rng: np.random.Generator) -> Covariance:
    """The covariance of largest likelihood, from a start for targets of variance about 1.

    Parameters
    ----------
    start : Covariance
        Multiples of its lengths, and other noises, are tried first.
    data : Sample
        Of more than 1,500 points, a random sample of so many tells all hyperparameters; then patches join it.
    n_restarts : int
        Further searches on the random sample, from random places.
    rng : Generator

    Returns
    -------
    Covariance
    """
    if not start.free.any():
        return start
    n = len(data.X)
    chosen = np.arange(n) if n <= SAMPLE_POINTS else np.sort(rng.choice(n, SAMPLE_POINTS, replace=False))
    sample = data.rows(chosen)
    first = _best_start(start, sample.rows(rng.permutation(len(chosen))[:_TRIAL_POINTS]))
    origin, free = log_parameters(first.whole), start.free
    places = [origin, *(origin + _SPREAD * free * rng.normal(size=(n_restarts, len(origin))))]
    best, _ = min((_climbed(first.with_parameters(at), [sample]) for at in places), key=lambda found: found[1])
    if n > SAMPLE_POINTS:
        best, _ = _climbed(best, [sample, *_patches(best.kernel, data, rng)])
    return best


def _patches(kernel: Kernel, data: Sample, rng: np.random.Generator) -> list[Sample]:
    """Points around some of the points, next to each other in the coordinates of the kernel."""
    Z = kernel.coordinates(data.X)
    places = Z[rng.choice(len(Z), _PATCHES, replace=False)]
    return [data.rows(np.sort(rows)) for rows in nearest_points(Z, places, _PATCH_POINTS)]


def _best_start(start: Covariance, sample: Sample) -> Covariance:
    """The best multiple of all lengths, and noise, of a few."""
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
    """The top of the hill that a start is on, and minus its log-likelihood for each point."""
    theta, free = log_parameters(start.whole), start.free
    low, high = theta - math.log(_FARTHEST), theta + math.log(_FARTHEST)
    if start.noise:
        low[-1] = min(math.log(_LEAST_NOISE), theta[-1])

    def at(values: FloatArray) -> Covariance:
        every = theta.copy()
        every[free] = values
        return start.with_parameters(every)

    def negative(values: FloatArray) -> tuple[float, FloatArray]:
        value, slopes = _negative(at(values), samples)
        return value, slopes[free]

    bounds = optimize.Bounds(low[free], high[free])
    found = optimize.minimize(negative, theta[free], jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS)
    return at(found.x), float(found.fun)


def _negative(covariance: Covariance, samples: Sequence[Sample]) -> tuple[float, FloatArray]:
    """Minus the log-likelihood of independent samples for each of their points, and its gradient."""
    whole, count = covariance.whole, sum(len(sample.X) for sample in samples)
    try:
        found = [log_likelihood(whole, sample) for sample in samples]
    except np.linalg.LinAlgError:
        return _IMPOSSIBLE, np.zeros(len(covariance.free))
    return -sum(value for value, _ in found) / count, -np.sum([slopes for _, slopes in found], axis=0) / count
