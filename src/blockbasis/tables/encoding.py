"""Encoding of a table as an array of numbers, learned from one table and applied to others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.datasets.csvfile import is_number
from blockbasis.tables.categories import MISSING, find_codes
from blockbasis.tables.table import Column, Table, listed, missing

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: What becomes of a column.
KINDS = ("number", "date", "one-hot", "ordinal", "drop")
#: Largest number of categories of a one-hot column; columns with more are ordinal.
MAX_ONE_HOT = 20
#: A text column of more rows than this, more than half of them distinct, is taken for identifiers and dropped.
_FEW_ROWS = 20
_IDENTIFIERS = 0.5
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class ColumnEncoding:
    """Encoding of one column.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : {"number", "date", "one-hot", "ordinal", "drop"}
        Dates are days since 1970. A dropped column is not used.
    fill : float, default=0.0
        Value in place of missing and unknown values: the median of the table that the encoding was learned from.
    indicator : bool, default=False
        Whether a further column is 1 where the value is missing, and 0 elsewhere.
    categories : tuple of str, default=()
        Categories of a text column, sorted.
    reason : str, default=""
        Why a column is dropped.

    Examples
    --------
    >>> from blockbasis.tables import ColumnEncoding
    >>> ColumnEncoding("sex", "one-hot", categories=("F", "I", "M")).outputs
    ('sex=F', 'sex=I', 'sex=M')
    >>> ColumnEncoding("height", "number", indicator=True).outputs
    ('height', 'height missing')
    """

    name: str
    kind: str
    fill: float = 0.0
    indicator: bool = False
    categories: tuple[str, ...] = ()
    reason: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns of the encoded array."""
        if self.kind == "drop":
            return ()
        if self.kind == "one-hot":
            # Two categories need one column.
            shown = self.categories[1:] if len(self.categories) == 2 else self.categories
            return tuple(f"{self.name}={category}" for category in shown)
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    @property
    def sentence(self) -> str:
        """Return one line about what becomes of the column; empty for numbers without missing values."""
        if self.kind == "drop":
            return f"{self.name}: not used, {self.reason}"
        if self.kind == "one-hot":
            shown = listed([_quoted(category) for category in self.categories])
            return f"{self.name}: text, one-hot with {len(self.categories)} categories ({shown})"
        if self.kind == "ordinal":
            return f"{self.name}: text, ordinal codes of {len(self.categories)} categories in alphabetical order"
        parts = ["date, in days since 1970-01-01"] if self.kind == "date" else []
        parts += [f"missing values replaced by {self.fill:.6g}, with an indicator"] if self.indicator else []
        return f"{self.name}: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True, repr=False)
