"""Conversion of scikit-learn's kernels and of functions to kernels, and back to scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blockbasis.kernels.base import Kernel, is_users
from blockbasis.kernels.combined import Product, Scaled, Sum, White
from blockbasis.kernels.function import CallableKernel
from blockbasis.kernels.metric import WithMetric
from blockbasis.kernels.radial import RadialKernel, check_profile
from blockbasis.kernels.stationary import Cauchy, Gaussian, InverseMultiquadric, Laplacian, Matern, RationalQuadratic


def as_kernel(kernel: Any, *, caller: str) -> Kernel:
    """Return the argument as a `Kernel`: a kernel of scikit-learn is converted, and a function is wrapped.

    Raises
    ------
    TypeError
        If the argument is neither a kernel nor callable.
    ValueError
        If the profile of a radial kernel of the user is not 1 at distance 0, or does not decrease.
    """
    if isinstance(kernel, Kernel):
        for leaf in kernel.leaves():
            if isinstance(leaf, RadialKernel) and is_users(leaf):
                check_profile(leaf)
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return (_equal(kernel) if is_sklearn(kernel) else None) or CallableKernel(kernel)
    raise TypeError(
        f"The 'kernel' parameter of {caller} must be a kernel such as blockbasis.Gaussian(1.0), or a function "
        f"k(X, Y) -> array. Got {kernel!r} instead."
    )


def is_sklearn(kernel: Any) -> bool:
    """Return whether the object is a kernel of scikit-learn; the check does not import the module of these kernels."""
    return type(kernel).__module__ == "sklearn.gaussian_process.kernels"


# --- from scikit-learn -----------------------------------------------------------------------------------------------


def from_sklearn(kernel: Any) -> Kernel:
    """Return the kernel that is equal to a kernel of scikit-learn.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ``RBF``, ``Matern`` with nu = 0.5, 1.5, 2.5 or infinity, ``RationalQuadratic``, ``WhiteKernel``, their sums and
        products, and products with ``ConstantKernel``.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        Where the package has no equal.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    >>> import blockbasis as bb
    >>> bb.kernels.from_sklearn(ConstantKernel(4.0) * RBF(1.0) + WhiteKernel(0.1))
    4.0 * Gaussian(bandwidth=1.4142135623730951) + White(variance=0.1)
    """
    converted = _equal(kernel) if is_sklearn(kernel) else None
    if converted is None:
        raise ValueError(
            "The 'kernel' parameter of from_sklearn must be an RBF, a Matern kernel with nu = 0.5, 1.5, 2.5 or "
            "infinity, a RationalQuadratic, a WhiteKernel, or a sum or product of these and of constant factors. "
            f"Got {kernel!r} instead."
        )
    return converted


def _equal(kernel: Any) -> Kernel | None:
    """Return the kernel that is equal to a kernel of scikit-learn; None if there is none."""
    from sklearn.gaussian_process import kernels as theirs  # slow to import, and rarely needed

    kind = type(kernel)
    if kind is theirs.RBF:
        return Gaussian.from_length_scale(_lengths(kernel))
    if kind is theirs.Matern:
        if kernel.nu == math.inf:
            return Gaussian.from_length_scale(_lengths(kernel))
        return Matern(_lengths(kernel), kernel.nu) if kernel.nu in (0.5, 1.5, 2.5) else None
    if kind is theirs.RationalQuadratic:
        return RationalQuadratic.from_length_scale(_lengths(kernel), kernel.alpha)
    if kind is theirs.WhiteKernel:
        return White(kernel.noise_level)
    if kind is theirs.Product and type(kernel.k1) is theirs.ConstantKernel:
        return _times(_equal(kernel.k2), kernel.k1.constant_value)
    if kind is theirs.Product and type(kernel.k2) is theirs.ConstantKernel:
        return _times(_equal(kernel.k1), kernel.k2.constant_value)
    if kind in (theirs.Sum, theirs.Product):
        first, second = _equal(kernel.k1), _equal(kernel.k2)
        if first is None or second is None:
            return None
        return first + second if kind is theirs.Sum else first * second
    return None


def _times(kernel: Kernel | None, factor: float) -> Kernel | None:
    return None if kernel is None else factor * kernel


def _lengths(kernel: Any) -> Any:
    """Return the length scales; an array with one entry becomes a number, as in scikit-learn."""
    lengths = np.asarray(kernel.length_scale, dtype=np.float64)
    return lengths.item() if lengths.size == 1 else lengths


# --- to scikit-learn -------------------------------------------------------------------------------------------------


def to_sklearn(kernel: Kernel) -> Any:
    """Return the kernel of scikit-learn that is equal to a kernel of the package, as `Kernel.to_sklearn` does."""
    from sklearn.gaussian_process import kernels as theirs

    lengths: Any = getattr(kernel, "bandwidth", None)
    lengths = np.array(lengths) if isinstance(lengths, tuple) else lengths
    kind = type(kernel)
    if kind is Gaussian:
        return theirs.RBF(lengths / math.sqrt(2))
    if kind in (Laplacian, Matern):
        return theirs.Matern(lengths, nu=kernel.nu if isinstance(kernel, Matern) else 0.5)
    if kind in (RationalQuadratic, Cauchy, InverseMultiquadric) and np.ndim(lengths) == 0:
        # All are (1 + |x - y|^2 / (2 alpha l^2))^-alpha.
        alpha = kernel.alpha if isinstance(kernel, RationalQuadratic) else 1.0 if kind is Cauchy else 0.5
        length = lengths if kind is InverseMultiquadric else lengths / math.sqrt(2)
        return theirs.RationalQuadratic(length_scale=length, alpha=alpha)
    if kind is White and isinstance(kernel, White):
        return theirs.WhiteKernel(kernel.variance)
    if isinstance(kernel, Scaled):
        return theirs.ConstantKernel(kernel.scale) * to_sklearn(kernel.kernel)
    if isinstance(kernel, (Sum, Product)):
        whole, *others = (to_sklearn(part) for part in kernel.parts)
        for other in others:
            whole = whole + other if isinstance(kernel, Sum) else whole * other
        return whole
    reason = "it takes no metric" if isinstance(kernel, WithMetric) else f"there is no such {kind.__name__}"
    raise ValueError(f"scikit-learn has no kernel that equals {kernel!r}: {reason}.")
