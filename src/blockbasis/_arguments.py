"""Checks of arguments of `factorize` and `plan` that depend on each other: goal, method, clusters, plan."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import (
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_memory,
    check_positive,
)
from blockbasis.construction.method import ALGORITHMS, INNERS, SAMPLINGS, Method
from blockbasis.kernels.description import describe_kernel
from blockbasis.partition import Partition, Partitioner
from blockbasis.planning.goal import DEFAULT_TOL, DEFAULTS, Goal
from blockbasis.planning.plan import Plan, fingerprint

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.kernels import Kernel


def check_clusters(X: FloatArray, partition: Any, n_clusters: int | None, caller: str) -> Partitioner:
    """Partitions of the points by the given arguments."""
    if n_clusters is not None:
        n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    return Partitioner(X, partition, n_clusters, caller)


def in_coordinates(partition: Any, kernel: Kernel) -> Any:
    """The ``partition`` argument; the labels of a `Partition` where its centres are not in the kernel's coordinates."""
    return partition.labels if isinstance(partition, Partition) and kernel.map is not None else partition


def check_both_clusters(n_clusters: Any, n_rows: int, n_columns: int, caller: str) -> tuple[int, int]:
    """Numbers of row clusters and of column clusters, from one number for both or from two."""
    if isinstance(n_clusters, Sized) and not (isinstance(n_clusters, tuple) and len(n_clusters) == 2):
        raise ValueError(
            f"The 'n_clusters' parameter of {caller} must be an integer, or a tuple of two: for Y and for X. "
            f"Got {n_clusters!r} instead."
        )
    n_row_clusters, n_column_clusters = n_clusters if isinstance(n_clusters, tuple) else (n_clusters, n_clusters)
    return (
        check_integer(n_row_clusters, name="n_clusters", caller=caller, low=1, high=n_rows),
        check_integer(n_column_clusters, name="n_clusters", caller=caller, low=1, high=n_columns),
    )


def check_goal(
    tol: float | None,
    memory: int | str | None,
    rank: Any,
    ridge: float | None,
    method: Method,
    X: FloatArray,
    caller: str,
) -> Goal | None:
    """The goal, a tolerance or a budget; None when the ranks are given."""
    given = [name for name, value in (("tol", tol), ("memory", memory), ("rank", rank)) if value is not None]
    if len(given) > 1:
        got = " and ".join(f"'{name}'" for name in given)
        raise ValueError(f"{caller} takes one of 'tol', 'memory' and 'rank': each fixes the ranks. Got {got} together.")
    if ridge is not None and (memory is not None or rank is not None):
        raise ValueError(f"The 'ridge' parameter of {caller} goes with 'tol' only. Got it with '{given[0]}'.")
    if rank is not None:
        return None
    if tol is not None or memory is None:
        tol = DEFAULT_TOL if tol is None else check_fraction(tol, name="tol", caller=caller)
    if method.cutoff is not None and method.inner == "exact" and not method.paper:
        raise ValueError(
            f"The 'cutoff' parameter of {caller} must be left out with inner='exact', which has all blocks of C, "
            f"unless 'rank' is given. Got {method.cutoff} instead."
        )
    if method.cutoff is not None and tol is not None and method.cutoff >= tol:
        raise ValueError(
            f"The 'cutoff' parameter of {caller} must be below 'tol'. Got {method.cutoff} with tol={tol} instead."
        )
    if method.paper and ridge is not None:
        raise ValueError(f"The 'ridge' parameter of {caller} must be left out with algorithm='paper'. Got {ridge!r}.")
    if method.paper and memory is not None:
        raise ValueError(
            f"The 'memory' parameter of {caller} must be left out with algorithm='paper': the paper has no rule for a "
            f"budget. Got {memory!r} instead."
        )
    if not method.paper and method.sampling != "energy":
        raise ValueError(
            f"The 'rank' parameter of {caller} must be given with sampling={method.sampling!r}: it has no rule for the "
            "ranks."
        )
    if memory is not None:
        floats = check_memory(memory, X.itemsize, X.shape[0], name="memory", caller=caller)
        return Goal(None, floats, everything=isinstance(memory, str))
    return Goal(tol, None, ridge=0.0 if ridge is None else check_positive(ridge, name="ridge", caller=caller))


