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

    def _matmat(self, V: Any) -> FloatArray:
        V = np.asarray(V)
        if np.iscomplexobj(V):
            return self._matmat(V.real) + 1j * self._matmat(V.imag)
        return self._apply(np.asarray(V, dtype=self.dtype))

    def _matvec(self, v: Any) -> FloatArray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def todense(self) -> FloatArray:
        """The approximation as an array: for small matrices and for tests."""
        return self._apply(np.eye(self.shape[1], dtype=self.dtype))


class _Blank(Product):
    """An operator of which only the attributes that SciPy sets are used."""

    def _apply(self, V: FloatArray) -> FloatArray:
        raise NotImplementedError
