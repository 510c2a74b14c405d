"""SciPy's contract of a linear operator, over one method."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from blockbasis._utils import machine

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Dense matrices of a product with the identity: the identity, the result, and the work of the product.
_PRODUCT_COPIES = 3


class RealOperator(LinearOperator):
    """Base class of the operators: SciPy's `LinearOperator` with a single abstract method, ``_apply``.

    ``_apply(V)`` returns the product with a real matrix V of shape (n_columns, m) and of the operator's dtype. The base
    class supports vectors, complex arrays and batches of matrices by calls of ``_apply``.
    """

    @abstractmethod
    def _apply(self, V: FloatArray) -> FloatArray:
        """Return the product with V."""

    def _initialize(self, dtype: Any, shape: tuple[int, int]) -> None:
        """Set the attributes that SciPy's constructor sets, for a subclass that is a frozen dataclass.

        SciPy's constructor cannot set attributes of a frozen dataclass, and its attributes depend on the version of
        SciPy. The attributes are therefore copied from an operator that SciPy's constructor has initialized.
        """
        self.__dict__.update(_InitializedOperator(dtype, shape).__dict__)

    def __getstate__(self) -> dict[str, Any]:
        # SciPy stores the array module in _xp, which cannot be pickled; __setstate__ initializes _xp again.
        return {name: value for name, value in self.__dict__.items() if name != "_xp"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._initialize(state["dtype"], state["shape"])
        self.__dict__.update(state)

    def _matmat(self, V: Any) -> FloatArray:
        V = np.asarray(V)
        if V.ndim > 2:  # a batch of matrices, which SciPy 1.18 passes unchanged
            columns = np.moveaxis(V, -2, 0)
            product = self._matmat(columns.reshape(len(columns), -1))
            return np.moveaxis(product.reshape(-1, *columns.shape[1:]), 0, -2)
        if np.iscomplexobj(V):
            return self._matmat(V.real) + 1j * self._matmat(V.imag)
        if V.dtype.kind == "f" and V.dtype.itemsize > self.dtype.itemsize:
            self._check_scale(V)
        return self._apply(np.asarray(V, dtype=self.dtype))

    def _check_scale(self, V: FloatArray) -> None:
        """Refuse columns that would overflow or vanish in the precision of the operator."""
        sizes = np.maximum(V.max(axis=0, initial=0.0), -V.min(axis=0, initial=0.0))
        low, high = float(np.finfo(self.dtype).tiny), float(np.finfo(self.dtype).max)
        lost = np.isfinite(sizes) & (sizes > 0) & ((sizes < low) | (sizes > high))
        if lost.any():
            raise ValueError(
                f"A vector that an operator of {self.dtype} is applied to must have a largest entry between {low:.2g} "
                f"and {high:.2g}. Got {sizes[lost][0]:.3g} instead: scale it, or give dtype=float64 to the operator."
            )

    def _matvec(self, v: Any) -> FloatArray:
        v = np.asarray(v)
        if v.ndim == 1 or v.shape == (self.shape[1], 1):
            return self._matmat(v.reshape(-1, 1))[:, 0]
        return self._matmat(v[..., np.newaxis])[..., 0]  # a batch of vectors

    def todense(self) -> FloatArray:
        """Return the matrix as an array, which takes O(n²) memory."""
        require_dense(self.shape, self.dtype, _PRODUCT_COPIES)
        return self._apply(np.eye(self.shape[1], dtype=self.dtype))


def require_dense(shape: tuple[int, int], dtype: np.dtype[Any], copies: int = 1) -> None:
    """Raise a MemoryError where dense matrices of this shape do not fit into memory."""
    needed = copies * dtype.itemsize * shape[0] * shape[1]
    machine.require_memory(needed, "products, which need no dense matrix", what="dense matrix")


class _InitializedOperator(RealOperator):
    """Operator without a product, from which `RealOperator._initialize` copies SciPy's attributes."""

    def _apply(self, V: FloatArray) -> FloatArray:
        raise NotImplementedError


#: Former name of `RealOperator`, which remains importable from `blockbasis.operator` and `blockbasis.operators`.
Product = RealOperator