def core_goal(goal: Goal, kernel: Kernel, method: Method, X: FloatArray) -> Goal:
    """The goal for the core of a kernel: a budget minus the floats of white noise, metrics and lengths."""
    if goal.memory is None:
        return goal
    floats = X.shape[0] if kernel.noise and not method.diagonal else 0
    if goal.everything and kernel.core is not kernel:  # a file holds metrics and lengths
        floats += -(-len(json.dumps(describe_kernel(kernel))) // X.itemsize)
    return replace(goal, memory=goal.memory - floats)


def check_cross_method(algorithm: str, sampling: str | None, inner: str, caller: str) -> Method:
    """The method of a factorization of two sets of points."""
    method = check_method(algorithm, sampling, inner, False, None, caller)
    if method.sampling == "diagonal-block":
        raise ValueError(
            f"The 'sampling' parameter of {caller} must be one that two sets of points have. "
            "Got 'diagonal-block' instead: there is no diagonal block."
        )
    return method


def check_plan(plan: Any, X: FloatArray, kernel: Kernel, optional: dict[str, Any], defaulted: dict[str, Any]) -> None:
    """Raise unless a plan is for these points and this kernel, and no other argument is given with it.

    Arguments that are not given are None if ``optional``, and have their default if ``defaulted``.
    """
    if not isinstance(plan, Plan):
        raise TypeError(
            f"The 'plan' parameter of factorize must be what plan() returns. Got {type(plan).__name__} instead."
        )
    given = [name for name, value in optional.items() if value is not None]
    given += [name for name, value in defaulted.items() if not (isinstance(value, str) and value == DEFAULTS[name])]
    if given:
        raise ValueError(f"The 'plan' parameter of factorize takes the place of {given[0]!r}. Got both.")
    if X.shape != (plan.partition.n_points, plan.n_features):
        raise ValueError(
            f"The 'plan' parameter of factorize must be of the points given, shape {X.shape}. Got one of "
            f"{plan.partition.n_points} points with {plan.n_features} columns instead."
        )
    if not np.array_equal(fingerprint(X), plan.fingerprint):
        raise ValueError(
            "The 'plan' parameter of factorize must be of the points given. Got one of other points instead."
        )
    if kernel != plan.kernel:
        raise ValueError(
            f"The 'plan' parameter of factorize must be of the kernel given, {kernel!r}. Got one of {plan.kernel!r}."
        )


def check_basis(basis: Any, caller: str) -> None:
    """Warn that the deprecated ``basis`` argument has no effect."""
    if basis is None:
        return
    check_choice(basis, ("svd", "skeleton"), name="basis", caller=caller)
    warnings.warn(
        f"The 'basis' parameter of {caller} has no effect any more: one basis serves products, solves and new points. "
        "Leave it out.",
        FutureWarning,
        stacklevel=3,
    )


def check_method(
    algorithm: str,
    sampling: str | None,
    inner: str,
    diagonal: bool | None,
    cutoff: float | None,
    caller: str,
) -> Method:
    """The method; arguments that are None take the default of the algorithm."""
    paper = check_choice(algorithm, ALGORITHMS, name="algorithm", caller=caller) == "paper"
    sampling = ("randomized" if paper else "energy") if sampling is None else sampling
    carried = not paper if diagonal is None else check_flag(diagonal, name="diagonal", caller=caller)
    if paper and carried:
        raise ValueError("diagonal=True contradicts algorithm='paper', which has no diagonal part.")
    return Method(
        paper,
        check_choice(sampling, SAMPLINGS, name="sampling", caller=caller),
        check_choice(inner, INNERS, name="inner", caller=caller),
        carried,
        None if cutoff is None else check_fraction(cutoff, name="cutoff", caller=caller),
    )
