"""Fit a model to a table: choose the task, split off test rows, encode, fit, and compare with simple models."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from blockbasis.estimators.ridge_cv import KernelRidgeClassifierCV, KernelRidgeCV
from blockbasis.tables.encoding import TableEncoder, encode, learn_encoder
from blockbasis.tables.hints import class_hints, column_hints
from blockbasis.tables.model import TableModel
from blockbasis.tables.scorecard import (
    LINEAR,
    MAJORITY,
    MEAN,
    OURS,
    Scorecard,
    classification_scorecard,
    regression_scorecard,
)
from blockbasis.tables.sources import as_table
from blockbasis.tables.table import Column, Table, missing

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Smallest number of rows with a target.
MIN_ROWS = 10
#: Smallest number of rows of a fit.
_FEWEST = 2
#: Largest number of classes, as a share of the rows.
_CLASSES = 0.5
_RIDGES = np.geomspace(1e-3, 1e5, 17)
#: Iterations of the logistic regression, the linear model of a classification.
_ITERATIONS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """Training and test rows of a table as numbers, as `prepare_table` returns them.

    Parameters
    ----------
    task : {"regression", "classification"}
    target : str
        Name of the target.
    encoder : TableEncoder
        Learned from the training rows.
    X, y : ndarray
        Encoded training rows and their targets.
    X_test, y_test : ndarray
        Encoded test rows and their targets; empty without test rows.
    notes : list of str
        What was done with the rows and the target, one line each.
    """

    task: str
    target: str
    encoder: TableEncoder
    X: FloatArray
    y: npt.NDArray[Any]
    X_test: FloatArray
    y_test: npt.NDArray[Any]
    notes: list[str]

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Prepared({self.task} of {self.target}, {n} training rows, {len(self.y_test)} test rows, {d} columns)"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Predictions at the test rows, from which a report is made.

    Parameters
    ----------
    prepared : Prepared
    predictions : dict of str to ndarray
        Predictions of each model at the test rows; empty without test rows.
    probabilities : ndarray of shape (n_test, n_classes) or None
        Probabilities of the classes at the test rows.
    """

    prepared: Prepared
    predictions: dict[str, npt.NDArray[Any]]
    probabilities: FloatArray | None

    def __repr__(self) -> str:
        models = ": " + ", ".join(self.predictions) if self.predictions else ""
        return f"Evaluation({len(self.prepared.y_test)} test rows{models})"


def fit_table(
    table: Any,
    target: str,
    *,
    task: str | None = None,
    kinds: Mapping[str, str] | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    **parameters: Any,
) -> tuple[TableModel, Evaluation]:
    """Fit a model to a table and compare it with simple models at rows that the fit has not seen.

    Parameters
    ----------
    table : str, path-like, pandas.DataFrame or Table
        Path of a file for `read_table`, or a data frame or a table, with the target.
    target : str
        Name or number of the column of the target. Rows without a target are left out.
    task : {"regression", "classification"}, default=None
        None is classification for text and for two different values, and regression for other numbers.
    kinds : mapping of str to str, default=None
        As in `learn_encoder`.
    test_size : float, default=0.2
        Share of the rows that are used for the test only. With 0 there is no test.
    seed : int, default=0
        Seed of the split and of the fit.
    **parameters
        Parameters of `KernelRidgeCV` or `KernelRidgeClassifierCV`, such as ``time_budget`` and ``n_jobs``.

    Returns
    -------
    model : TableModel
        Fitted to the training rows.
    evaluation : Evaluation

    Raises
    ------
    ValueError
        If the table has fewer than ten rows with a target, or the target has one value only.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, fit_table
    >>> x = np.linspace(0, 6, 200)
    >>> model, evaluation = fit_table(Table(("x", "y"), (x, np.sin(x))), "y", seed=0)
    >>> evaluation
    Evaluation(40 test rows: kernel model, linear model, mean)
    """
    table = as_table(table, kinds=kinds, caller="fit_table")
    prepared = prepare_table(table, target, task=task, kinds=kinds, test_size=test_size, seed=seed)
    return fit_prepared(prepared, random_state=seed, **parameters)


def prepare_table(
    table: Table,
    target: str,
    *,
    task: str | None = None,
    kinds: Mapping[str, str] | None = None,
    test_size: float = 0.2,
    seed: int = 0,
) -> Prepared:
    """Choose the task, split off test rows and encode the columns; parameters as in `fit_table`."""
    place = table.place(target)
    target, whole = table.names[place], table.columns[place]
    if len(table.names) == 1:
        raise ValueError(f"{table.source} must have a column beside the target {target!r}.")
    known = ~missing(whole)
    notes = [] if known.all() else [f"{target}: {(~known).sum()} rows without a value are left out"]
    rows = table.without(target).rows(known)
    task, y = _targets(whole[known], task, target, table, notes)
    train, test = _split(y, task, test_size, seed)
    notes += [] if task == "regression" else class_hints(y)
    notes += column_hints(rows, kinds or {})
    encoder = learn_encoder(rows.rows(train), kinds=kinds)
    X, _ = encode(encoder, rows.rows(train))
    X_test = encode(encoder, rows.rows(test))[0] if len(test) else np.empty((0, X.shape[1]))
    return Prepared(task, target, encoder, X, y[train], X_test, y[test], notes)


