"""SciPy's contract of a linear operator, over one method."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from blockbasis._typing import FloatArray


class Product(LinearOperator):
    """SciPy's contract over one method: ``_apply(V)`` for real V of shape (columns, m) and of the operator's dtype."""

    @abstractmethod
    def _apply(self, V: FloatArray) -> FloatArray:
        """The product."""

    def _initialize(self, dtype: Any, shape: tuple[int, int]) -> None:
        """Call SciPy's constructor for a frozen dataclass, which does not let it set attributes.

        What the constructor sets differs from one version of SciPy to the next: another operator takes it over.
        """
        self.__dict__.update(_Blank(dtype, shape).__dict__)

    def __getstate__(self) -> dict[str, Any]:
        # SciPy keeps the module of the arrays, which cannot be pickled, and sets it again on what may be frozen.
        return {name: value for name, value in self.__dict__.items() if name != "_xp"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._initialize(state["dtype"], state["shape"])
        self.__dict__.update(state)

    def _matmat(self, V: Any) -> FloatArray:
        V = np.asarray(V)
        if V.ndim > 2:  # a batch of matrices, which SciPy 1.18 passes on
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
        """The approximation as an array: for small matrices and for tests."""
        return self._apply(np.eye(self.shape[1], dtype=self.dtype))


class _Blank(Product):
    """An operator of which only the attributes that SciPy sets are used."""

    def _apply(self, V: FloatArray) -> FloatArray:
        raise NotImplementedError
