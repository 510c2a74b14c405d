"""Hyperparameters of a kernel on a logarithmic scale, and derivatives of its entries.

The hyperparameters are lengths, scales and variances of white noise, in the order in which `repr` shows the parts. The
following are fixed: the shapes ``nu`` and ``alpha``, metrics, functions of the user, and products with white noise in a
factor, because their noise depends on the scales of all factors.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from blockbasis.kernels.combined import Product, Scaled, Sum, White, Zero
from blockbasis.kernels.distances import squared_distances
from blockbasis.kernels.metric import WithMetric
from blockbasis.kernels.radial import RadialKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.kernels.base import Kernel


def log_parameters(kernel: Kernel) -> FloatArray:
    """Return the logarithms of all hyperparameters."""
    if isinstance(kernel, RadialKernel):
        return np.asarray(np.log(np.atleast_1d(kernel.bandwidth)))
    if isinstance(kernel, White) and not isinstance(kernel, Zero):
        return np.log([kernel.variance])
    if isinstance(kernel, Scaled):
        return np.concatenate(([np.log(kernel.scale)], log_parameters(kernel.kernel)))
    if isinstance(kernel, WithMetric):
        return log_parameters(kernel.kernel)
    return np.concatenate([log_parameters(part) for part in _free_parts(kernel)] or [np.empty(0)])


def are_lengths(kernel: Kernel) -> npt.NDArray[np.bool_]:
    """Return a mask of the entries of `log_parameters` that are lengths."""
    if isinstance(kernel, Scaled):
        return np.concatenate(([False], are_lengths(kernel.kernel)))
    if isinstance(kernel, WithMetric):
        return are_lengths(kernel.kernel)
    parts = _free_parts(kernel)
    if parts:
        return np.concatenate([are_lengths(part) for part in parts])
    return np.full(len(log_parameters(kernel)), isinstance(kernel, RadialKernel))


def with_log_parameters(kernel: Kernel, values: FloatArray) -> Kernel:
    """Return the kernel with the given logarithms of its hyperparameters."""
    if isinstance(kernel, RadialKernel):
        lengths: Any = np.exp(values)
        return replace(kernel, bandwidth=lengths if isinstance(kernel.bandwidth, tuple) else float(lengths[0]))
    if isinstance(kernel, White) and not isinstance(kernel, Zero):
        return replace(kernel, variance=float(np.exp(values[0])))
    if isinstance(kernel, Scaled):
        inner = with_log_parameters(kernel.kernel, values[1:])
        return replace(kernel, kernel=inner, scale=float(np.exp(values[0])))
    if isinstance(kernel, WithMetric):
        return replace(kernel, kernel=with_log_parameters(kernel.kernel, values))
    parts = _free_parts(kernel)
    if not parts:
        return kernel
    assert isinstance(kernel, (Sum, Product))
    ends = np.cumsum([len(log_parameters(part)) for part in parts])[:-1]
    pieces = np.split(values, ends)
    changed = [with_log_parameters(part, piece) for part, piece in zip(parts, pieces, strict=True)]
    return replace(kernel, parts=tuple(changed))


def sensitivities(kernel: Kernel, X: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the derivatives of sum_ij weights_ij K_ij with respect to the `log_parameters`.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
        Points of K, which has the white noise of the kernel in its diagonal.
    weights : ndarray of shape (n, n)
        Symmetric.

    Notes
    -----
    The squared distance changes with the logarithm of length c by -2 (z_ic - z_jc)^2, z the points in units of their
    lengths. With G the weights times the derivative of the profile, the sum over all pairs is that of
    2 (sum_i g_i z_ic^2 - z_cᵀ G z_c), g the row sums: one matrix product for all lengths.
    """
    if isinstance(kernel, RadialKernel):
        Z = (X - X.mean(axis=0)) / np.asarray(kernel.bandwidth)
        unit = replace(kernel, bandwidth=1.0)
        squared = squared_distances(Z, Z, np.zeros(Z.shape[1]), error=unit._distance_error(Z))
        G = weights * unit.derivative(squared)
        slopes = -4 * (G.sum(axis=1) @ Z**2 - np.einsum("ij,ij->j", Z, G @ Z))
        return np.asarray(slopes if isinstance(kernel.bandwidth, tuple) else slopes.sum(keepdims=True))
    if isinstance(kernel, White) and not isinstance(kernel, Zero):
        return np.array([kernel.variance * np.trace(weights)])
    if isinstance(kernel, Scaled):
        whole = kernel.scale * np.vdot(weights, kernel.kernel(X))
        return np.concatenate(([whole], kernel.scale * sensitivities(kernel.kernel, X, weights)))
    if isinstance(kernel, WithMetric):
        return sensitivities(kernel.kernel, kernel.metric(X), weights)
    parts = _free_parts(kernel)
    if isinstance(kernel, Product) and parts:
        blocks = [part(X) for part in parts]
        factors = [reduce(np.multiply, [*blocks[:i], *blocks[i + 1 :]]) * weights for i in range(len(parts))]
    else:
        factors = [weights] * len(parts)
    derivatives = [sensitivities(part, X, each) for part, each in zip(parts, factors, strict=True)]
    return np.concatenate(derivatives or [np.empty(0)])


def _free_parts(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return the parts of a sum, or of a product without noise, whose hyperparameters are those of the kernel."""
    if isinstance(kernel, Sum) or (isinstance(kernel, Product) and not kernel.noise):
        return kernel.parts
    return ()
