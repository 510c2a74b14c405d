"""Randomly pivoted Cholesky factorization, in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis.baselines.protocol import LowRank, Problem, check_problem, low_rank

#: Pivots proposed at a time: few enough that their residual block costs little, many enough for matrix products.
_BLOCK = 100


def rpcholesky(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Partial Cholesky factorization whose pivots are drawn in proportion to the residual's diagonal.

    In its accelerated form: pivots are proposed a block at a time, from the diagonal at the beginning of the block, and
    accepted one by one with the probability that the diagonal has fallen to. What is accepted has the distribution of
    pivots drawn one at a time. Fewer columns than asked for come back when they leave nothing but rounding.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB"; the rank is what ``memory // n`` allows.
    rank : int, default=None
        Instead of ``memory``.
    rng : int, Generator or None

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
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.05
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="rpcholesky")
    with single_threaded():
        return low_rank("rpcholesky", _factor(problem), problem)


def _factor(problem: Problem) -> FloatArray:
    matrix, n, rank = problem.matrix, problem.n_points, problem.low_rank
    left = np.array(matrix.diagonal(slice(0, n)), dtype=np.float64)
    floor = n * np.finfo(np.float64).eps * left.max()
    factor, count = np.empty((n, rank)), 0
    while count < rank and left.max() > floor:
        found = factor[:, :count]
        proposed = problem.rng.choice(n, _BLOCK, p=left / left.sum())
        residual = matrix.block(proposed, proposed) - found[proposed] @ found[proposed].T
        accepted, triangle = _accept(residual, left[proposed], rank - count, floor, problem.rng)
        left[proposed[np.diagonal(residual) <= floor]] = 0  # what is left of them is rounding
        if not accepted.size:
            continue
        pivots = proposed[accepted]
        columns = matrix.block(slice(0, n), pivots) - found @ found[pivots].T
        more = linalg.solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        factor[:, count : count + len(pivots)] = more
        count += len(pivots)
        left = np.maximum(left - np.einsum("ij,ij->i", more, more), 0)
        left[pivots] = 0
    return factor[:, :count]


def _accept(
    residual: FloatArray, proposed_with: FloatArray, limit: int, floor: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Proposals accepted, at most ``limit``, and the Cholesky factor of their residual block.

    Each is accepted with the quotient of its residual diagonal, after those accepted before it, and the one it was
    proposed with.
    """
    residual = residual.copy()
    thresholds = rng.random(len(residual)) * proposed_with
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
