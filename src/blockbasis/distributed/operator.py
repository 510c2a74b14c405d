"""Factorizations whose rows are on dask workers: products, direct solution, extension, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import cores
from blockbasis._utils.tiling import offsets
from blockbasis._utils.validation import check_points, check_positive
from blockbasis.distributed import parts as tasks
from blockbasis.distributed.client import accumulated, check_open, finished, gathered, sent, submitted, summed
from blockbasis.distributed.rows import DaskRows
from blockbasis.solvers.iterative import Solution
from blockbasis.streaming.factorization import orthonormal

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.operators.error_estimate import ErrorEstimate
    from blockbasis.streaming.functions import BasisFunctions

#: Relative residual of a direct solution that counts as solved.
_SOLVED = 1e-6
#: Rows of new points in memory that are sent to a worker at once.
_NEW_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class Parts:
    """Basis functions at points that workers hold.

    Parameters
    ----------
    client : distributed.Client
    futures : list of futures of Part
    lengths : ndarray of ints
        Points of each part.
    functions : BasisFunctions
    remote : future of BasisFunctions
        On the workers, with the diagonal blocks of C alone.
    dtype : dtype
    """

    client: Any
    futures: list[Any]
    lengths: Any
    functions: BasisFunctions
    remote: Any
    dtype: np.dtype[Any]

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(np.sum(self.lengths))

    def blocks(self, V: Any) -> list[Any]:
        """Return the blocks of a vector or matrix that belong to the parts: futures for a dask array."""
        if V.ndim not in (1, 2) or V.shape[0] != self.n_points:
            raise ValueError(f"A vector for this operator must have {self.n_points} rows. Got shape {V.shape} instead.")
        if not isinstance(V, da.Array):
            starts = offsets(self.lengths)
            own = [np.ascontiguousarray(V[starts[i] : starts[i + 1]]) for i in range(len(self.futures))]
            return [dask.delayed(block, traverse=False) for block in own]
        V = V.rechunk({0: tuple(self.lengths.tolist()), **({1: -1} if V.ndim == 2 else {})})
        return list(self.client.compute(V.to_delayed().ravel().tolist()))

    def mapped(self, stage: str, function: Any, *arguments: Any) -> list[Any]:
        """Return the futures of ``function(part, *arguments)``; lists have an argument for each part."""
        columns = [each if isinstance(each, list) else [each] * len(self.futures) for each in arguments]
        return submitted(self.client, stage, function, self.futures, *columns, near=self.futures)

    def project(self, blocks: list[Any]) -> FloatArray:
        """Return Uᵀ V."""
        return np.asarray(summed(self.client, "sum", tasks.added, self.mapped("project", tasks.projected, blocks)))

    def collected(self, V: Any, futures: list[Any], dtype: npt.DTypeLike) -> Any:
        """Return blocks of rows as an array of the kind of ``V``: in memory, or on the workers."""
        if not isinstance(V, da.Array):
            return np.concatenate(gathered(self.client, futures))
        finished(self.client, futures)
        shapes = [(length, *V.shape[1:]) for length in self.lengths.tolist()]
        arrays = [
            da.from_delayed(dask.delayed(future), shape, dtype) for future, shape in zip(futures, shapes, strict=True)
        ]
        return da.concatenate(arrays)


@dataclass(frozen=True, eq=False, repr=False)
class DistributedBlockBasis:
    """Factorization K ~ U C Uᵀ + D of a kernel matrix, whose rows are on dask workers.

    `blockbasis.distributed.factorize` returns it. A vector is a NumPy array, or a dask array of n rows; the result is
    of the same kind.

    Parameters
    ----------
    parts : Parts
        U, which is not orthonormal here.
    diagonal : bool
        Whether D makes the diagonal exact.
    error_estimate : ErrorEstimate
        Relative Frobenius error, estimated from entries between rows that did not determine the functions.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from distributed import Client
    >>> from blockbasis.distributed import factorize
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     A = factorize(da.from_array(X, chunks=(500, 2)), bb.Gaussian(2.0), n_clusters=4, rank=20, rng=0)
    ...     x = A.solve(X[:, 0], ridge=0.1).x
    ...     left = A @ x + 0.1 * x - X[:, 0]
    >>> bool(np.abs(left).max() < 1e-10)
    True
    """

    parts: Parts
    diagonal: bool
    error_estimate: ErrorEstimate

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.parts.n_points, self.parts.n_points

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of U."""
        return self.parts.dtype

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.parts.functions.n_clusters

    @property
    def ranks(self) -> Any:
        """Number of basis functions of each cluster."""
        return self.parts.functions.ranks

    def __repr__(self) -> str:
        n, workers = self.shape[0], len(self.parts.futures)
        return f"DistributedBlockBasis({n} x {n}, {self.n_clusters} clusters, {workers} parts, {self.dtype})"

    @property
    def _noise(self) -> float:
        return float(self.parts.functions.kernel.noise)

    def _diagonals(self, ridge: float) -> list[Any]:
        """Return the futures of D plus a ridge."""
        return self.parts.mapped("diagonal", tasks.diagonal_of_part, self.diagonal, self._noise + ridge)

    @cached_property
    def _own_diagonals(self) -> list[Any]:
        has_diagonal = self.diagonal or self._noise > 0
        return self._diagonals(0.0) if has_diagonal else [None] * len(self.parts.futures)

    def __matmul__(self, V: Any) -> Any:
        V = V if isinstance(V, da.Array) else np.asarray(V)
        blocks = self.parts.blocks(V)
        return self.parts.collected(V, self._product(blocks), self.dtype)

    def _product(self, blocks: list[Any]) -> list[Any]:
        W = self.parts.functions.inner @ self.parts.project(blocks)
        remote = sent(self.parts.client, "inner", W)
        return self.parts.mapped("expand", tasks.expanded, remote, self._own_diagonals, blocks)

    def solve(self, b: Any, ridge: float) -> Solution:
        """Solve (A + ridge I) x = b directly.

        Parameters
        ----------
        b : array or dask array of shape (n,) or (n, m)
        ridge : float
            Positive.

        Returns
        -------
        Solution
            ``x`` is of the kind of ``b``; ``residual`` is computed from it.

        Notes
        -----
        With D' = D + ridge, x = D'⁻¹ (b - U w), where w is the ridge regression of b with weights D'⁻¹. Each worker
        computes Gram matrices of its points; the sum of these, and a system of the size of C, are all that follows.
        """
        ridge = check_positive(ridge, name="ridge", caller="solve")
        b, parts = b if isinstance(b, da.Array) else np.asarray(b, dtype=np.float64), self.parts
        blocks, diagonals = parts.blocks(b), self._diagonals(ridge)
        columns = parts.futures, diagonals, blocks
        sums = accumulated(parts.client, "gram", tasks.solution_sums, tasks.added, *columns, near=parts.futures)
        n_targets = len(sums.targets)
        w = np.concatenate(sums.solve(parts.functions.inner, np.ones(n_targets), np.zeros(n_targets)))
        remote = sent(parts.client, "inner", w)
        solved = parts.mapped("solve", tasks.solved_part, remote, diagonals, blocks)
        residual = self._residual(blocks, solved, ridge)
        message = "Solved directly." if residual <= _SOLVED else "The residual is large: take a larger ridge."
        x = parts.collected(b, solved, np.float64)
        return Solution(x, residual, 0, residual <= _SOLVED, message, np.array([residual]))

    def _residual(self, blocks: list[Any], solved: list[Any], ridge: float) -> float:
        """Return |b - (A + ridge I) x| / |b|, the largest one of the columns."""
        client = self.parts.client
        products = submitted(
            client, "expand", _plus_ridge, self._product(solved), solved, [ridge] * len(solved), near=solved
        )
        squares = submitted(client, "residual", tasks.squared_residuals, blocks, products, near=products)
        errors, norms = summed(client, "sum", tasks.added, squares)
        return float(np.sqrt(np.max(np.divide(errors, norms, out=np.zeros_like(errors), where=norms > 0))))

    def extend(self, X_new: Any) -> DistributedCrossBasis:
        """Return an operator for K(X_new, X) between new points and the factorized points, without white noise.

        Parameters
        ----------
        X_new : array or dask array of shape (m, d)

        Returns
        -------
        DistributedCrossBasis
        """
        parts = self.parts
        n_features = parts.functions.kernel.n_features or parts.functions.centers.shape[1]
        if not hasattr(X_new, "to_delayed"):
            X_new = check_points(X_new, name="X_new", caller="extend", n_features=n_features)
            X_new = da.from_array(X_new, chunks=(_NEW_ROWS, -1))
        rows = DaskRows(X_new, parts.client, name="X_new", caller="extend")
        if rows.shape[1] != n_features:
            raise ValueError(
                f"The 'X_new' parameter of extend must have {n_features} columns. Got shape {rows.shape} instead."
            )
        return DistributedCrossBasis(evaluated_parts(rows, parts.functions, parts.remote, parts.dtype), parts)

    def to_local(self) -> BlockBasis:
        """Return the factorization in the memory of this process, with an orthonormal U."""
        part, functions = tasks.merged(gathered(self.parts.client, self.parts.futures)), self.parts.functions
        A = orthonormal(functions, part.basis, part.lost if self.diagonal else None, cores())
        return replace(A, error_estimate=self.error_estimate)

    def save(self, path: Any) -> None:
        """Write the factorization to a directory that all workers share: see `blockbasis.distributed.load`."""
        from blockbasis.distributed.storage import save

        save(self, path)


