"""`blockbasis.factorize` of rows on disk: arguments are checked, and the parts put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import check_n_jobs
from blockbasis._utils.progress import reporting
from blockbasis._utils.validation import check_dtype, check_fraction, check_memory, check_progress, check_rng
from blockbasis.kernels import as_kernel
from blockbasis.planning.goal import DEFAULT_TOL, DEFAULTS
from blockbasis.planning.search import default_clusters
from blockbasis.streaming.factorization import (
    draw_sample,
    factorize_rows,
    held_out_error,
    sample_counts,
    warn_of_missed_tolerance,
)
from blockbasis.streaming.functions import BasisFunctions
from blockbasis.streaming.sources import SAMPLE_ROWS, Rows
from blockbasis.streaming.workspace import check_workspace

if TYPE_CHECKING:
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.operators.entries import Entries
    from blockbasis.operators.error_estimate import ErrorEstimate

#: Shares of a tolerance that the factorizations of the sample aim at, one for each trial: the error at the other rows
#: is larger, and differs from one factorization to the next.
_SAMPLE_SHARES = (0.95, 0.9, 0.8, 0.7)


def factorize_streamed(
    factorize: Callable[..., BlockBasis],
    rows: Rows,
    kernel: Any,
    goal: dict[str, Any],
    in_memory: dict[str, Any],
    diagonal: bool | None,
    workspace: str | PathLike[str] | None,
    *,
    dtype: npt.DTypeLike | None,
    rng: Any,
    n_jobs: int | None,
    progress: Any,
) -> BlockBasis:
    """Factorize a sample of the rows, then evaluate its basis functions at all rows.

    Parameters
    ----------
    factorize : callable
        `blockbasis.factorize`, for the sample.
    rows : Rows
    kernel : Kernel or callable
    goal : dict
        ``tol``, ``memory``, ``rank``, ``ridge`` and ``n_clusters`` of `blockbasis.factorize`.
    in_memory : dict
        Arguments that need all points in memory, and are refused unless they have their defaults.
    diagonal, workspace, dtype, rng, n_jobs, progress
        As in `blockbasis.factorize`.
    """
    _refuse(in_memory)
    if workspace is not None:
        check_workspace(workspace, caller="factorize")  # before the passes over the rows
    check_n_jobs(n_jobs, caller="factorize")
    shared: dict[str, Any] = {
        "n_jobs": n_jobs,
        "progress": check_progress(progress, name="progress", caller="factorize"),
    }
    chosen = check_dtype(dtype, name="dtype", caller="factorize") or np.dtype(np.float64)
    found = sample_functions(factorize, rows, kernel, goal, diagonal=bool(diagonal), dtype=chosen, rng=rng, **shared)
    with reporting(progress):
        B = factorize_rows(
            found.functions,
            rows,
            dtype=chosen,
            diagonal=bool(diagonal),
            workspace=workspace,
            n_jobs=check_n_jobs(n_jobs, caller="factorize"),
        )
    found.warn()
    return replace(B, entries=found.entries(B.entries.bases), error_estimate=found.estimate)


@dataclass(frozen=True, eq=False)
class SampledFunctions:
    """Basis functions from a sample of rows, their error at other rows, and the tolerance asked for."""

    functions: BasisFunctions
    estimate: ErrorEstimate
    tol: float | None
    sampled: Entries

    def entries(self, evaluated: int) -> Entries:
        """Return the numbers of kernel entries, of which ``evaluated`` are those of the pass over all rows."""
        return replace(self.sampled, bases=evaluated, planning=self.sampled.planning + self.sampled.bases)

    def warn(self) -> None:
        """Warn where the tolerance is missed."""
        warn_of_missed_tolerance(self.estimate, self.tol)


def sample_functions(
    factorize: Callable[..., BlockBasis],
    rows: Rows,
    kernel: Any,
    goal: dict[str, Any],
    *,
    diagonal: bool,
    dtype: np.dtype[Any],
    rng: Any,
    **shared: Any,
) -> SampledFunctions:
    """Return basis functions for all rows, from a factorization of a sample of them.

    Parameters
    ----------
    factorize, rows, kernel, goal
        As in `factorize_streamed`.
    diagonal : bool
    dtype : dtype
    rng : int, Generator or None
    **shared
        ``n_jobs`` and ``progress`` of `blockbasis.factorize`.
    """
    kernel = as_kernel(kernel, caller="factorize")
    of_sample, of_factors = check_rng(rng, name="rng", caller="factorize").spawn(2)
    sample = draw_sample(rows, of_sample)
    tol = DEFAULT_TOL if all(goal[name] is None for name in ("tol", "memory", "rank")) else goal["tol"]
    asked = sample_goal(goal, len(rows), dtype.itemsize)
    for share, own in zip((*_SAMPLE_SHARES[1:], None), of_factors.spawn(len(_SAMPLE_SHARES)), strict=True):
        A = factorize(sample.points, kernel.without_noise(), **asked, diagonal=False, rng=own, **shared)
        functions = BasisFunctions.of(replace(A, kernel=kernel))
        estimate = held_out_error(functions, sample.held_out, len(rows), carried=diagonal)
        if tol is None or estimate.value <= tol or share is None:
            break
        asked["tol"] *= share * tol / estimate.value  # for the next trial
    return SampledFunctions(functions, estimate, tol, A.entries)


def sample_goal(goal: dict[str, Any], n: int, itemsize: int) -> dict[str, Any]:
    """Return the goal for the sample: a budget in proportion, and the clusters of given ranks by the number of rows."""
    count, given = sample_counts(n)[0], dict(goal)
    if all(given[name] is None for name in ("tol", "memory", "rank")):
        given["tol"] = DEFAULT_TOL
    if given["tol"] is not None:
        given["tol"] = _SAMPLE_SHARES[0] * check_fraction(given["tol"], name="tol", caller="factorize")
    if given["memory"] is not None and count < n:
        floats = check_memory(given["memory"], itemsize, n, name="memory", caller="factorize")
        if isinstance(given["memory"], str):  # all bytes count, and the order of the rows is 8 bytes for each
            given["memory"] = f"{max(floats * itemsize - 8 * n, 0) * count // n * 8 // itemsize}B"
        else:
            given["memory"] = floats * count // n
    if given["rank"] is not None and given["n_clusters"] is None:
        given["n_clusters"] = min(default_clusters(n), count)
    return given


def _refuse(in_memory: dict[str, Any]) -> None:
    """Raise for arguments that need all points in memory."""
    for name, value in in_memory.items():
        if not (value is None or (isinstance(value, str) and value == DEFAULTS.get(name))):
            raise ValueError(
                f"The '{name}' parameter of factorize must be left out for rows on disk, whose basis comes from a "
                f"sample of {SAMPLE_ROWS:,} of them. Got {value!r} instead: give the points in memory."
            )
