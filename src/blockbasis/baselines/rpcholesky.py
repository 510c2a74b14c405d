"""Randomly pivoted Cholesky factorization with blocks of proposed pivots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.protocol import LowRank, Problem, check_problem, low_rank

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: Number of pivots proposed at a time: small enough that their residual block is cheap, large enough for BLAS-3.
_BLOCK = 100


def rpcholesky(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Partial Cholesky factorization with pivots sampled in proportion to the diagonal of the residual.

    This is the accelerated algorithm with rejection sampling. A block of pivots is proposed from the residual diagonal
    at the start of the block. A proposal is accepted with probability d_new / d_old, the quotient of its current and
    its initial residual diagonal. The accepted pivots have the same distribution as pivots sampled one at a time. The
    result has fewer columns than requested when the residual falls to rounding level.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Largest number of pivots, given instead of ``memory``.
    rng : int, Generator or None
        Samples the pivots.

    Returns
    -------
    LowRank

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky: practical approximation of a
    kernel matrix with few entry evaluations", Communications on Pure and Applied Mathematics 78 (2025).
    E. N. Epperly, J. A. Tropp and R. J. Webber, "Embrace rejection: kernel matrix approximation by accelerated randomly
    pivoted Cholesky", arXiv 2410.03969 (2024).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import rpcholesky
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = rpcholesky(X, bb.Gaussian(2.0), rank=20, rng=0)
    >>> A.rank
    20
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.05
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="rpcholesky")
    with single_threaded():
        return low_rank("rpcholesky", _factor(problem), problem)


def _factor(problem: Problem, block: int = _BLOCK) -> FloatArray:
    """Return F of shape (n, r) with F Fᵀ = K[:, S] K[S, S]⁻¹ K[S, :] for the accepted pivots S.

    ``block`` is the number of pivots proposed at a time.
    """
    matrix, n, rank = problem.matrix, problem.n_points, problem.rank_limit
    diagonal = np.array(matrix.diagonal(slice(0, n)), dtype=np.float64)
    floor = n * np.finfo(np.float64).eps * diagonal.max()
    factor, count = np.empty((n, rank)), 0
    while count < rank and diagonal.max() > floor:
        found = factor[:, :count]
        proposed = problem.rng.choice(n, block, p=diagonal / diagonal.sum())
        residual = matrix.block(proposed, proposed) - found[proposed] @ found[proposed].T
        accepted, triangle = _accept(residual, diagonal[proposed], rank - count, floor, problem.rng)
        diagonal[proposed[np.diagonal(residual) <= floor]] = 0  # the residual of these points is at rounding level
        if not accepted.size:
            continue
        pivots = proposed[accepted]
        columns = matrix.block(slice(0, n), pivots) - found @ found[pivots].T
        more = linalg.solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        factor[:, count : count + len(pivots)] = more
        count += len(pivots)
        diagonal = np.maximum(diagonal - np.einsum("ij,ij->i", more, more), 0)
        diagonal[pivots] = 0
    return factor[:, :count]


def _accept(
    residual: FloatArray, initial: FloatArray, limit: int, floor: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return the indices of at most ``limit`` accepted proposals and the Cholesky factor of their residual block.

    A proposal is accepted with probability d_new / d_old. d_old, from ``initial``, is its residual diagonal before the
    block; d_new is its residual diagonal after the elimination of the proposals accepted before it.
    """
    residual = residual.copy()
    thresholds = rng.random(len(residual)) * initial
    triangle = np.zeros_like(residual)
    accepted: list[int] = []
    for i, threshold in enumerate(thresholds):
        if len(accepted) == limit:
            break
        if residual[i, i] > max(threshold, floor):
            column = residual[:, i] / np.sqrt(residual[i, i])
            residual -= np.outer(column, column)
            triangle[:, len(accepted)] = column
            accepted.append(i)
    chosen = np.array(accepted, dtype=np.intp)
    return chosen, np.tril(triangle[chosen, : len(chosen)])