class TableEncoder:
    """Encoding of all columns of a table, as `learn_encoder` returns it.

    Parameters
    ----------
    columns : tuple of ColumnEncoding
    named : bool, default=True
        Whether columns are found by name, and not by position.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, encode, learn_encoder
    >>> table = Table(("size", "sex"), (np.array([1.0, np.nan, 3.0]), np.array(["M", "F", "M"], dtype=object)))
    >>> encoder = learn_encoder(table)
    >>> encoder.outputs
    ('size', 'size missing', 'sex=M')
    >>> encode(encoder, table)[0]
    array([[1., 0., 1.],
           [2., 1., 0.],
           [3., 0., 1.]])
    """

    columns: tuple[ColumnEncoding, ...]
    named: bool = True

    def __repr__(self) -> str:
        return f"TableEncoder({len(self.columns)} columns, encoded as {len(self.outputs)})"

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns of the encoded array."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def sentences(self) -> list[str]:
        """Return one line about each column that is not a plain column of numbers."""
        return [column.sentence for column in self.columns if column.sentence]

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of the columns for `read_table`, so that another file is read as the first was."""
        known = {"date": "date", "one-hot": "text", "ordinal": "text", "drop": "text"}
        return {column.name: known[column.kind] for column in self.columns if column.kind in known}


def learn_encoder(table: Table, *, kinds: Mapping[str, str] | None = None) -> TableEncoder:
    """Learn the encoding of a table without its target.

    Text columns are one-hot up to 20 categories and ordinal beyond. Missing numbers are replaced by the median, with an
    indicator column; missing text is a category of its own. Constant columns and columns of identifiers are dropped.

    Parameters
    ----------
    table : Table
        Table of the columns to encode.
    kinds : mapping of str to {"number", "date", "one-hot", "ordinal", "drop"}, default=None
        What becomes of some columns, in place of the rules above.

    Returns
    -------
    TableEncoder

    Raises
    ------
    ValueError
        If no column is left, or a name of ``kinds`` is not a column.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, learn_encoder
    >>> table = Table(("a", "b"), (np.array([1.0, 2.0]), np.array([5.0, 5.0])))
    >>> learn_encoder(table).sentences
    ['b: not used, it is constant']
    """
    kinds = {table.names[table.place(name)]: kind for name, kind in (kinds or {}).items()}
    columns = tuple(
        _learn(table, name, column, kinds.get(name)) for name, column in zip(table.names, table.columns, strict=True)
    )
    encoder = TableEncoder(columns, table.named)
    if not encoder.outputs:
        raise ValueError(
            f"{table.source} has no column to learn from beside the target: {'; '.join(encoder.sentences)}."
        )
    return encoder


def encode(encoder: TableEncoder, table: Table) -> tuple[FloatArray, list[str]]:
    """Encode a table.

    Parameters
    ----------
    encoder : TableEncoder
        Encoding that was learned from a table with the same columns.
    table : Table
        Table with these columns, in any order if they have names; others are ignored.

    Returns
    -------
    X : ndarray of shape (n_rows, n_outputs)
    notes : list of str
        A line for each column with values that the encoding does not know.

    Raises
    ------
    ValueError
        If columns are absent or of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.tables import Table, encode, learn_encoder
    >>> encoder = learn_encoder(Table(("sex",), (np.array(["M", "F", "M"], dtype=object),)))
    >>> encode(encoder, Table(("sex",), (np.array(["F", "?!"], dtype=object),)))[1]
    ["sex: 1 value that the model does not know, such as '?!'"]
    """
    return _encoded(encoder, table, strict=False)


def encode_new(encoder: TableEncoder, table: Table) -> tuple[FloatArray, list[str]]:
    """Encode rows to predict: as `encode`, but a column of text with unknown values only is an error.

    Such a column is written in another way than that of the model. A single value may be unknown.
    """
    return _encoded(encoder, table, strict=True)


def _encoded(encoder: TableEncoder, table: Table, *, strict: bool) -> tuple[FloatArray, list[str]]:
    found = _matched(encoder, table)
    notes: list[str] = []
    blocks: list[FloatArray] = []
    for encoding, column in zip(encoder.columns, found, strict=True):
        if encoding.kind == "drop":
            continue
        assert column is not None
        if encoding.kind in ("number", "date"):
            blocks.append(_encode_numbers(encoding, column, table, notes))
        else:
            values = [MISSING if value is None else value for value in _as_text(column)]
            codes = np.array(find_codes(encoding.categories, values))
            if strict:
                _check_known(encoding, values, codes, table)
            blocks.append(_encode_text(encoding, values, codes, notes))
    return np.hstack(blocks), notes


def check_columns(encoder: TableEncoder, table: Table) -> None:
    """Raise a ValueError if columns that the encoding needs are absent."""
    _matched(encoder, table)


def _matched(encoder: TableEncoder, table: Table) -> list[Column | None]:
    """Return the column of each encoding; None for dropped columns that are absent."""
    needed = [column.name for column in encoder.columns if column.kind != "drop"]
    if not encoder.named:
        if len(table.columns) != len(encoder.columns):
            raise ValueError(
                f"{table.source} must have {len(encoder.columns)} columns, as the table of the model had. Got "
                f"{len(table.columns)} instead."
            )
        return list(table.columns)
    absent = [name for name in needed if name not in table.names]
    if absent:
        spare = [name for name in table.names if name not in {column.name for column in encoder.columns}]
        found = f" It has {listed(spare)}, which the model does not know." if spare else ""
        raise ValueError(f"{table.source} lacks columns that the model needs: {listed(absent)}.{found}")
    return [table.column(column.name) if column.name in table.names else None for column in encoder.columns]


# --- one column ------------------------------------------------------------------------------------------------------


def _learn(table: Table, name: str, column: Column, kind: str | None) -> ColumnEncoding:
    if kind == "drop":
        return ColumnEncoding(name, "drop", reason="as asked for")
    gaps = missing(column)
    if gaps.all():
        return ColumnEncoding(name, "drop", reason="all values are missing")
    if column.dtype.kind in "fM" and kind in ("one-hot", "ordinal"):
        column = _as_text(column)
    if column.dtype.kind == "O":
        if kind in ("number", "date"):
            raise ValueError(f"Column {name!r} of {table.source} has text. Got '--column {name}={kind}'.")
        return _learn_text(name, column, gaps, kind)
    values = _as_numbers(column)[~gaps]
    if (values == values[0]).all() and not gaps.any():
        return ColumnEncoding(name, "drop", reason="it is constant")
    chosen = "date" if column.dtype.kind == "M" else "number"
    return ColumnEncoding(name, chosen, fill=float(np.median(values)), indicator=bool(gaps.any()))


def _learn_text(name: str, column: Column, gaps: Any, kind: str | None) -> ColumnEncoding:
    categories = tuple(sorted({MISSING if value is None else value for value in column}))
    if len(categories) == 1:
        return ColumnEncoding(name, "drop", reason="it is constant")
    if kind is None and len(column) > _FEW_ROWS and len(categories) > _IDENTIFIERS * len(column):
        reason = f"its {len(categories)} different texts in {len(column)} rows are taken for identifiers"
        return ColumnEncoding(name, "drop", reason=reason)
    kind = kind or ("one-hot" if len(categories) <= MAX_ONE_HOT else "ordinal")
    codes = np.searchsorted(categories, [MISSING if value is None else value for value in column])
    return ColumnEncoding(name, kind, fill=float(np.median(codes)), categories=categories)


def _as_numbers(column: Column) -> FloatArray:
    if column.dtype.kind == "M":
        days = (column - np.datetime64("1970-01-01")) / _DAY
        return np.asarray(days, dtype=np.float64)
    return np.asarray(column, dtype=np.float64)


def _as_text(column: Column) -> Column:
    """Return numbers and dates as objects: their shortest text, or None."""
    if column.dtype.kind == "O":
        return column
    texts = [str(int(v)) if column.dtype.kind == "f" and v % 1 == 0 else str(v) for v in column.tolist()]
    return np.array([None if gap else text for text, gap in zip(texts, missing(column), strict=True)], dtype=object)


def _encode_numbers(encoding: ColumnEncoding, column: Column, table: Table, notes: list[str]) -> FloatArray:
    gaps = missing(column)
    expected = "f" if encoding.kind == "number" else "M"
    if expected == "f" and column.dtype.kind == "O" and all(map(is_number, column[~gaps])):
        column = np.array([np.nan if value is None else float(value) for value in column])
    if column.dtype.kind != expected and not gaps.all():
        found = next(value for value, gap in zip(column, gaps, strict=True) if not gap)
        what = "numbers" if expected == "f" else "dates such as 2024-05-31"
        raise ValueError(
            f"{table.source} must have {what} in column {encoding.name!r}, as the table of the model had. Got "
            f"{str(found)!r} instead."
        )
    if column.dtype.kind == expected:
        values = np.where(gaps, encoding.fill, _as_numbers(column))
    else:
        values = np.full(len(column), encoding.fill)
    if gaps.any() and not encoding.indicator:
        notes.append(f"{encoding.name}: {_count(gaps.sum(), 'missing value')} replaced by {encoding.fill:.6g}")
    return np.column_stack([values, gaps.astype(np.float64)]) if encoding.indicator else values[:, np.newaxis]


def _check_known(encoding: ColumnEncoding, values: list[str], codes: IntArray, table: Table) -> None:
    """Raise a ValueError if the model knows none of several values of a column."""
    given = [(value, code) for value, code in zip(values, codes, strict=True) if value != MISSING]
    if len(given) > 1 and all(code < 0 for _, code in given):
        shown = listed([_quoted(category) for category in encoding.categories])
        raise ValueError(
            f"{table.source} must have values in column {encoding.name!r} that the model knows, such as {shown}. Got "
            f"unknown values in all rows, such as {given[0][0]!r}. Write them as in the table of the model, or empty "
            "the cells."
        )


def _encode_text(encoding: ColumnEncoding, values: list[str], codes: IntArray, notes: list[str]) -> FloatArray:
    unknown = [value for value, code in zip(values, codes, strict=True) if code < 0]
    if unknown:
        what = _count(len(unknown), "value") + f" that the model does not know, such as {unknown[0]!r}"
        notes.append(f"{encoding.name}: {what}")
    if encoding.kind == "ordinal":
        return np.where(codes < 0, encoding.fill, codes)[:, np.newaxis].astype(np.float64)
    hot: FloatArray = (codes[:, np.newaxis] == np.arange(len(encoding.categories))).astype(np.float64)
    return hot[:, 1:] if len(encoding.categories) == 2 else hot


def _quoted(category: str) -> str:
    """Return a category in quotation marks if it would be ambiguous in a list."""
    return repr(category) if set(category) & set(",()'\"") and category != MISSING else category


def _count(number: Any, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
