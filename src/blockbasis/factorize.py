"""The front door: checked arguments into a factorization."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis._parallel import check_n_jobs, single_threaded
from blockbasis._typing import FloatArray, Seed
from blockbasis._validation import (
    check_choice,
    check_dtype,
    check_flag,
    check_fraction,
    check_integer,
    check_memory,
    check_points,
    check_ranks,
    check_rng,
)
from blockbasis.basis import BlockDiagonal
from blockbasis.construction import ALGORITHMS, BASES, INNERS, SAMPLINGS, Method, assemble, make_bases, make_inner
from blockbasis.inner import cross_inner
from blockbasis.kernels import as_kernel
from blockbasis.matrix import Counter, KernelMatrix, check_function
from blockbasis.operator import BlockBasis, CrossBlockBasis, Entries
from blockbasis.partition import Partitioner, make_partition
from blockbasis.selection import search
from blockbasis.tuning import Goal, build_to_goal, default_clusters, make_plan

DEFAULT_TOL = 1e-3


def factorize(
    X: Any,
    kernel: Any,
    *,
    tol: float | None = None,
    memory: int | str | None = None,
    n_clusters: int | None = None,
    rank: Any = None,
    partition: Any = "kmeans",
    algorithm: str = "default",
    sampling: str | None = None,
    basis: str = "svd",
    inner: str = "sampled",
    diagonal: bool | None = None,
    cutoff: float | None = None,
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> BlockBasis:
    """Compress the kernel matrix of ``X`` into U C Uᵀ + D, in time and memory linear in the number of points.

    Give one of ``tol``, ``memory`` and ``rank``; with none, ``tol`` is 1e-3.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points: finite real numbers. float32 points are worked on in float32.
    kernel : Kernel or callable
        Such as ``Gaussian(1.0)``, or a function k(X, Y) -> array that is symmetric and positive definite.
    tol : float, default=None
        Relative Frobenius error |K - A| / |K| to reach. The number of clusters and the ranks are chosen, the result is
        checked against exact rows that were not used to build it, enlarged until they show the tolerance met, and cut
        to the ranks that need least memory. With ``algorithm="paper"`` the paper's rule chooses, from the diagonal
        blocks, and nothing is checked: see `blockbasis.selection.select`.
    memory : int or str, default=None
        Instead of ``tol``, a budget that ``stored`` never exceeds: floats, or a size such as "512MB". The paper has no
        rule for it.
    n_clusters : int, default=None
        Clusters of points; None searches for the best number, or, when ``rank`` is given, takes sqrt(n) / 4.
        Fewer come back when the points have fewer distinct places.
    rank : int or sequence of int, default=None
        Basis vectors of every cluster, or of each. A cluster of no more points than that is kept exactly.
    partition : {"kmeans", "kcenters", "random"}, Partition, or array-like of shape (n,), default="kmeans"
        How the points are clustered, or a label for each point.
    algorithm : {"default", "paper"}, default="default"
        "paper": the paper's Algorithms 1 to 5 with its settings. "default": energy sampling, one set of rows for each
        cluster in the inner matrix, and a diagonal part.
    sampling : {"energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block"}, default=None
        Which columns a basis is taken from; None is the algorithm's own: "energy", or "randomized" (the paper's
        Algorithm 2; "pooled" is its Algorithm 3). "leverage" and "exact" look at all columns: quadratic cost.
        "diagonal-block" takes the cluster's own columns only, as MEKA does.
    basis : {"svd", "skeleton"}, default="svd"
        "svd" is the more accurate. "skeleton" is spanned by few kernel columns: `BlockBasis.extend` is then exact,
        and fewer entries are evaluated.
    inner : {"sampled", "exact"}, default="sampled"
        "exact" evaluates every entry of the matrix.
    diagonal : bool, default=None
        Whether to carry D, the part of the diagonal that U C Uᵀ does not hold; None is the algorithm's own choice.
    cutoff : float, default=None
        Relative error that may be given up for zero blocks in C; None keeps all blocks. A matrix with blocks cut off
        may be indefinite: see `BlockBasis.cutoff`.
    dtype : {numpy.float32, numpy.float64}, default=None
        Precision of the work and of the result; None is that of ``X``.
    rng : int, Generator or None
        Seed. The result depends on it alone, not on ``n_jobs``.
    n_jobs : int, default=None
        Threads; None is one for each core.

    Returns
    -------
    BlockBasis
        A `scipy.sparse.linalg.LinearOperator` in the order of the points given.

    See Also
    --------
    factorize_cross : The matrix between two sets of points.
    relative_error : How far the result is from the truth.

    References
    ----------
    R. Wang, Y. Li, M. W. Mahoney and E. Darve, "Block basis factorization for scalable kernel evaluation",
    SIAM Journal on Matrix Analysis and Applications 40 (2019).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0)
    >>> A.shape
    (2000, 2000)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 1e-2
    True
    >>> A.stored < 0.02 * 2000**2
    True
    >>> (A @ np.ones(2000)).shape
    (2000,)
    """
    caller = "factorize"
    X = check_points(X, name="X", caller=caller)
    X = X.astype(check_dtype(dtype, X.dtype, name="dtype", caller=caller), copy=False)
    kernel = as_kernel(kernel, caller=caller)
    method = _check_method(algorithm, sampling, basis, inner, diagonal, cutoff, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    goal = _check_goal(tol, memory, rank, method, X, caller)
    if n_clusters is not None:
        n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    of_partition, of_bases, of_inner, of_plan, of_check = check_rng(rng, name="rng", caller=caller).spawn(5)
    clusters = Partitioner(X, partition, n_clusters, caller)
    counter = Counter()
    with single_threaded():
        must_be_semidefinite = goal is not None or not method.paper
        check_function(KernelMatrix(kernel, X, counter=counter), of_check, semidefinite=must_be_semidefinite)
        if goal is None:
            parts = clusters(n_clusters or default_clusters(X.shape[0]), of_partition)
            ranks = check_ranks(rank, parts.n_clusters, name="rank", caller=caller)
        elif method.paper:
            assert goal.tol is not None  # a budget was refused
            selection = search(X, kernel, goal.tol, clusters, counter, of_plan, n_jobs)
            parts, ranks = selection.partition, selection.ranks
        else:
            plan = make_plan(X, kernel, goal, method, clusters, clusters.given, counter, of_plan, n_jobs)
            matrix = KernelMatrix(kernel, X[plan.partition.order], counter=counter)
            return build_to_goal(matrix, plan, method, of_bases, n_jobs)
        matrix = KernelMatrix(kernel, X[parts.order], counter=counter)
        planning = matrix.entries
        bases = make_bases(matrix, parts, parts, ranks, method, of_bases, n_jobs)
        before = matrix.entries
        C, cut = make_inner(matrix, parts, bases, method, of_inner, n_jobs)
        return assemble(matrix, parts, bases, C, cut, method, matrix.entries - before, planning)


def factorize_cross(
    Y: Any,
    X: Any,
    kernel: Any,
    *,
    n_clusters: int | tuple[int, int],
    rank: int,
    partition: str = "kmeans",
    algorithm: str = "default",
    sampling: str | None = None,
    inner: str = "sampled",
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> CrossBlockBasis:
    """Compress the kernel matrix of two sets of points, K(Y, X) ~ U C Vᵀ.

    Parameters
    ----------
    Y : array-like of shape (m, d)
        Points of the rows.
    X : array-like of shape (n, d)
        Points of the columns.
    kernel : Kernel or callable
        A function need not be symmetric here.
    n_clusters : int or tuple of two int
        Clusters of both sets, or of Y and of X.
    rank : int
        Basis vectors of every cluster, on both sides.
    partition, algorithm, sampling, inner, dtype, rng, n_jobs
        As in `factorize`; there is no diagonal part.

    Returns
    -------
    CrossBlockBasis
        A `scipy.sparse.linalg.LinearOperator` of shape (m, n).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(500, 2)), rng.normal(size=(300, 2))
    >>> B = bb.factorize_cross(Y, X, bb.Gaussian(2.0), n_clusters=4, rank=25, rng=0)
    >>> bb.relative_error(B, X, bb.Gaussian(2.0), Y=Y).value < 1e-3
    True
    """
    caller = "factorize_cross"
    Y = check_points(Y, name="Y", caller=caller)
    X = check_points(X, name="X", caller=caller, n_features=Y.shape[1])
    chosen = check_dtype(dtype, np.result_type(X, Y), name="dtype", caller=caller)
    X, Y = X.astype(chosen, copy=False), Y.astype(chosen, copy=False)
    kernel = as_kernel(kernel, caller=caller)
    method = _check_method(algorithm, sampling, "svd", inner, False, None, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    if method.sampling == "diagonal-block":
        raise ValueError(
            "The 'sampling' parameter of factorize_cross must be one that two sets of points have. "
            "Got 'diagonal-block' instead: there is no diagonal block."
        )
    if isinstance(n_clusters, tuple) and len(n_clusters) != 2:
        raise ValueError(
            "The 'n_clusters' parameter of factorize_cross must be an integer, or two: for Y and for X. "
            f"Got {n_clusters!r} instead."
        )
    of_rows, of_columns = n_clusters if isinstance(n_clusters, tuple) else (n_clusters, n_clusters)
    of_rows = check_integer(of_rows, name="n_clusters", caller=caller, low=1, high=Y.shape[0])
    of_columns = check_integer(of_columns, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    with single_threaded():
        streams = root.spawn(5)
        rows = make_partition(Y, of_rows, partition, streams[0], caller=caller)
        columns = make_partition(X, of_columns, partition, streams[1], caller=caller)
        matrix = KernelMatrix(kernel, Y[rows.order], X[columns.order])
        row_ranks = check_ranks(rank, rows.n_clusters, name="rank", caller=caller)
        column_ranks = check_ranks(rank, columns.n_clusters, name="rank", caller=caller)
        left = make_bases(matrix, rows, columns, row_ranks, method, streams[2], n_jobs)
        right = make_bases(matrix.T, columns, rows, column_ranks, method, streams[3], n_jobs)
        for_bases = matrix.entries
        of_inner = streams[4].spawn(rows.n_clusters)
        C = cross_inner(matrix, rows, columns, left, right, method=method.blocks, streams=of_inner, n_jobs=n_jobs)
    U = BlockDiagonal(rows, tuple(np.array(basis.vectors, order="C") for basis in left))
    V = BlockDiagonal(columns, tuple(np.array(basis.vectors, order="C") for basis in right))
    return CrossBlockBasis(U, C.astype(chosen), V, Entries(for_bases, matrix.entries - for_bases))


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_goal(
    tol: float | None, memory: int | str | None, rank: Any, method: Method, X: FloatArray, caller: str
) -> Goal | None:
    """What was asked for: a goal, or None when the ranks are given."""
    given = [name for name, value in (("tol", tol), ("memory", memory), ("rank", rank)) if value is not None]
    if len(given) > 1:
        got = " and ".join(f"'{name}'" for name in given)
        raise ValueError(f"{caller} takes one of 'tol', 'memory' and 'rank': each fixes the ranks. Got {got} together.")
    if rank is not None:
        return None
    if method.paper and memory is not None:
        raise ValueError(
            f"The 'memory' parameter of {caller} must be left out with algorithm='paper': the paper has no rule for a "
            f"budget. Got {memory!r} instead."
        )
    if not method.paper and method.sampling != "energy":
        what = f"sampling={method.sampling!r}"
        raise ValueError(f"The 'rank' parameter of {caller} must be given with {what}: it has no rule for the ranks.")
    if memory is not None:
        return Goal(None, check_memory(memory, X.itemsize, X.shape[0], name="memory", caller=caller))
    return Goal(DEFAULT_TOL if tol is None else check_fraction(tol, name="tol", caller=caller), None)


def _check_method(
    algorithm: str,
    sampling: str | None,
    basis: str,
    inner: str,
    diagonal: bool | None,
    cutoff: float | None,
    caller: str,
) -> Method:
    paper = check_choice(algorithm, ALGORITHMS, name="algorithm", caller=caller) == "paper"
    chosen = ("randomized" if paper else "energy") if sampling is None else sampling
    carried = not paper if diagonal is None else check_flag(diagonal, name="diagonal", caller=caller)
    if paper and (carried or basis != "svd"):
        wrong = "diagonal=True" if carried else f"basis={basis!r}"
        raise ValueError(f"{wrong} contradicts algorithm='paper', which has no diagonal part and SVD bases.")
    return Method(
        paper,
        check_choice(chosen, SAMPLINGS, name="sampling", caller=caller),
        check_choice(basis, BASES, name="basis", caller=caller),
        check_choice(inner, INNERS, name="inner", caller=caller),
        carried,
        None if cutoff is None else check_fraction(cutoff, name="cutoff", caller=caller),
    )
