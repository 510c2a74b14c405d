"""Dispatch from the name of a method to its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from blockbasis._utils.validation import check_choice
from blockbasis.baselines.bbf import bbf, bbf_paper
from blockbasis.baselines.clra import clra
from blockbasis.baselines.ifgt import ifgt
from blockbasis.baselines.meka import meka
from blockbasis.baselines.nystrom import nystrom
from blockbasis.baselines.nystrom_kmeans import nystrom_kmeans
from blockbasis.baselines.nystrom_leverage import nystrom_leverage
from blockbasis.baselines.random_features import random_features
from blockbasis.baselines.rpcholesky import rpcholesky
from blockbasis.baselines.svd import svd

if TYPE_CHECKING:
    from blockbasis._utils.typing import Seed
    from blockbasis.baselines.protocol import Approximation

METHODS: dict[str, Callable[..., Approximation]] = {
    "svd": svd,
    "nystrom": nystrom,
    "nystrom-kmeans": nystrom_kmeans,
    "nystrom-leverage": nystrom_leverage,
    "rpcholesky": rpcholesky,
    "random-features": random_features,
    "meka": meka,
    "clra": clra,
    "ifgt": ifgt,
    "bbf": bbf,
    "bbf-paper": bbf_paper,
}


def approximate(
    X: Any,
    kernel: Any,
    method: str,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    rng: Seed = None,
    **options: Any,
) -> Approximation:
    """Approximate the kernel matrix K(X, X) by the block basis factorization or by a competing method.

    Every method except "ifgt" takes exactly one of ``memory`` and ``rank``; "ifgt" takes a tolerance.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points with finite real coordinates. Computations are in float64; the result has the dtype of the points.
    kernel : Kernel or callable
        A kernel such as ``Gaussian(1.0)``, or a symmetric function k(X, Y) -> array. The function must be positive
        semi-definite for every method except "bbf-paper". "random-features" requires a radial kernel of the package,
        "ifgt" a Gaussian.
    method : str
        Best approximation of a given rank: "svd". Low rank from columns: "nystrom", "nystrom-kmeans",
        "nystrom-leverage", "rpcholesky". Low rank from the spectral density: "random-features". One basis per cluster:
        "meka", "clra", "bbf" (block basis factorization, default algorithm), "bbf-paper" (the paper's algorithm).
        Taylor series: "ifgt". The function of the same name in `blockbasis.baselines` has the reference.
    memory : int or str, default=None
        Largest value of ``stored``, in floats, or a size such as "512MB".
    rank : int, default=None
        Number r of columns of F for methods of the form F Fᵀ, which store n r floats. For methods with clusters, the
        rank of each cluster ("meka": the mean rank).
    rng : int, Generator or None
        Seed or source of random numbers.
    **options
        Options of the method: ``n_clusters`` of "meka", "clra", "bbf" and "bbf-paper", ``eta`` of "meka", ``tol`` of
        "ifgt".

    Returns
    -------
    Approximation
        A `scipy.sparse.linalg.LinearOperator` in the order of the rows of ``X``, with the attributes ``name`` and
        ``stored`` (number of floats that a product reads) and the method ``todense()``.

    See Also
    --------
    blockbasis.relative_error : Relative Frobenius error of the result.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import approximate
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> for method in ("nystrom", "svd", "bbf"):
    ...     A = approximate(X, bb.Gaussian(1.0), method, memory=20 * 500, rng=0)
    ...     print(A.name, A.stored <= 20 * 500, bb.relative_error(A, X, bb.Gaussian(1.0)).value < 0.3)
    nystrom True False
    svd True True
    bbf True True
    """
    caller = "approximate"
    function = METHODS[check_choice(method, tuple(METHODS), name="method", caller=caller)]
    budget = {name: value for name, value in (("memory", memory), ("rank", rank)) if value is not None}
    accepted = [name for name in inspect.signature(function).parameters if name not in ("X", "kernel")]
    for name in (*budget, *options):
        if name not in accepted:
            listed = ", ".join(repr(other) for other in accepted)
            raise TypeError(f"{caller} with method {method!r} takes {listed}. Got {name!r} instead.")
    return function(X, kernel, rng=rng, **budget, **options)
