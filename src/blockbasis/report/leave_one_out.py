"""Leave-one-out scores of a small kernel ridge regression over bandwidths and ridges, for a picture of the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from blockbasis.kernels import Gaussian

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Largest number of rows, and candidates: bandwidths as multiples of the root of the number of columns, and ridges.
ROWS = 500
_BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_RIDGES = tuple(4.0**k for k in range(-8, 3))
#: What the scores are.
MEASURES = {"regression": "R²", "classification": "accuracy"}


def search_scores(X: FloatArray, y: npt.NDArray[Any], task: str, *, most_rows: int = ROWS) -> dict[str, list[float]]:
    """Return leave-one-out scores of an exact Gaussian kernel ridge regression of some rows.

    One eigendecomposition for each bandwidth serves all ridges. The leave-one-out residual of row i is that of the
    coefficients, a_i / [(K + ridge I)^-1]_ii.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, of which up to ``most_rows`` are used; the columns are standardized.
    y : ndarray of shape (n,)
        Targets or classes.
    task : {"regression", "classification"}
    most_rows : int, default=500

    Returns
    -------
    dict
        ``param_bandwidth``, ``param_alpha`` and ``mean_test_score``: R², or the share of correct classes.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.report.leave_one_out import search_scores
    >>> x = np.linspace(0, 6, 80)[:, np.newaxis]
    >>> max(search_scores(x, np.sin(x[:, 0]), "regression")["mean_test_score"]) > 0.99
    True
    """
    rows = np.random.default_rng(0).permutation(len(X))[:most_rows]
    points = StandardScaler().fit_transform(X[rows])
    targets, labels = _targets(y[rows], task)
    found: dict[str, list[float]] = {"param_bandwidth": [], "param_alpha": [], "mean_test_score": []}
    with threadpool_limits(1):  # the matrices are small
        for bandwidth in np.sqrt(X.shape[1]) * np.asarray(_BANDWIDTHS):
            values, vectors = eigh(Gaussian(float(bandwidth))(points))
            turned = vectors.T @ targets
            for ridge in _RIDGES:
                weights = 1 / (np.maximum(values, 0) + ridge)
                inverse = (vectors**2) @ weights
                left_out = (vectors @ (weights[:, np.newaxis] * turned)) / inverse[:, np.newaxis]
                found["param_bandwidth"].append(float(bandwidth))
                found["param_alpha"].append(ridge)
                found["mean_test_score"].append(_score(targets, left_out, labels))
    return found


def _targets(y: npt.NDArray[Any], task: str) -> tuple[FloatArray, npt.NDArray[Any] | None]:
    """Return centred targets, a column for each class, and the numbers of the classes."""
    if task == "regression":
        return (y - y.mean())[:, np.newaxis], None
    classes, labels = np.unique(y, return_inverse=True)
    hot = np.where(labels[:, np.newaxis] == np.arange(len(classes)), 1.0, -1.0)
    return hot, labels


def _score(targets: FloatArray, left_out: FloatArray, labels: npt.NDArray[Any] | None) -> float:
    if labels is None:
        return float(1 - np.mean(left_out**2) / max(float(np.var(targets)), np.finfo(float).tiny))
    return float(np.mean((targets - left_out).argmax(axis=1) == labels))
