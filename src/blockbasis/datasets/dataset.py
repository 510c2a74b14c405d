"""What a data set is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_points


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with what is known of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or None
        A class or a value for each point; None where there is none.
    name : str
    description : str
        Size, columns, how they are coded, what y is.
    source : str
        Where the data come from, and their licence.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.datasets import Dataset
    >>> Dataset(np.zeros((3, 2)), None, "zeros", "Three points of two zeros.", "numpy")
    Dataset(zeros: 3 x 2)
    """

    X: FloatArray
    y: FloatArray | None
    name: str
    description: str
    source: str

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Dataset({self.name}: {n} x {d}" + (")" if self.y is None else ", y)")


def standardized(X: Any) -> FloatArray:
    """Points with every column to mean 0 and standard deviation 1, as the paper has them.

    Parameters
    ----------
    X : array-like of shape (n, d)

    Returns
    -------
    ndarray of shape (n, d)
        A new float64 array; constant columns are zero.

    Examples
    --------
    >>> from blockbasis.datasets import standardized
    >>> standardized([[1, 5], [3, 5]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    X = check_points(X, name="X", caller="standardized", dtype=np.float64)
    # By a power of two, which changes no digit: squares of tiny numbers would vanish, and sums of huge ones overflow.
    _, exponents = np.frexp(np.abs(X).max(axis=0))
    X = np.ldexp(X, -exponents)
    centred = X - X.mean(axis=0)
    # A mean is rounded: what is left of a constant column, and its standard deviation, would be rounding.
    constant = X.min(axis=0) == X.max(axis=0)
    centred[:, constant] = 0
    centred /= np.where(constant, 1, X.std(axis=0))
    return np.asarray(centred)