@dataclass(frozen=True, eq=False, repr=False)
class DistributedCrossBasis:
    """Kernel matrix K(X_new, X) ~ V C Uᵀ between new points and factorized ones: see `DistributedBlockBasis.extend`.

    Parameters
    ----------
    rows, columns : Parts
        V and U.
    """

    rows: Parts
    columns: Parts

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.rows.n_points, self.columns.n_points

    def __repr__(self) -> str:
        return f"DistributedCrossBasis({self.shape[0]} x {self.shape[1]}, {self.columns.dtype})"

    def __matmul__(self, V: Any) -> Any:
        V = V if isinstance(V, da.Array) else np.asarray(V)
        W = self.columns.functions.inner @ self.columns.project(self.columns.blocks(V))
        remote, like = sent(self.rows.client, "inner", W), np.empty((0,) * V.ndim)
        found = self.rows.mapped("expand", tasks.expanded, remote, None, like)
        return self.rows.collected(V, found, self.rows.dtype)


def evaluated_parts(rows: DaskRows, functions: BasisFunctions, remote: Any, dtype: np.dtype[Any]) -> Parts:
    """Evaluate the functions at all points, where the points are."""
    check_open(rows.client)
    same: list[list[Any]] = [[each] * len(rows.blocks) for each in (remote, dtype)]
    futures = submitted(
        rows.client, "evaluate", tasks.evaluated_part, rows.blocks, *same, rows.places, near=rows.blocks
    )
    finished(rows.client, futures)
    return Parts(rows.client, futures, rows.lengths, functions, remote, dtype)


def _plus_ridge(product: FloatArray, x: FloatArray, ridge: float) -> FloatArray:
    return product + ridge * x
