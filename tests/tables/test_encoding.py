from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table, encode, learn_encoder
from blockbasis.tables.encoding import encode_new


def text(*values):
    return np.array(values, dtype=object)


def test_each_kind_of_column(shells):
    encoder = learn_encoder(shells.without("rings"))
    assert encoder.outputs == ("size", "size missing", "sex=(missing)", "sex=F", "sex=I", "sex=M", "found")
    X, notes = encode(encoder, shells)
    assert notes == []
    size = shells.column("size")
    assert (X[:5, 0] == np.nanmedian(size)).all()
    assert X[:, 1].tolist() == np.isnan(size).tolist()
    assert (X[:, 2:6].sum(axis=1) == 1).all()
    assert X[0, 6] == (shells.column("found")[0] - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    assert len(encoder.sentences) == 3


def test_columns_are_found_by_name_in_any_order(shells):
    encoder = learn_encoder(shells.without("rings"))
    mixed = Table(shells.names[::-1], shells.columns[::-1])
    np.testing.assert_array_equal(encode(encoder, mixed)[0], encode(encoder, shells)[0])


def test_columns_without_names_are_found_by_their_place():
    table = Table(("0", "1"), (np.arange(3.0), np.ones(3) + np.eye(3)[0]), named=False)
    encoder = learn_encoder(table)
    assert encode(encoder, table)[0].shape == (3, 2)
    with pytest.raises(ValueError, match="must have 2 columns"):
        encode(encoder, Table(("0",), (np.arange(3.0),)))


def test_absent_columns_are_named_beside_the_unknown(shells):
    encoder = learn_encoder(shells.without("rings"))
    with pytest.raises(ValueError, match=r"lacks columns that the model needs: size. It has length"):
        encode(encoder, Table(("length", *shells.names[1:]), shells.columns))


def test_two_categories_take_one_column_and_many_are_ordinal():
    two = learn_encoder(Table(("s",), (text("a", "b", "a"),)))
    assert two.outputs == ("s=b",)
    many = text(*[f"c{i % 25:02}" for i in range(100)])
    encoder = learn_encoder(Table(("s",), (many,)))
    assert encoder.columns[0].kind == "ordinal"
    assert encode(encoder, Table(("s",), (text("c00", "c24", "new"),)))[0].ravel().tolist() == [0.0, 24.0, 12.0]


def test_what_says_nothing_is_dropped():
    rows = 30
    table = Table(
        ("constant", "name", "empty", "x"),
        (np.ones(rows), text(*map(str, range(rows))), np.full(rows, np.nan), np.arange(float(rows))),
    )
    encoder = learn_encoder(table)
    assert encoder.outputs == ("x",)
    assert [column.reason.split()[0] for column in encoder.columns[:3]] == ["it", "its", "all"]
    with pytest.raises(ValueError, match="no column to learn from"):
        learn_encoder(table.without("x"))


def test_kinds_may_be_given():
    table = Table(("a", "b", "c"), (np.array([1.0, 2.5, 1.0]), text("x", "y", "z"), np.arange(3.0)))
    encoder = learn_encoder(table, kinds={"a": "one-hot", "b": "ordinal", "c": "drop"})
    assert encoder.outputs == ("a=2.5", "b")
    assert encode(encoder, table)[0].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]]
    with pytest.raises(ValueError, match="has text"):
        learn_encoder(table, kinds={"b": "number"})
    with pytest.raises(ValueError, match="no column 'd'"):
        learn_encoder(table, kinds={"d": "drop"})


def test_values_that_were_not_there_are_said():
    encoder = learn_encoder(Table(("a", "s"), (np.arange(3.0), text("x", "y", "z"))))
    X, notes = encode(encoder, Table(("a", "s"), (np.array([np.nan, 2.0]), text("q", None))))
    assert X.tolist() == [[1.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]]
    assert notes == ["a: 1 missing value replaced by 1", "s: 2 values that the model does not know, such as 'q'"]


def test_text_in_place_of_numbers_is_an_error():
    encoder = learn_encoder(Table(("a",), (np.arange(3.0),)))
    with pytest.raises(ValueError, match="must have numbers in column 'a'.*Got 'word'"):
        encode(encoder, Table(("a",), (text("word", None),)))
    X, _ = encode(encoder, Table(("a",), (text(None, None),)))
    assert X.tolist() == [[1.0], [1.0]]
    assert encoder.kinds == {}


def test_unknown_values_in_all_rows_are_an_error_of_new_rows():
    encoder = learn_encoder(Table(("s",), (text("x", "y", "z"),)))
    new = Table(("s",), (text("q", "r", None),), "new.csv")
    assert len(encode(encoder, new)[1]) == 1
    with pytest.raises(ValueError, match="new.csv must have values in column 's' that the model knows, such as x, y"):
        encode_new(encoder, new)
    for values in (("q", "x"), ("q",), (None, None)):
        assert len(encode_new(encoder, Table(("s",), (text(*values),)))[1]) == 1
