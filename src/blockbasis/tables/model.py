"""An estimator with the encoding of its table and its test errors, as one object and one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.estimators.ridge_cv import KernelRidgeClassifierCV, KernelRidgeCV
from blockbasis.operators.storage import storable
from blockbasis.operators.structure import require
from blockbasis.tables.encoding import KINDS, ColumnEncoding, TableEncoder, encode
from blockbasis.tables.scorecard import Score, Scorecard

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.tables.table import Table

TASKS = ("regression", "classification")
_ESTIMATORS: dict[str, type[Any]] = {
    "regression": KernelRidgeCV,
    "classification": KernelRidgeClassifierCV,
}
_PREFIX = "estimator."


@storable
@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model of a table, as `blockbasis.tables.fit_table` and the command ``blockbasis fit`` return it.

    `blockbasis.save` writes it and `blockbasis.load` reads it.

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

    def predict(self, table: Table) -> tuple[Any, list[str]]:
        """Predict the target of each row.

        Parameters
        ----------
        table : Table
            Table with the columns of the model.

        Returns
        -------
        predictions : ndarray of shape (n_rows,)
        notes : list of str
            A line for each column with values that the model does not know.
        """
        X, notes = encode(self.encoder, table)
        return self.estimator.predict(X), notes

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Return metadata and arrays for `blockbasis.save`."""
        own, arrays = self.estimator.describe()
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
