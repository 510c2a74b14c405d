"""Data structure of a data set, and standardization of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_points

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with their targets and a description.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    y : ndarray of shape (n,) or None
        Class or value of each point; None if the data set has no target.
    name : str
        Name of the data set.
    description : str
        Size, columns and their coding, and meaning of ``y``.
    source : str
        Origin of the data and their licence.

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
    """Scale every column to mean 0 and standard deviation 1, as in the paper.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.

    Returns
    -------
    ndarray of shape (n, d)
        New float64 array; constant columns are zero.

    Examples
    --------
    >>> from blockbasis.datasets import standardized
    >>> standardized([[1, 5], [3, 5]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    X = check_points(X, name="X", caller="standardized", dtype=np.float64)
    # Scaling by powers of two is exact, and prevents underflow and overflow of squares and sums.
    _, exponents = np.frexp(np.abs(X).max(axis=0))
    X = np.ldexp(X, -exponents)
    centred = X - X.mean(axis=0)
    # The mean is rounded, so that a constant column minus its mean would be rounding noise.
    constant = X.min(axis=0) == X.max(axis=0)
    centred[:, constant] = 0
    centred /= np.where(constant, 1, X.std(axis=0))
    return np.asarray(centred)
