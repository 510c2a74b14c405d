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
    check_non_negative,
    check_points,
    check_ranks,
    check_rng,
)
from blockbasis.basis import BlockDiagonal
from blockbasis.construction import ALGORITHMS, BASES, INNERS, SAMPLINGS, Method, assemble, make_bases, make_inner
from blockbasis.inner import cross_inner
from blockbasis.kernels import CallableKernel, as_kernel
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis, CrossBlockBasis, Entries
from blockbasis.partition import Partition, make_partition
from blockbasis.tuning import Goal, Plan, build_to_goal, default_clusters, make_plan

DEFAULT_TOL = 1e-3

#: Points on which a user's kernel function is asked whether it is symmetric.
_SYMMETRY_SAMPLE = 64


def factorize(
    X: Any,
    kernel: Any,
    *,
    tol: float | None = None,
    memory: int | str | None = None,
    ridge: float = 0.0,
    n_clusters: int | None = None,
    rank: Any = None,
    plan: Plan | None = None,
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
    """Compress the kernel matrix of ``X`` into U C Uᵀ + D."""
    caller = "factorize"
    X = check_points(X, name="X", caller=caller)
    X = X.astype(check_dtype(dtype, X.dtype, name="dtype", caller=caller), copy=False)
    kernel = as_kernel(kernel, caller=caller)
    method = _check_method(algorithm, sampling, basis, inner, diagonal, cutoff, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    goal = _check_goal(tol, memory, ridge, rank, X, caller)
    if n_clusters is not None:
        n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    of_partition, of_bases, of_inner, of_plan = root.spawn(4)

    def partition_of(k: int, stream: np.random.Generator) -> Partition:
        return make_partition(X, k, partition, stream, caller=caller)

    with single_threaded():
        if goal is not None:
            if plan is None:
                if not isinstance(partition, str):
                    n_clusters = 1
                plan = make_plan(X, kernel, goal, method, partition_of, n_clusters, of_plan, n_jobs)
            matrix = KernelMatrix(kernel, X[plan.partition.order])
            _check_symmetric(matrix, of_partition)
            return build_to_goal(matrix, plan, method, of_bases, n_jobs)
        parts = partition_of(n_clusters or default_clusters(X.shape[0]), of_partition)
        ranks = check_ranks(rank, parts.n_clusters, name="rank", caller=caller)
        matrix = KernelMatrix(kernel, X[parts.order])
        _check_symmetric(matrix, of_partition)
        bases = make_bases(matrix, parts, parts, ranks, method, of_bases, n_jobs)
        for_bases = matrix.entries
        C, cut = make_inner(matrix, parts, bases, method, of_inner, n_jobs)
        return assemble(matrix, parts, bases, C, cut, method, matrix.entries - for_bases)


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
    """Compress the kernel matrix of two sets of points, K(Y, X) ~ U C Vᵀ."""
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
    tol: float | None, memory: int | str | None, ridge: float, rank: Any, X: FloatArray, caller: str
) -> Goal | None:
    """What was asked for: a goal, or None when the ranks are given."""
    ridge = check_non_negative(ridge, name="ridge", caller=caller)
    given = [name for name, value in (("tol", tol), ("memory", memory), ("rank", rank)) if value is not None]
    if len(given) > 1:
        raise ValueError(
            f"Give one of 'tol', 'memory' and 'rank' to {caller}: each of them fixes the ranks. Got {given}."
        )
    if rank is not None:
        return None
    if memory is not None:
        return Goal(None, check_memory(memory, X.itemsize, X.shape[0], name="memory", caller=caller), ridge)
    return Goal(DEFAULT_TOL if tol is None else check_fraction(tol, name="tol", caller=caller), None, ridge)


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


def _check_symmetric(matrix: KernelMatrix, rng: np.random.Generator) -> None:
    """Ask a user's function, on a few points, whether it is symmetric."""
    if not isinstance(matrix.kernel, CallableKernel):
        return
    n = matrix.shape[0]
    some = np.sort(rng.choice(n, min(_SYMMETRY_SAMPLE, n), replace=False))
    matrix.kernel.check_symmetric(matrix.block(some, some))
