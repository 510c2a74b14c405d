"""Checks of points, and of the rows of a table: dropped columns, duplicates, and columns that reveal the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.tables.fitting import Prepared

#: Rows of the sample with which each column is tried alone.
_ROWS = 2_000
#: A column whose share of the explained variance, or of correct classes beyond the largest class, is above this is
#: suspected to reveal the target.
_LEAK = 0.98
_DEPTH = 6
_FOLDS = 3


def check_data(prepared: Prepared) -> list[str]:
    """Check encoded rows, and return one sentence for each finding.

    Parameters
    ----------
    prepared : Prepared
        Rows of a table, as `prepare_table` returns them.

    Returns
    -------
    list of str
        Findings: columns that are not used, repeated rows, and columns that alone explain the target.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, check_data, prepare_table
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> table = Table(("a", "b", "y"), (x[:, 0], x[:, 1], 3 * x[:, 1]))
    >>> check_data(prepare_table(table, "y"))
    ["The column 'b' alone explains 100% of the target: it may hold the answer, which new rows will not have."]
    """
    findings = [f"Not used: {column.name}, {column.reason}." for column in prepared.encoder.columns if column.reason]
    repeated = len(prepared.X) - len(np.unique(prepared.X, axis=0))
    if repeated:
        findings.append(f"{repeated} of {len(prepared.X)} training rows repeat the columns of another row.")
    rows = np.random.default_rng(0).permutation(len(prepared.X))[:_ROWS]
    if len(rows) < 10 * _FOLDS:
        return findings
    for name, column in zip(prepared.encoder.outputs, prepared.X.T, strict=True):
        share = _explained(column[rows, np.newaxis], prepared.y[rows], prepared.task)
        if share > _LEAK:
            findings.append(
                f"The column {name!r} alone explains {share:.0%} of the target: it may hold the answer, which new "
                "rows will not have."
            )
    return findings


def check_points(X: FloatArray) -> list[str]:
    """Check the points of a factorization, and return one sentence for each finding.

    Parameters
    ----------
    X : ndarray of shape (n, d)

    Returns
    -------
    list of str
        Findings: constant columns, and repeated points.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import check_points
    >>> check_points(np.array([[1.0, 5.0], [2.0, 5.0], [1.0, 5.0]]))
    ['Column 1 is constant: it makes no difference.', '1 of 3 points repeats another.']
    """
    constant = np.flatnonzero(np.ptp(X, axis=0) == 0)
    findings = [f"Column {j} is constant: it makes no difference." for j in constant.tolist()]
    repeated = len(X) - len(np.unique(X, axis=0))
    if repeated:
        findings.append(f"{repeated} of {len(X)} points {'repeats' if repeated == 1 else 'repeat'} another.")
    return findings


def _explained(x: FloatArray, y: FloatArray, task: str) -> float:
    """Return the share of the target that a small tree of one column explains, cross-validated."""
    if (x == x[0]).all():
        return 0.0
    if task == "regression":
        tree = DecisionTreeRegressor(max_depth=3 * _DEPTH, min_samples_leaf=2, random_state=0)
        y = rankdata(y)  # so that a few large targets do not decide
        left = np.mean((cross_val_predict(tree, x, y, cv=_FOLDS) - y) ** 2) / max(float(np.var(y)), 1e-300)
        return float(1 - left)
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < _FOLDS:
        return 0.0
    guesses = cross_val_predict(DecisionTreeClassifier(max_depth=_DEPTH, random_state=0), x, y, cv=_FOLDS)
    largest = counts.max() / len(y)
    return float((np.mean(guesses == y) - largest) / (1 - largest))
