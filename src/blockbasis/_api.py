"""Public functions that plan and compute factorizations: arguments are checked, and handed on."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis._arguments import (
    check_basis,
    check_both_clusters,
    check_clusters,
    check_cross_method,
    check_goal,
    check_method,
    check_plan,
    core_goal,
    in_coordinates,
)
from blockbasis._utils import machine
from blockbasis._utils.parallel import check_n_jobs, in_turn, single_threaded
from blockbasis._utils.progress import Listener, reporting
from blockbasis._utils.typing import IntArray, Seed
from blockbasis._utils.validation import (
    check_choice,
    check_dtype,
    check_integer,
    check_points,
    check_progress,
    check_ranks,
    check_rng,
)
from blockbasis.construction.cross import cross_factorization
from blockbasis.construction.method import Method
from blockbasis.construction.pipeline import factorize_with_ranks, sample_sizes
from blockbasis.exceptions import PerformanceWarning
from blockbasis.kernels import Kernel, as_kernel
from blockbasis.kernels.evaluator import Counter, KernelMatrix, check_function
from blockbasis.operators import BlockBasis, CrossBlockBasis
from blockbasis.partition import PARTITIONS, Partition, Partitioner, make_partition
from blockbasis.planning import costs
from blockbasis.planning.build import build
from blockbasis.planning.goal import Request
from blockbasis.planning.paper_rule import select_parameters
from blockbasis.planning.plan import Plan, fingerprint, make_plan
from blockbasis.planning.search import default_clusters
from blockbasis.streaming.api import factorize_streamed
from blockbasis.streaming.sources import as_rows, is_streamed
from blockbasis.streaming.workspace import check_workspace, moved


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
    workspace: str | PathLike[str] | None = None,
) -> BlockBasis:
    """Compress the kernel matrix of ``X`` into U C Uᵀ + D, in time and memory linear in the number of points.

    One of ``tol``, ``memory``, ``rank`` and ``plan`` is given; otherwise ``tol`` is 1e-3.

    Parameters
    ----------
    X : array-like of shape (n, d), or rows on disk
        Points, finite real numbers. The result is in float32 where the points are. A data set of pyarrow,
        `blockbasis.streaming.Rows`, and a `numpy.memmap` or an array of zarr or h5py with more than 100,000 rows are
        read in pieces: see the notes.
    kernel : Kernel or callable
        A kernel such as ``Gaussian(1.0)`` or ``Gaussian([1.0, 5.0]) + White(0.1)``, a kernel of scikit-learn, or a
        function k(X, Y) -> array that is symmetric and positive definite. Clusters are made in the coordinates of the
        kernel. White noise is added to D; ``tol`` is relative to the kernel matrix without white noise.
    tol : float, default=None
        Relative Frobenius error |K - A| / |K| to reach. Surveys of sampled entries determine the number of clusters
        and the ranks. A stratified sample of exact entries checks the error; ranks are raised until the tolerance is
        met, and then lowered to the ranks of least memory. With ``algorithm="paper"`` the ranks follow from the
        diagonal blocks by the paper's rule, and the error is not checked: see `blockbasis.selection.select`.
    memory : int or str, default=None
        Budget instead of ``tol``. An int bounds the floats that a product reads, ``stored``. A size such as "512MB"
        bounds all bytes that are kept: ``nbytes``, and the file that `save` writes. The paper's algorithm has no rule
        for a budget.
    ridge : float, default=None
        Ridge of the systems (K + ridge I) x = b that will be solved. An error of spectral norm up to ``tol * ridge``
        is then allowed too: it changes no solution by more than ``tol`` of its norm. Ranks are smaller where this
        allows a larger error than ``tol`` alone; a small ridge has no effect.
    plan : Plan, default=None
        Result of `plan` for these points. It replaces all arguments that determine clusters, ranks and method.
    n_clusters : int, default=None
        Number of clusters. None searches for the best number, or stands for sqrt(n) / 4 when ``rank`` is given. There
        are fewer clusters where there are fewer distinct points.
    rank : int or sequence of int, default=None
        Number of basis vectors of every cluster, or of each cluster. A cluster of at most so many points is exact.
    partition : {"kmeans", "kcenters", "random"}, Partition, or array-like of shape (n,), default="kmeans"
        Method by which the points are clustered, or a label for each point.
    algorithm : {"default", "paper"}, default="default"
        "paper" stands for the paper's Algorithms 1 to 5 with its settings. "default" sketches bases from rows and
        columns sampled by energy, computes the inner matrix from one set of rows for each cluster, and has a diagonal
        part.
    sampling : {"energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block"}, default=None
        Sampling of the columns from which a basis is computed. None is the default of the algorithm: "energy", or
        "randomized" (the paper's Algorithm 2; "pooled" is its Algorithm 3). "leverage" and "exact" evaluate all
        columns, at quadratic cost. "diagonal-block" uses the columns of the cluster's own points, as MEKA does.
    basis : default=None
        Deprecated and without effect: one basis serves products, solves and new points.
    inner : {"sampled", "exact"}, default="sampled"
        "exact" evaluates every entry of the matrix: C is then the best one for U and D, and ``error_estimate`` is an
        upper bound, that of a sampled C.
    diagonal : bool, default=None
        Whether the residual of the diagonal may be stored in D; None is the default of the algorithm. With ``tol``, D
        is used only where it reduces the error by more than n floats are worth.
    cutoff : float, default=None
        Relative error that dropped blocks of C may have. None stands for a small share of ``tol``, with C positive
        semi-definite, or for no dropped blocks where ``tol`` is not given. With a cutoff, C may be indefinite: see
        `BlockBasis.cutoff`.
    dtype : {numpy.float32, numpy.float64}, default=None
        Dtype of the result; None is that of ``X``. Bases are computed in float64. Samples are evaluated in float32
        where ``tol`` is at least 3e-4.
    rng : int, Generator or None
        Seed. The result depends on the seed, and not on ``n_jobs``.
    n_jobs : int, default=None
        Number of threads; None is one for each core.
    progress : bool or callable, default=False
        True shows a progress bar (by rich, where it is installed). A callable receives a `ProgressEvent` after each
        completed task.
    workspace : path-like, default=None
        Directory for a temporary file with U, which is removed at the end; None keeps U in memory. U of points in
        memory is moved to the file when it is complete.

    Returns
    -------
    BlockBasis
        A `scipy.sparse.linalg.LinearOperator` in the order of the points given.

    Warns
    -----
    PerformanceWarning
        When the tolerance needs more floats than the dense matrix has.
    AccuracyWarning
        When the check does not show that the tolerance is met.

    Raises
    ------
    MemoryError
        When the construction would need more memory than is free. It is raised before the construction starts.

    See Also
    --------
    plan : Clusters, ranks and costs of a factorization before it is computed.
    factorize_cross : Factorization of the kernel matrix of two sets of points.
    relative_error : Relative error of a factorization.

    Notes
    -----
    At most 100,000 of the rows on disk determine clusters, bases and C. The basis functions are then evaluated at all
    rows, which are never held as a whole. The error is estimated at 2,000 other rows. D is stored only with
    ``diagonal=True``, and in float64 unless ``dtype`` is given.

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
    size: dict[str, Any] = {"tol": tol, "memory": memory, "ridge": ridge, "n_clusters": n_clusters, "rank": rank}
    defaulted = {"partition": partition, "algorithm": algorithm, "inner": inner}
    if is_streamed(X):
        in_memory = defaulted | {"plan": plan, "sampling": sampling, "cutoff": cutoff}
        shared: dict[str, Any] = {"dtype": dtype, "rng": rng, "n_jobs": n_jobs, "progress": progress}
        return factorize_streamed(factorize, as_rows(X), kernel, size, in_memory, diagonal, workspace, **shared)
    if workspace is not None:
        check_workspace(workspace, caller=caller)  # before the computation
    X = check_points(X, name="X", caller=caller, dtype=check_dtype(dtype, name="dtype", caller=caller))
    kernel = as_kernel(kernel, caller=caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    progress = check_progress(progress, name="progress", caller=caller)
    streams = check_rng(rng, name="rng", caller=caller).spawn(5)

    def finished(A: BlockBasis) -> BlockBasis:
        return _with_kernel(A if workspace is None else moved(A, workspace), kernel)

    with in_turn(X.shape[0]), single_threaded(), reporting(progress):
        if plan is not None:
            optional = size | {"dtype": dtype, "sampling": sampling, "diagonal": diagonal, "cutoff": cutoff}
            X = X.astype(plan.dtype, copy=False) if isinstance(plan, Plan) else X
            check_plan(plan, X, kernel, optional, defaulted)
            request = Request(kernel.coordinates(X), kernel.core, plan.goal, plan.method, n_jobs)
            check_function(KernelMatrix(request.kernel, request.X), streams[4], semidefinite=True)
            return finished(_build_plan(plan, request, streams))
        method = check_method(algorithm, sampling, inner, diagonal, cutoff, caller)
        X, core = kernel.coordinates(X), kernel.core
        partitioner = check_clusters(X, in_coordinates(partition, kernel), n_clusters, caller)
        goal = check_goal(tol, memory, rank, ridge, method, X, caller)
        if goal is not None and not method.paper:
            request = Request(X, core, core_goal(goal, kernel, method, X), method, n_jobs)
            new_plan = _make_plan(request, partitioner, streams)
            return finished(_build_plan(new_plan, request, streams))
        counter = Counter()
        semidefinite = goal is not None or not method.paper
        check_function(KernelMatrix(core, X, counter=counter), streams[4], semidefinite=semidefinite)
        if goal is not None:
            assert goal.tol is not None  # a budget was refused
            selection = select_parameters(X, core, goal.tol, partitioner, counter, streams[3], n_jobs)
            clusters, ranks = selection.partition, selection.ranks
        else:
            clusters = partitioner(partitioner.n_clusters or default_clusters(X.shape[0]), streams[0])
            ranks = check_ranks(rank, clusters.n_clusters, name="rank", caller=caller)
        matrix = KernelMatrix(core, X[clusters.order], counter=counter)
        return finished(_build_ranks(matrix, clusters, ranks, method, streams, n_jobs))


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
    """Plan a factorization for a tolerance or a budget: clusters, ranks and costs before it is computed.

    A plan is estimated from surveys: sampled rows and columns of some clusters, which represent all clusters.

    Parameters
    ----------
    X, kernel, tol, memory, ridge, n_clusters, partition, basis, inner, diagonal, cutoff, dtype, rng, n_jobs, progress
        As in `factorize`. ``plan.seconds`` is the time with ``n_jobs`` threads.

    Returns
    -------
    Plan
        Number of clusters, ranks, stored floats, bytes, kernel entries, error and seconds. `factorize` takes it as
        ``plan``.

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
    partitioner = check_clusters(points, in_coordinates(partition, kernel), n_clusters, caller)
    request = Request(points, kernel.core, core_goal(goal, kernel, method, X), method, n_jobs)
    with in_turn(X.shape[0]), single_threaded(), reporting(progress):
        result = _make_plan(request, partitioner, streams)
    if result.kernel is kernel:
        return result
    # A plan is recognised by the caller's points and kernel.
    carried = result.diagonal or bool(kernel.noise)
    return replace(result, kernel=kernel, fingerprint=fingerprint(X), diagonal=carried)


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
        A function need not be symmetric.
    n_clusters : int or tuple of two int
        Number of clusters of both sets, or of Y and of X.
    rank : int
        Number of basis vectors of every cluster of both sets.
    partition : {"kmeans", "kcenters", "random"}, default="kmeans"
        Method by which both sets of points are clustered.
    algorithm, sampling, inner, dtype, rng, n_jobs
        As in `factorize`. There is no diagonal part, and no sampling from a diagonal block.

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
    common = np.result_type(X, Y)
    X, Y = X.astype(common, copy=False), Y.astype(common, copy=False)
    kernel = as_kernel(kernel, caller=caller)
    X, Y, kernel = kernel.coordinates(X), kernel.coordinates(Y), kernel.core
    method = check_cross_method(algorithm, sampling, inner, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    n_row_clusters, n_column_clusters = check_both_clusters(n_clusters, Y.shape[0], X.shape[0], caller)
    rank = check_integer(rank, name="rank", caller=caller, low=1)
    check_choice(partition, PARTITIONS, name="partition", caller=caller)
    with single_threaded():
        streams = root.spawn(5)
        rows = make_partition(Y, n_row_clusters, partition, streams[0], caller=caller)
        columns = make_partition(X, n_column_clusters, partition, streams[1], caller=caller)
        machine.require_memory(costs.cross_bytes(rows, columns, rank, n_jobs), "smaller ranks or fewer clusters")
        matrix = KernelMatrix(kernel, Y[rows.order], X[columns.order])
        return cross_factorization(matrix, rows, columns, rank, method, streams[2], n_jobs)


# --- steps -----------------------------------------------------------------------------------------------------------


def _with_kernel(A: BlockBasis, kernel: Kernel) -> BlockBasis:
    """The factorization of the core of a kernel as that of the kernel, with its white noise in the diagonal part."""
    if A.kernel is kernel:
        return A
    if not kernel.noise:
        return replace(A, kernel=kernel)
    diagonal = np.zeros(A.shape[0], dtype=A.dtype) if A.diagonal_part is None else A.diagonal_part
    with_noise = replace(A, kernel=kernel, diagonal_part=diagonal + A.dtype.type(kernel.noise))
    estimate = A.error_estimate
    if estimate is None:
        return with_noise
    share = A.frobenius_norm() / with_noise.frobenius_norm()  # the error is the same, and the norm is larger
    relative = replace(estimate, value=share * estimate.value, stderr=share * estimate.stderr)
    return replace(with_noise, error_estimate=relative)


def _make_plan(request: Request, partitioner: Partitioner, streams: list[np.random.Generator]) -> Plan:
    """Check a kernel function, then plan."""
    check_function(KernelMatrix(request.kernel, request.X, counter=request.counter), streams[4], semidefinite=True)
    return make_plan(request, partitioner, streams[3])


def _build_ranks(
    matrix: KernelMatrix,
    partition: Partition,
    ranks: IntArray,
    method: Method,
    streams: list[np.random.Generator],
    n_jobs: int,
) -> BlockBasis:
    """Check the memory, then build a factorization of the given ranks."""
    sizes, built = partition.sizes, np.minimum(ranks, partition.sizes)
    needed = costs.stored_floats(sizes, built, diagonal=True) * matrix.dtype.itemsize
    samples, inner = sample_sizes(method, matrix.shape[0]), costs.inner_bytes(built, built, 1.0)
    needed += costs.working_bytes(sizes, built, inner, samples, n_jobs, keep_samples=False)
    machine.require_memory(needed, "smaller ranks")
    return factorize_with_ranks(matrix, partition, ranks, method, (streams[1], streams[2]), n_jobs)


def _build_plan(plan: Plan, request: Request, streams: list[np.random.Generator]) -> BlockBasis:
    """Check the memory, then build; warn where the factorization has more floats than the dense matrix."""
    n, bounded = request.n_points, plan.goal.memory is not None
    evaluated = 8 * n**2 if plan.known and request.evaluated else 0  # when the plan was made
    machine.require_memory(plan.working_bytes - evaluated, plan.remedy)
    pays = bounded or costs.pays(plan.stored, n)
    if not pays:
        _warn_not_paying(f"may need {plan.stored} floats", plan)
    if plan.known and not request.cached:  # an earlier plan
        request = replace(request, always_cached=True)
    A = build(request.matrix(plan.partition), plan, streams[1], request.n_jobs)
    if pays and not bounded and not costs.pays(A.stored, n):
        _warn_not_paying(f"took {A.stored} floats", plan)
    return A


def _warn_not_paying(need: str, plan: Plan) -> None:
    """Warn of a tolerance that needs more floats than the dense matrix has."""
    warnings.warn(
        f"The tolerance {need}, more than the {plan.dense} of the dense matrix. What would fit: {plan.remedy}.",
        PerformanceWarning,
        stacklevel=4,
    )
