"""Parts of a distributed basis: what a worker holds of its points, and the functions that run where the points are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import single_threaded
from blockbasis.distributed.rows import BlockRows
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.streaming.factorization import evaluated
from blockbasis.streaming.functions import BasisFunctions, ClusterValues

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Part:
    """Basis functions at the points of one block.

    Parameters
    ----------
    basis : BlockDiagonal
        Functions at the points. Unlike that of a `BlockBasis`, it is not orthonormal.
    lost : ndarray of shape (m,)
        Variances k(x, x) - u(x)ᵀ C u(x).
    """

    basis: BlockDiagonal
    lost: FloatArray

    def values(self) -> Iterator[ClusterValues]:
        """Yield the functions cluster by cluster."""
        partition = self.basis.partition
        for i in np.flatnonzero(partition.sizes).tolist():
            rows = partition.order[partition.starts[i] : partition.starts[i + 1]]
            U = self.basis.block(i).astype(np.float64, copy=False)
            yield ClusterValues(i, rows, U, self.lost[rows], np.zeros(len(rows), dtype=bool))


def evaluated_part(block: Any, functions: BasisFunctions, dtype: npt.DTypeLike, place: str) -> Part:
    """Evaluate the functions at the points of a block."""
    with single_threaded():
        basis, lost = evaluated(functions, BlockRows(block, place), dtype, None, 1)
        return Part(basis.freeze(), lost)


def projected(part: Part, V: Any) -> FloatArray:
    """Return Uᵀ V of the points of a part."""
    with single_threaded():
        return part.basis.project(_columns(V, part))


def expanded(part: Part, W: FloatArray, diagonal: FloatArray | None, V: Any) -> FloatArray:
    """Return U W, or U W + D V, in the shape of V."""
    with single_threaded():
        values = part.basis.expand(W.astype(part.basis.dtype, copy=False))
        if diagonal is not None:
            values += diagonal[:, np.newaxis] * _columns(V, part)
    return values[:, 0] if np.ndim(V) == 1 else values


def solution_sums(part: Part, diagonal: FloatArray, b: Any) -> RidgeSums:
    """Return the sums that the solution of (U C Uᵀ + diagonal) x = b needs."""
    return RidgeSums.of_values(part.basis.ranks, part.values(), _columns(b, part).astype(np.float64), 1 / diagonal)


def solved_part(part: Part, w: FloatArray, diagonal: FloatArray, b: Any) -> FloatArray:
    """Return x = (b - U w) / diagonal, in the shape of b."""
    with single_threaded():
        values = part.basis.expand(w.astype(part.basis.dtype, copy=False))
        values = (_columns(b, part) - values) / diagonal[:, np.newaxis]
    return np.asarray(values[:, 0] if np.ndim(b) == 1 else values)


def squared_residuals(b: Any, product: Any) -> FloatArray:
    """Return the squared norms of b - product and of b, column by column."""
    b, product = (np.asarray(each, dtype=np.float64).reshape(len(each), -1) for each in (b, product))
    return np.stack([((b - product) ** 2).sum(axis=0), (b**2).sum(axis=0)])


def diagonal_of_part(part: Part, held: bool, noise: float) -> FloatArray:
    """Return D and a number: the variances that the functions lose, if D holds them, and ``noise``."""
    return np.asarray(part.lost + noise if held else np.full(len(part.lost), noise))


def added(parts: list[Any]) -> Any:
    """Return the sum of arrays or of `RidgeSums`."""
    total = parts[0]
    for each in parts[1:]:
        total = total.plus(each) if isinstance(total, RidgeSums) else total + each
    return total


def merged(parts: list[Part]) -> Part:
    """Return one part with the points of all parts, in their order."""
    starts = np.cumsum([0, *(len(part.lost) for part in parts)])
    first = parts[0].basis
    k = first.partition.n_clusters
    order = [
        part.basis.partition.order[part.basis.partition.cluster(i)] + start
        for i in range(k)
        for part, start in zip(parts, starts[:-1], strict=True)
    ]
    sizes = sum(part.basis.partition.sizes for part in parts)
    radii = np.max([part.basis.partition.radii for part in parts], axis=0)
    partition = replace(
        first.partition,
        order=np.concatenate(order),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp),
        radii=radii,
    )
    basis = BlockDiagonal.empty(partition, first.ranks, first.dtype)
    for i in range(k):
        np.concatenate([part.basis.block(i) for part in parts], out=basis.block(i))
    return Part(basis, np.concatenate([part.lost for part in parts]))


def _columns(V: Any, part: Part) -> FloatArray:
    block: FloatArray = np.asarray(V)
    if len(block) != len(part.lost):
        raise ValueError(f"A block of a vector must have {len(part.lost)} rows. Got {len(block)} instead.")
    return block.reshape(len(block), -1)
