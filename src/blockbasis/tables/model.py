"""An estimator with the encoding of its table and its test errors, as one object and one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from blockbasis.estimators.ridge_cv import KernelRidgeClassifierCV, KernelRidgeCV
from blockbasis.operators.storage import storable
from blockbasis.operators.structure import require
from blockbasis.tables.encoding import KINDS, ColumnEncoding, TableEncoder, encode_new
from blockbasis.tables.reading import CellError
from blockbasis.tables.scorecard import Score, Scorecard
from blockbasis.tables.sources import as_table

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.tables.table import Table

TASKS = ("regression", "classification")
_ESTIMATORS: dict[str, type[Any]] = {
    "regression": KernelRidgeCV,
    "classification": KernelRidgeClassifierCV,
}
_PREFIX = "estimator."
#: Fitted attributes as long as the training rows, which predictions do not need.
_TRAINING_ROWS = ("X_fit_", "dual_coef_", "factorization_")


@storable
@dataclass(frozen=True, eq=False, repr=False)
class TableModel:
    """A fitted model of a table, as `blockbasis.tables.fit_table` and the command ``blockbasis fit`` return it.

    `blockbasis.save` writes it, without the training rows, and `blockbasis.load` reads it.

    Parameters
    ----------
    task : {"regression", "classification"}
    target : str
        Name of the target.
    encoder : TableEncoder
        Encoding of the other columns.
    estimator : KernelRidgeCV or KernelRidgeClassifierCV
        Fitted to the encoded columns.
    rows : int
        Number of rows that the model was fitted to.
    seconds : float
        Time of the fit.
    scorecard : Scorecard or None
        Test errors; None without test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, fit_table
    >>> x = np.linspace(0, 6, 120)
    >>> model, _ = fit_table(Table(("x", "y"), (x, np.sin(x))), "y", seed=0)
    >>> model.task, model.target
    ('regression', 'y')
    >>> model.predict(Table(("x",), (np.array([np.pi / 2]),)))[0].round(2)
    array([1.])
    """

    task: str
    target: str
    encoder: TableEncoder
    estimator: Any
    rows: int
    seconds: float
    scorecard: Scorecard | None = None

    def __repr__(self) -> str:
        error = "" if self.scorecard is None else f", test {self.scorecard.measure} {self.scorecard.scores[0]}"
        columns = f"{len(self.encoder.columns)} columns"
        return f"TableModel({self.task} of {self.target}, {columns}, fitted to {self.rows} rows{error})"

    def predict(self, table: Any) -> tuple[Any, list[str]]:
        """Predict the target of each row.

        Parameters
        ----------
        table : str, path-like, pandas.DataFrame or Table
            Path of a file for `read_table`, or a data frame or a table, with the columns of the model.

        Returns
        -------
        predictions : ndarray of shape (n_rows,)
        notes : list of str
            A line for each column with values that the model does not know.
        """
        X, notes = self._encoded(table)
        return self.estimator.predict(X), notes

    def predict_interval(self, table: Any, coverage: float = 0.9) -> tuple[tuple[FloatArray, FloatArray], list[str]]:
        """Return intervals that contain new targets with the given probability, of a regression.

        Parameters
        ----------
        table : str, path-like, pandas.DataFrame or Table
            As for `predict`.
        coverage : float, default=0.9
            Probability that an interval contains the target, on average over all rows.

        Returns
        -------
        interval : tuple of two ndarrays of shape (n_rows,)
            Lower and upper ends.
        notes : list of str
            As of `predict`.

        Raises
        ------
        ValueError
            If the model is a classification.

        Examples
        --------
        >>> import numpy as np
        >>> from blockbasis.tables import Table, fit_table
        >>> x = np.linspace(0, 6, 120)
        >>> model, _ = fit_table(Table(("x", "y"), (x, np.sin(x))), "y", seed=0)
        >>> (lower, upper), notes = model.predict_interval(Table(("x",), (x,)), coverage=0.9)
        >>> bool((lower <= upper).all()), notes
        (True, [])
        """
        if self.task != "regression":
            raise ValueError("predict_interval needs a regression, and the model is a classification.")
        X, notes = self._encoded(table)
        return self.estimator.predict_interval(X, coverage), notes

    def predict_proba(self, table: Any) -> tuple[FloatArray, list[str]]:
        """Return the probability of each class, of a classification.

        Parameters
        ----------
        table : str, path-like, pandas.DataFrame or Table
            As for `predict`.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of ``model.estimator.classes_``.
        notes : list of str
            As of `predict`.

        Raises
        ------
        ValueError
            If the model is a regression.

        Examples
        --------
        >>> import numpy as np
        >>> from blockbasis.tables import Table, fit_table
        >>> x = np.linspace(0, 6, 120)
        >>> model, _ = fit_table(Table(("x", "y"), (x, (x > 3).astype(float))), "y", seed=0)
        >>> model.predict_proba(Table(("x",), (x,)))[0].shape
        (120, 2)
        """
        if self.task != "classification":
            raise ValueError("predict_proba needs a classification, and the model is a regression.")
        X, notes = self._encoded(table)
        return self.estimator.predict_proba(X), notes

    def table(self, source: Any) -> Table:
        """Return a table whose columns are read as those of the model; others of a data frame are left empty.

        Parameters
        ----------
        source : str, path-like, pandas.DataFrame or Table

        Returns
        -------
        Table

        Raises
        ------
        ValueError
            If a file has text in a column of numbers, or cannot be read.
        """
        text = self.task == "classification" and self.estimator.classes_.dtype.kind in "OU"
        kinds = {**self.encoder.kinds, **({self.target: "text"} if text else {})}
        needed = [column.name for column in self.encoder.columns if column.kind != "drop"]
        try:
            return as_table(
                source, kinds=kinds, needed=needed if self.encoder.named else None, caller="TableModel.predict"
            )
        except CellError as error:  # whose message offers another encoding, which the model determines
            raise ValueError(f"{error.problem} {error.correction}, or empty the cell.") from None

    def _encoded(self, source: Any) -> tuple[FloatArray, list[str]]:
        table = self.table(source)
        if not self.encoder.named and self.target in table.names and len(table.names) > len(self.encoder.columns):
            table = table.without(self.target)
        return encode_new(self.encoder, table)

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Return metadata and arrays for `blockbasis.save`."""
        own, arrays = _without_training_rows(self.estimator).describe()
        meta = {
            "task": self.task,
            "target": self.target,
            "encoder": asdict(self.encoder),
            "rows": self.rows,
            "seconds": self.seconds,
            "scorecard": None if self.scorecard is None else plain(asdict(self.scorecard)),
            "estimator": own,
        }
        return meta, {_PREFIX + name: array for name, array in arrays.items()}

    @classmethod
    def restored(cls, meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> TableModel:
        """Return the saved model, for `blockbasis.load`."""
        require(meta["task"] in TASKS, "the task", f"known, and is {meta['task']!r}")
        own = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
        estimator = _ESTIMATORS[meta["task"]].restored(meta["estimator"], own, kernel)
        encoder = _restored_encoder(meta["encoder"])
        require(
            len(encoder.outputs) == estimator.n_features_in_,
            "the encoder",
            f"of {estimator.n_features_in_} columns, and has {len(encoder.outputs)}",
        )
        for name in ("rows", "seconds"):
            require(isinstance(meta[name], (int, float)) and meta[name] >= 0, name, "at least 0")
        card = None if meta["scorecard"] is None else _restored_scorecard(meta["scorecard"])
        return cls(
            meta["task"], str(meta["target"]), encoder, estimator, int(meta["rows"]), float(meta["seconds"]), card
        )


def _without_training_rows(estimator: Any) -> Any:
    """Return an estimator that predicts the same and keeps no attribute as long as the training rows."""
    kept = {
        name: value
        for name, value in vars(estimator.without_state()).items()  # which solves for all rows
        if name not in _TRAINING_ROWS
    }
    lean = clone(estimator)
    vars(lean).update(kept, keep_points=False, verbose=0)
    return lean


def _restored_encoder(saved: dict[str, Any]) -> TableEncoder:
    columns = []
    for each in saved["columns"]:
        require(each["kind"] in KINDS, "the kind of a column", f"known, and is {each['kind']!r}")
        require(isinstance(each["fill"], (int, float)) and np.isfinite(each["fill"]), "the fill of a column", "finite")
        texts = [each["name"], each["reason"], *each["categories"]]
        require(all(isinstance(text, str) for text in texts), "the names of a column", "text")
        columns.append(ColumnEncoding(**{**each, "categories": tuple(each["categories"])}))
    return TableEncoder(tuple(columns), bool(saved["named"]))


def _restored_scorecard(saved: dict[str, Any]) -> Scorecard:
    scores = tuple(
        Score(str(each["name"]), float(each["error"]), np.nan if each["stderr"] is None else float(each["stderr"]))
        for each in saved["scores"]
    )
    r2 = None if saved["r2"] is None else float(saved["r2"])
    return Scorecard(str(saved["measure"]), int(saved["rows"]), scores, r2, str(saved["verdict"]))


def plain(value: Any) -> Any:
    """Return a value for JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
