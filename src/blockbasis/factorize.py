"""The front door: checked arguments into a plan, and into a factorization."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis import _machine
from blockbasis._parallel import check_n_jobs, single_threaded
from blockbasis._typing import IntArray, Seed
from blockbasis._validation import (
    check_choice,
    check_dtype,
    check_integer,
    check_points,
    check_progress,
    check_ranks,
    check_rng,
)
from blockbasis.arguments import (
    check_basis,
    check_both_clusters,
    check_clusters,
    check_goal,
    check_method,
    check_plan,
    reserved,
)
from blockbasis.construction.cross import cross_factorization
from blockbasis.construction.method import ACCURATE, Method
from blockbasis.construction.pipeline import factorize_with_ranks, sample_sizes
from blockbasis.exceptions import PerformanceWarning
from blockbasis.kernels import Kernel, as_kernel
from blockbasis.matrix import Counter, KernelMatrix, check_function
from blockbasis.operators import BlockBasis, CrossBlockBasis
from blockbasis.partition import PARTITIONS, Partition, Partitioner, make_partition
from blockbasis.planning import costs
from blockbasis.planning.build import build
from blockbasis.planning.goal import Job
from blockbasis.planning.paper_rule import search
from blockbasis.planning.plan import Plan, fingerprint, make_plan
from blockbasis.planning.search import default_clusters
from blockbasis.progress import Listener, reporting


def factorize(
    X: Any,
    kernel: Any,
    *,
    tol: float | None = None,
    memory: int | str | None = None,
    ridge: float | None = None,
    plan: Plan | None = None,
    n_clusters: int | None = None,
    rank: Any = None,
    partition: Any = "kmeans",
    algorithm: str = "default",
    sampling: str | None = None,
    basis: str | None = None,
    inner: str = "sampled",
    diagonal: bool | None = None,
    cutoff: float | None = None,
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
    progress: bool | Listener = False,
) -> BlockBasis:
    """Compress the kernel matrix of ``X`` into U C Uᵀ + D, in time and memory linear in the number of points.

    Give one of ``tol``, ``memory``, ``rank`` and ``plan``; with none, ``tol`` is 1e-3.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points: finite real numbers. float32 points are worked on in float32.
    kernel : Kernel or callable
        Such as ``Gaussian(1.0)``, ``Gaussian([1.0, 5.0]) + White(0.1)``, one of scikit-learn's kernels, or a function
        k(X, Y) -> array that is symmetric and positive definite. Clusters are made in the coordinates of the kernel.
        White noise is added to D; ``tol`` is relative to the kernel matrix without it.
    tol : float, default=None
        Relative Frobenius error |K - A| / |K| to reach. The number of clusters and the ranks are chosen from surveys.
        Sampled exact entries of the matrix check the error; ranks are raised until the tolerance is met, and then
        lowered to those of least memory. With ``algorithm="paper"`` the paper's rule chooses the ranks from the
        diagonal blocks, and nothing is checked: see `blockbasis.selection.select`.
    memory : int or str, default=None
        Budget in place of ``tol``. An int bounds the floats that a product reads: ``stored`` never exceeds it. A size
        such as "512MB" bounds all bytes that are kept: ``nbytes``, and the file that `save` writes. The paper's
        algorithm has no rule for a budget.
    ridge : float, default=None
        What will be added to the diagonal before a system is solved. With it, an error of spectral norm up to
        ``tol * ridge`` is allowed too: no solution of (K + ridge I) x = b changes by more than ``tol`` then, and the
        ranks shrink where the ridge outweighs what they would hold. A ridge too small for that changes nothing.
    plan : Plan, default=None
        What `plan` has chosen for these points, to be carried out; it takes the place of all other choices.
    n_clusters : int, default=None
        Clusters of points; None searches for the best number, or, when ``rank`` is given, takes sqrt(n) / 4.
        Fewer come back when the points have fewer distinct places.
    rank : int or sequence of int, default=None
        Basis vectors of every cluster, or of each. A cluster of no more points than that is kept exactly.
    partition : {"kmeans", "kcenters", "random"}, Partition, or array-like of shape (n,), default="kmeans"
        How the points are clustered, or a label for each point.
    algorithm : {"default", "paper"}, default="default"
        "paper": the paper's Algorithms 1 to 5 with its settings. "default": bases sketched from rows and columns that
        are sampled by energy, one set of rows for each cluster in the inner matrix, and a diagonal part.
    sampling : {"energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block"}, default=None
        Which columns a basis is taken from; None is the algorithm's own: "energy", or "randomized" (the paper's
        Algorithm 2; "pooled" is its Algorithm 3). "leverage" and "exact" look at all columns: quadratic cost.
        "diagonal-block" takes the cluster's own columns only, as MEKA does.
    basis : default=None
        Deprecated and without effect: one basis serves products, solves and new points.
    inner : {"sampled", "exact"}, default="sampled"
        "exact" evaluates every entry of the matrix.
    diagonal : bool, default=None
        Whether D, the part of the diagonal that U C Uᵀ does not hold, may be carried; None is the algorithm's own
        choice. With ``tol`` D is carried only where it lowers the error by more than its n floats are worth.
    cutoff : float, default=None
        Relative error that may be given up for zero blocks in C. None: with ``tol`` a small share of the tolerance, and
        C stays positive semi-definite; otherwise all blocks are kept. With a cutoff given C may be indefinite: see
        `BlockBasis.cutoff`.
    dtype : {numpy.float32, numpy.float64}, default=None
        Precision of the work and of the result; None is that of ``X``. ``algorithm="paper"`` works in float64 whatever
        the result's: its few rows amplify rounding.
    rng : int, Generator or None
        Seed. The result depends on it alone, not on ``n_jobs``.
    n_jobs : int, default=None
        Threads; None is one for each core.
    progress : bool or callable, default=False
        True shows a bar (by rich, where it is installed); a callable receives a `ProgressEvent` for each piece done.

    Returns
    -------
    BlockBasis
        A `scipy.sparse.linalg.LinearOperator` in the order of the points given.

    Warns
    -----
    PerformanceWarning
        When the tolerance needs more floats than the dense matrix has.

    Raises
    ------
    MemoryError
        When the work would need more memory than is free; nothing has been built then.

    See Also
    --------
    plan : What it will cost, before it is spent.
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
    check_basis(basis, caller)
    X = check_points(X, name="X", caller=caller, dtype=check_dtype(dtype, name="dtype", caller=caller))
    kernel = as_kernel(kernel, caller=caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    progress = check_progress(progress, name="progress", caller=caller)
    streams = check_rng(rng, name="rng", caller=caller).spawn(5)
    chosen = {"tol": tol, "memory": memory, "ridge": ridge, "n_clusters": n_clusters, "rank": rank, "dtype": dtype}
    with single_threaded(), reporting(progress):
        if plan is not None:
            chosen |= {"sampling": sampling, "diagonal": diagonal, "cutoff": cutoff}
            named = {"partition": partition, "algorithm": algorithm, "inner": inner}
            X = X.astype(plan.dtype, copy=False) if isinstance(plan, Plan) else X
            check_plan(plan, X, kernel, chosen, named)
            job = Job(kernel.coordinates(X), kernel.core, plan.goal, plan.method, n_jobs)
            check_function(KernelMatrix(job.kernel, job.X), streams[4], semidefinite=True)
            return _of_whole_kernel(_carried_out(plan, job, streams), kernel)
        ways = check_method(algorithm, sampling, inner, diagonal, cutoff, caller)
        X, core = kernel.coordinates(X), kernel.core
        clusters = check_clusters(X, _in_coordinates(partition, kernel), n_clusters, caller)
        goal = check_goal(tol, memory, rank, ridge, ways, X, caller)
        if goal is not None and not ways.paper:
            job = Job(X, core, reserved(goal, kernel, ways, X), ways, n_jobs)
            return _of_whole_kernel(_carried_out(_planned(job, clusters, streams), job, streams), kernel)
        counter = Counter()
        semidefinite = goal is not None or not ways.paper
        check_function(KernelMatrix(core, X, counter=counter), streams[4], semidefinite=semidefinite)
        if goal is not None:
            assert goal.tol is not None  # a budget was refused
            selection = search(X, core, goal.tol, clusters, counter, streams[3], n_jobs)
            parts, ranks = selection.partition, selection.ranks
        else:
            parts = clusters(clusters.n_clusters or default_clusters(X.shape[0]), streams[0])
            ranks = check_ranks(rank, parts.n_clusters, name="rank", caller=caller)
        matrix = KernelMatrix(core, X[parts.order], counter=counter)
        A = _of_ranks(matrix, parts, ranks, ways, (streams[1], streams[2]), n_jobs)
        return _of_whole_kernel(A, kernel)


def plan(
    X: Any,
    kernel: Any,
    *,
    tol: float | None = None,
    memory: int | str | None = None,
    ridge: float | None = None,
    n_clusters: int | None = None,
    partition: Any = "kmeans",
    basis: str | None = None,
    inner: str = "sampled",
    diagonal: bool = True,
    cutoff: float | None = None,
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
    progress: bool | Listener = False,
) -> Plan:
    """Plan a factorization for a tolerance or a budget: clusters, ranks and costs before anything is built.

    The plan rests on surveys: samples of rows and columns of some clusters, which represent the others.

    Parameters
    ----------
    X, kernel, tol, memory, ridge, n_clusters, partition, basis, inner, diagonal, cutoff, dtype, rng, n_jobs, progress
        As in `factorize`. ``plan.seconds`` is for ``n_jobs`` threads.

    Returns
    -------
    Plan
        Number of clusters, ranks, floats stored, bytes, kernel entries, error and seconds; `factorize` carries it out.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> plan = bb.plan(X, bb.Gaussian(2.0), tol=1e-2, rng=0)
    >>> plan.stored < 0.02 * 2000**2
    True
    >>> A = bb.factorize(X, bb.Gaussian(2.0), plan=plan, rng=0)
    >>> bool(abs(A.stored / plan.stored - 1) < 0.25)
    True
    """
    caller = "plan"
    check_basis(basis, caller)
    X = check_points(X, name="X", caller=caller, dtype=check_dtype(dtype, name="dtype", caller=caller))
    kernel = as_kernel(kernel, caller=caller)
    method = check_method("default", None, inner, diagonal, cutoff, caller)
    goal = check_goal(tol, memory, None, ridge, method, X, caller)
    assert goal is not None
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    progress = check_progress(progress, name="progress", caller=caller)
    streams = check_rng(rng, name="rng", caller=caller).spawn(5)
    points = kernel.coordinates(X)
    clusters = check_clusters(points, _in_coordinates(partition, kernel), n_clusters, caller)
    job = Job(points, kernel.core, reserved(goal, kernel, method, X), method, n_jobs)
    with single_threaded(), reporting(progress):
        found = _planned(job, clusters, streams)
    if found.kernel is kernel:
        return found
    # The caller's points and kernel are what a plan is recognised by.
    carried = found.diagonal or bool(kernel.noise)
    return replace(found, kernel=kernel, fingerprint=fingerprint(X), diagonal=carried)


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
    partition : {"kmeans", "kcenters", "random"}, default="kmeans"
        How both sets of points are clustered.
    algorithm, sampling, inner, dtype, rng, n_jobs
        As in `factorize`; there is no diagonal part, and no diagonal block to sample.

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
    dtype = check_dtype(dtype, name="dtype", caller=caller)
    Y = check_points(Y, name="Y", caller=caller, dtype=dtype)
    X = check_points(X, name="X", caller=caller, dtype=dtype, n_features=Y.shape[1])
    chosen = np.result_type(X, Y)
    X, Y = X.astype(chosen, copy=False), Y.astype(chosen, copy=False)
    kernel = as_kernel(kernel, caller=caller)
    X, Y, kernel = kernel.coordinates(X), kernel.coordinates(Y), kernel.core
    method = check_method(algorithm, sampling, inner, False, None, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    if method.sampling == "diagonal-block":
        raise ValueError(
            "The 'sampling' parameter of factorize_cross must be one that two sets of points have. "
            "Got 'diagonal-block' instead: there is no diagonal block."
        )
    of_rows, of_columns = check_both_clusters(n_clusters, Y.shape[0], X.shape[0], caller)
    rank = check_integer(rank, name="rank", caller=caller, low=1)
    check_choice(partition, PARTITIONS, name="partition", caller=caller)
    with single_threaded():
        streams = root.spawn(5)
        rows = make_partition(Y, of_rows, partition, streams[0], caller=caller)
        columns = make_partition(X, of_columns, partition, streams[1], caller=caller)
        _machine.require_memory(_cross_bytes(rows, columns, rank, n_jobs), "smaller ranks or fewer clusters")
        matrix = KernelMatrix(kernel, Y[rows.order], X[columns.order])
        return cross_factorization(matrix, rows, columns, rank, method, streams[2], n_jobs)


# --- steps -----------------------------------------------------------------------------------------------------------


def _of_ranks(
    matrix: KernelMatrix,
    partition: Partition,
    ranks: IntArray,
    method: Method,
    streams: tuple[np.random.Generator, np.random.Generator],
    n_jobs: int,
) -> BlockBasis:
    sizes = partition.sizes
    built = np.minimum(ranks, sizes)
    kept = costs.stored_floats(sizes, built, diagonal=True) * matrix.dtype.itemsize
    samples = sample_sizes(method, matrix.shape[0])
    working = costs.working_bytes(sizes, built, 1.0, samples, n_jobs, keeps=False)
    _machine.require_memory(kept + working, "smaller ranks")
    return factorize_with_ranks(matrix, partition, ranks, method, streams, n_jobs)


def _in_coordinates(partition: Any, kernel: Kernel) -> Any:
    """Clusters as they were given; of a `Partition` the labels alone where its centres have other coordinates."""
    return partition.labels if isinstance(partition, Partition) and kernel.map is not None else partition


def _of_whole_kernel(A: BlockBasis, kernel: Kernel) -> BlockBasis:
    """The factorization of the core of a kernel as that of the kernel: with its white noise in the diagonal part."""
    if A.kernel is kernel:
        return A
    if not kernel.noise:
        return replace(A, kernel=kernel)
    part = np.zeros(A.shape[0], dtype=A.dtype) if A.diagonal_part is None else A.diagonal_part
    whole = replace(A, kernel=kernel, diagonal_part=part + A.dtype.type(kernel.noise))
    estimate = A.error_estimate
    if estimate is None:
        return whole
    share = A.frobenius_norm() / whole.frobenius_norm()  # the error is as before, and the matrix is larger
    relative = replace(estimate, value=share * estimate.value, stderr=share * estimate.stderr)
    return replace(whole, error_estimate=relative)


def _planned(job: Job, clusters: Partitioner, streams: list[np.random.Generator]) -> Plan:
    check_function(KernelMatrix(job.kernel, job.X, counter=job.counter), streams[4], semidefinite=True)
    return make_plan(job, clusters, streams[3])


def _carried_out(plan: Plan, job: Job, streams: list[np.random.Generator]) -> BlockBasis:
    n, bounded = job.n_points, plan.goal.memory is not None
    evaluated = 8 * n**2 if plan.known and job.evaluated else 0  # when the plan was made
    _machine.require_memory(plan.working_bytes - evaluated, plan.remedy)
    expected = bounded or costs.pays(plan.stored, n)
    if not expected:
        _warn_that_it_does_not_pay(f"needs about {plan.stored} floats", plan)
    if plan.known and not job.known:  # a plan that was made before
        job = replace(job, cached=True)
    A = build(job.matrix(plan.partition), plan, streams[1], job.n_jobs)
    if expected and not bounded and not costs.pays(A.stored, n):
        _warn_that_it_does_not_pay(f"took {A.stored} floats", plan)
    return A


def _cross_bytes(rows: Partition, columns: Partition, rank: int, n_jobs: int) -> int:
    """Peak bytes of a cross factorization: bases and C, each twice, and the sample of a cluster on each thread."""
    ranks = [np.minimum(rank, side.sizes) for side in (rows, columns)]
    bases = sum(int(side.sizes @ own) for side, own in zip((rows, columns), ranks, strict=True))
    sampled = max(
        int(own.sizes.max()) * min(ACCURATE.columns * rank, other.n_points)
        for own, other in ((rows, columns), (columns, rows))
    )
    return 8 * (2 * bases + 2 * int(ranks[0].sum()) * int(ranks[1].sum()) + 3 * n_jobs * sampled)


def _warn_that_it_does_not_pay(what: str, plan: Plan) -> None:
    warnings.warn(
        f"The tolerance {what}, more than the {plan.dense} of the dense matrix. What would fit: {plan.remedy}.",
        PerformanceWarning,
        stacklevel=4,
    )
