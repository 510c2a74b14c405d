from __future__ import annotations

import sys

import numpy as np
import pytest

from blockbasis.tables import read_table
from blockbasis.tables import reading as module
from blockbasis.tables.reading import read_names


def read(tmp_path, text, name="t.csv", **choices):
    (tmp_path / name).write_text(text)
    return read_table(tmp_path / name, **choices)


def test_numbers_text_dates_and_missing_values(tmp_path):
    table = read(tmp_path, "a,b,c,d\n1,x,2024-01-01,\n?,NA,2024-02-30T1,5\n".replace("2024-02-30T1", "2024-03-01"))
    assert table.names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(table.columns[0], [1, np.nan])
    assert table.columns[1].tolist() == ["x", None]
    assert table.columns[2].dtype.kind == "M"
    np.testing.assert_array_equal(table.columns[3], [np.nan, 5])


def test_other_delimiters_and_row_numbers(tmp_path):
    table = read(tmp_path, ";a;b\n0;1;x\n1;2;y\n", name="t.tsv")
    assert table.names == ("a", "b")
    assert table.columns[0].tolist() == [1.0, 2.0]


def test_without_a_header_columns_have_numbers(tmp_path):
    table = read(tmp_path, "M,0.4,3\nF,0.5,4\n")
    assert (table.names, table.named) == (("0", "1", "2"), False)


def test_a_word_among_numbers_is_an_error_with_its_line(tmp_path):
    rows = "".join(f"{i},{i}\n" for i in range(30))
    with pytest.raises(ValueError, match=r"'oops' among the numbers of column 'a', in line 5.*--column 'a=number'"):
        read(tmp_path, "a,b\n" + rows.replace("3,3\n", "oops,3\n", 1))
    table = read(tmp_path, "a,b\n" + rows.replace("3,3\n", "oops,3\n", 1), kinds={"a": "number"})
    assert np.isnan(table.columns[0]).tolist() == [i == 3 for i in range(30)]


def test_decimal_commas_are_an_error_and_not_text(tmp_path):
    text = "a;b\n1,5;x\n2;y\n2,5;z\n"
    with pytest.raises(ValueError, match=r"t.csv has decimal commas in column 'a', such as 1,5 in line 2\."):
        read(tmp_path, text)
    assert read(tmp_path, text, kinds={"a": "text"}).columns[0].tolist() == ["1,5", "2", "2,5"]


def test_names_are_read_without_the_rows(tmp_path):
    for name, text, names in (("t.csv", "a,b\n1,2\n", ("a", "b")), ("t.csv", "1,2\n3,4\n", None)):
        (tmp_path / name).write_text(text)
        found = read_names(tmp_path / name)
        assert (None if found is None else found.names) == names
    np.save(tmp_path / "t.npy", np.ones((2, 2)))
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    assert read_names(tmp_path / "t.npy") is read_names(tmp_path / "t.parquet") is None
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    parquet.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "t.parquet")
    assert read_names(tmp_path / "t.parquet").names == ("a", "b")


def test_a_column_of_numbers_may_be_read_as_text(tmp_path):
    assert read(tmp_path, "a,b\n07,1\n7,2\n", kinds={"a": "text"}).columns[0].tolist() == ["07", "7"]


def test_a_column_of_few_numbers_is_text(tmp_path):
    assert read(tmp_path, "a,b\nA1,1\nB2,2\n7,3\n").columns[0].tolist() == ["A1", "B2", "7"]


def test_chunks_make_no_difference(tmp_path):
    rows = 2 * module._CHUNK + 50
    table = read(tmp_path, "a,b\n" + "".join(f"{i if i % 7 else ''},{'xyz'[i % 3]}\n" for i in range(rows)))
    np.testing.assert_array_equal(table.columns[0], [i if i % 7 else np.nan for i in range(rows)])
    assert table.columns[1].tolist() == ["xyz"[i % 3] for i in range(rows)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "a header and no rows"),
        ("a,b\n1,2\n1,2,3\n", "Got 3 in line 3"),
        ("a,a\n1,2\n", "'a' twice"),
        ("a,b\n1,inf\n", "free of infinity"),
        ("a,b\n1,1_0\n2,3\n3,4\n4,5\n", "'1_0' among the numbers"),
    ],
)
def test_what_cannot_be_read(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_a_date_that_is_not_one(tmp_path):
    with pytest.raises(ValueError, match="impossible date"):
        read(tmp_path, "a,b\n2024-13-45,1\n")
    with pytest.raises(ValueError, match="dates such as 2024-05-31 in column 'a'"):
        read(tmp_path, "a,b\n31.5.2024,1\n", kinds={"a": "date"})


def test_a_binary_file_is_not_text(tmp_path):
    (tmp_path / "t.csv").write_bytes(bytes(range(128, 256)) * 9)
    with pytest.raises(ValueError, match="not a text file"):
        read_table(tmp_path / "t.csv")


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(ValueError, match="no known ending"):
        read(tmp_path, "1", name="t.doc")


def test_arrays(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.array(["u", "v", "u"]))
    table = read_table(tmp_path / "t.npz")
    assert (table.names, table.columns[3].tolist()) == (("0", "1", "2", "y"), ["u", "v", "u"])
    np.save(tmp_path / "t.npy", np.eye(2))
    assert read_table(tmp_path / "t.npy").names == ("0", "1")


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "n": pa.array([1, None, 3]),
        "t": pa.array(["x", "y", None]),
        "c": pa.array(["x", "y", "x"]).dictionary_encode(),
        "b": pa.array([True, False, None]),
        "d": pa.array([0, 86_400_000, None], pa.timestamp("ms")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table.columns[0], [1, np.nan, 3])
    assert [column.tolist() for column in table.columns[1:4]] == [
        ["x", "y", None], ["x", "y", "x"], ["True", "False", None],
    ]  # fmt: skip
    assert table.columns[4].dtype.kind == "M"
    parquet.write_table(pa.table({"l": pa.array([[1], [2]])}), tmp_path / "l.parquet")
    with pytest.raises(ValueError, match="numbers, text or dates"):
        read_table(tmp_path / "l.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match="not a complete Parquet file"):
        read_table(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"x")
    with pytest.raises(ImportError, match=r"blockbasis\[data\]"):
        read_table(tmp_path / "t.parquet")


def test_times_with_an_offset_become_utc(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,x\n2020-01-01 00:00:00+01:00,1\n2020-07-01 12:00:00.5-04:30,2\n,3\n")
    column = read_table(path).column("t")
    expected = np.array(["2019-12-31T23:00", "2020-07-01T16:30:00.5", "NaT"], dtype="datetime64[us]")
    np.testing.assert_array_equal(column.astype("datetime64[us]"), expected)
    path.write_text("t,x\n2020-01-01 00:00+25:00,1\n2020-01-02 00:00+01:00,2\n")
    assert read_table(path).column("t").dtype.kind == "O"