def fit_prepared(prepared: Prepared, **parameters: Any) -> tuple[TableModel, Evaluation]:
    """Fit a model to encoded rows; parameters are those of `KernelRidgeCV`."""
    start = time.perf_counter()
    estimator = (KernelRidgeCV if prepared.task == "regression" else KernelRidgeClassifierCV)(**parameters)
    estimator.fit(prepared.X, prepared.y)
    seconds = time.perf_counter() - start
    fitted_rows = getattr(estimator, "_fitted_rows", len(prepared.X))  # a short time budget leaves some rows out
    card, predictions, probabilities = _evaluate(estimator, prepared)
    model = TableModel(prepared.task, prepared.target, prepared.encoder, estimator, fitted_rows, seconds, card)
    return model, Evaluation(prepared, predictions, probabilities)


def tested_again(model: TableModel, prepared: Prepared) -> tuple[TableModel, Evaluation]:
    """Return a model that has learnt more rows with its errors at the test rows."""
    card, predictions, probabilities = _evaluate(model.estimator, prepared)
    return replace(model, scorecard=card), Evaluation(prepared, predictions, probabilities)


def _targets(
    column: Column, task: str | None, target: str, table: Table, notes: list[str]
) -> tuple[str, npt.NDArray[Any]]:
    """Return the task and the targets; a note is added if the task is chosen and numbers may be classes."""
    if len(column) < MIN_ROWS:
        raise ValueError(
            f"{table.source} must have at least {MIN_ROWS} rows with a value of {target!r}. Got {len(column)} instead."
        )
    if column.dtype.kind == "M":
        raise ValueError(f"The target {target!r} must be numbers or classes. Got dates instead.")
    text = column.dtype.kind == "O"
    values = np.unique(column.astype(str)) if text else np.unique(column)
    if len(values) == 1:
        raise ValueError(f"The target {target!r} must have different values. Got {values[0]} in every row instead.")
    if task == "regression" and text:
        raise ValueError(f"A regression needs numbers as the target. Got text in {target!r}, such as {values[0]!r}.")
    if task is None:
        task = "classification" if text or len(values) == 2 else "regression"
        if task == "regression" and len(values) <= MIN_ROWS and (values % 1 == 0).all():
            notes.append(
                f"{target}: {len(values)} different whole numbers are taken as quantities, not as classes "
                "(--task classification)"
            )
    if task == "regression":
        return task, column.astype(np.float64)
    if len(values) > _CLASSES * len(column):
        raise ValueError(
            f"The target {target!r} must repeat its classes. Got {len(values)} different values in {len(column)} rows, "
            f"such as {values[0]} and {values[1]}, instead."
        )
    if text:
        return task, column.astype(str)
    return task, column.astype(np.int64) if (values % 1 == 0).all() else column.astype(np.float64)


def _split(y: npt.NDArray[Any], task: str, share: float, seed: int) -> tuple[Any, Any]:
    """Return the training rows and the test rows, which have the same shares of the classes where that is possible."""
    rows = np.arange(len(y))
    if share == 0:
        return rows, rows[:0]
    if round(share * len(y)) > len(y) - _FEWEST:
        raise ValueError(
            f"The 'test_size' parameter of fit_table must leave at least {_FEWEST} of the {len(y)} rows for the fit. "
            f"Got {share:g} instead."
        )
    counts = np.unique(y, return_counts=True)[1] if task == "classification" else np.zeros(0)
    room = min(round(share * len(y)), len(y) - round(share * len(y)))
    stratified = y if len(counts) and counts.min() > 1 and room >= len(counts) else None
    train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=stratified)
    if task == "classification" and len(np.unique(y[train])) < 2:
        raise ValueError("The training rows have a single class. Give more rows, or a smaller --test-size.")
    return np.sort(train), np.sort(test)


def _evaluate(estimator: Any, rows: Prepared) -> tuple[Scorecard | None, dict[str, Any], FloatArray | None]:
    if not len(rows.y_test):
        return None, {}, None
    regression = rows.task == "regression"
    linear = RidgeCV(_RIDGES) if regression else LogisticRegression(max_iter=_ITERATIONS)
    simple = {
        LINEAR: make_pipeline(StandardScaler(), linear),
        MEAN if regression else MAJORITY: DummyRegressor() if regression else DummyClassifier(),
    }
    predictions = {OURS: estimator.predict(rows.X_test)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a logistic regression that has not converged will do
        for name, model in simple.items():
            predictions[name] = model.fit(rows.X, rows.y).predict(rows.X_test)
    compare = regression_scorecard if regression else classification_scorecard
    probabilities = None if regression else estimator.predict_proba(rows.X_test)
    return compare(rows.y_test, predictions), predictions, probabilities
