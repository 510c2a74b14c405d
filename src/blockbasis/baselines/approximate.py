"""The door to all methods: a name, and one of them answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from blockbasis._utils.typing import Seed
from blockbasis._utils.validation import check_choice
from blockbasis.baselines.bbf import bbf, bbf_paper
from blockbasis.baselines.clra import clra
from blockbasis.baselines.ifgt import ifgt
from blockbasis.baselines.meka import meka
from blockbasis.baselines.nystrom import nystrom
from blockbasis.baselines.nystrom_kmeans import nystrom_kmeans
from blockbasis.baselines.nystrom_leverage import nystrom_leverage
from blockbasis.baselines.protocol import Approximation
from blockbasis.baselines.random_features import random_features
from blockbasis.baselines.rpcholesky import rpcholesky
from blockbasis.baselines.svd import svd

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
    """Approximate the kernel matrix of ``X`` by one of the methods that the block basis factorization competes with.

    Give one of ``memory`` and ``rank``, except to "ifgt", which works to a tolerance.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points: finite real numbers. The work is done in float64, the result has the precision of the points.
    kernel : Kernel or callable
        Such as ``Gaussian(1.0)``, or a function k(X, Y) -> array that is symmetric and, but for "bbf-paper", positive
        semi-definite. "random-features" needs a kernel of the package, "ifgt" a Gaussian.
    method : str
        The best approximation of its rank: "svd". Low rank, from columns: "nystrom", "nystrom-kmeans",
        "nystrom-leverage", "rpcholesky"; from the kernel's spectral density: "random-features". A basis for each
        cluster: "meka", "clra", and the block basis factorization, by default ("bbf") and as the paper has it
        ("bbf-paper"). A series expansion: "ifgt". Each is a function of `blockbasis.baselines` too, with its reference.
    memory : int or str, default=None
        Floats that ``stored`` may have, or a size such as "512MB".
    rank : int, default=None
        Columns of F for methods of the form F Fᵀ, which stores n times as many floats. For those with clusters, the
        rank of each ("meka": the mean).
    rng : int, Generator or None
    **options
        Of the method: ``n_clusters`` of "meka", "clra", "bbf" and "bbf-paper", ``eta`` of "meka", ``tol`` of "ifgt".

    Returns
    -------
    Approximation
        A `scipy.sparse.linalg.LinearOperator` in the order of the points given, with ``name``, ``stored`` (floats that
        a product reads) and ``todense()``.

    See Also
    --------
    blockbasis.relative_error : How far the result is from the truth.

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
    taken = [name for name in inspect.signature(function).parameters if name not in ("X", "kernel")]
    for name in (*budget, *options):
        if name not in taken:
            listed = ", ".join(repr(other) for other in taken)
            raise TypeError(f"{caller} with method {method!r} takes {listed}. Got {name!r} instead.")
    return function(X, kernel, rng=rng, **budget, **options)
