"""Linear maps of points: division by one length for each column, and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Singular values below this share of the largest one are rounding, and dropped from a combined map.
_NEGLIGIBLE = 1e-14


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Linear map of points; two maps are equal if their arrays are equal.

    Parameters
    ----------
    array : ndarray of shape (m, d) or (d,)
        Matrix of the map, or diagonal of a diagonal matrix; read-only.
    """

    array: FloatArray

    def __post_init__(self) -> None:
        self.array.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearMap) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, (self.array + 0.0).tobytes()))  # -0.0 equals 0.0

    @property
    def n_inputs(self) -> int:
        """Number of columns of the points."""
        return int(self.array.shape[-1])

    @property
    def smallest(self) -> float:
        """Smallest factor by which the map changes a distance."""
        if self.array.ndim == 1:
            return float(np.abs(self.array).min())
        m, d = self.array.shape
        return float(np.linalg.svd(self.array, compute_uv=False)[-1]) if m >= d else 0.0

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the mapped points, computed in float64, in the dtype of ``X``."""
        double = X.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = double * self.array if self.array.ndim == 1 else double @ self.array.T
            largest = float(np.einsum("ij,ij->i", mapped, mapped).max(initial=0.0))
        if not 16 * largest <= float(np.finfo(X.dtype).max):
            raise ValueError(
                f"The metric of the kernel must map the points to squared distances that {X.dtype} can hold. "
                f"Got points of squared length {largest:.3g}."
            )
        return np.ascontiguousarray(mapped, dtype=X.dtype)

    def transposed(self, gradients: FloatArray) -> FloatArray:
        """Return gradients with respect to the points from those, of shape (n, m, t), for the mapped points."""
        if self.array.ndim == 1:
            return gradients * self.array[:, np.newaxis]
        return np.asarray(np.tensordot(gradients, self.array, axes=([1], [0])).transpose(0, 2, 1))

    def after(self, first: LinearMap | None) -> LinearMap:
        """Return the map that applies ``first`` and then this map; None stands for the identity."""
        if first is None:
            return self
        if self.array.ndim == 1:
            return LinearMap(self.array * first.array if first.array.ndim == 1 else self.array[:, None] * first.array)
        return LinearMap(self.array * first.array if first.array.ndim == 1 else self.array @ first.array)

    def reduced(self) -> LinearMap | None:
        """Return a map with the same distances and at most as many outputs as inputs; None for the identity."""
        if self.array.ndim == 1:
            return None if (self.array == 1).all() else self
        m, d = self.array.shape
        if m == d and np.array_equal(self.array, np.eye(d)):
            return None
        return LinearMap(np.asarray(np.linalg.qr(self.array, mode="r"))) if m > d else self


def combined(maps: list[LinearMap]) -> tuple[LinearMap, LinearMap]:
    """Return a map whose squared distances are the sums of those of all maps, and its pseudo-inverse."""
    if all(each.array.ndim == 1 for each in maps):
        root = np.sqrt(sum(each.array**2 for each in maps))
        return LinearMap(root), LinearMap(np.divide(1, root, out=np.zeros_like(root), where=root > 0))
    stacked = np.concatenate([np.diag(each.array) if each.array.ndim == 1 else each.array for each in maps])
    _, s, right = np.linalg.svd(stacked, full_matrices=False)
    kept = s > _NEGLIGIBLE * s[0]
    kept[0] = True
    return LinearMap(s[kept, np.newaxis] * right[kept]), LinearMap(right[kept].T / np.where(s[kept] > 0, s[kept], 1))
