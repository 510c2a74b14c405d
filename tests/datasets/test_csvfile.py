"""Text files, through load_file."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from blockbasis.datasets import load_file


@pytest.fixture
def read(tmp_path):
    """Function from a text, and what else load_file takes, to the data set read from it."""

    def function(text, name="a.csv", **settings):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_file(path, **settings)

    return function


POINTS = [[1.5, -2.0, 3e-3], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


def table(delimiter, header=()):
    rows = [header] if header else []
    return "\n".join(delimiter.join(map(str, row)) for row in [*rows, *POINTS]) + "\n"


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.tsv", "a.txt", "a.data"])
@pytest.mark.parametrize("header", [(), ("x", "y", "z"), ("2", "3", "z")])
def test_delimiters_and_headers(read, header, name):
    for delimiter in (",", ", ", ";", "\t", "|", " ", "   ", " \t "):
        data = read(table(delimiter, header), name)
        assert data.X.tolist() == POINTS
        assert data.X.dtype == np.float64
        assert data.y is None
        assert data.description == "3 points, 3 columns" + (f": {', '.join(header)}." if header else ".")
        assert data.name == "a"


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffx,y\n1,2\n3,4\n",
        "x,y\r\n1,2\r\n3,4\r\n",
        "\n\nx,y\n\n1,2\n  \n3,4\n\n",
        "# x,y\n1,2\n3,4",
        "# x y\n1 2\n3 4",
        '"x","y"\n"1","2"\n"3","4"\n',
        "x, y\n 1 , 2\n3 ,4 \n",
        "x y\n1 2\n3 4\n",
    ],
)
def test_variants_of_the_same_table(read, text):
    data = read(text)
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.description.endswith(": x, y.")


def test_a_single_column(read):
    assert read("1\n2\n3\n").X.tolist() == [[1], [2], [3]]
    assert read("x\n1\n2\n").X.tolist() == [[1], [2]]


def test_a_single_point(read):
    assert read("1,2,3").X.tolist() == [[1, 2, 3]]
    assert read("x,y\n1,2").X.tolist() == [[1, 2]]


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("columns", [None, ["a", "b", "c"]])
def test_what_pandas_writes(read, index, columns):
    """Its numbers of columns are no point, and its numbers of rows no coordinate."""
    data = read(pd.DataFrame(POINTS, columns=columns).to_csv(index=index))
    assert data.X.tolist() == POINTS
    assert data.description == f"3 points, 3 columns: {', '.join(columns or '012')}."


def test_what_only_looks_like_pandas(read):
    assert read("0,1\n2,3\n").X.tolist() == [[0, 1], [2, 3]]
    assert read("0,1,2\n").X.tolist() == [[0, 1, 2]]
    assert read("0,1,3\n4,5,6\n").X.tolist() == [[0, 1, 3], [4, 5, 6]]
    assert read("i,a\n5,1\n6,2\n").X.tolist() == [[5, 1], [6, 2]]
    assert read(",a\n5,1\n5,2\n").X.tolist() == [[5, 1], [5, 2]]
    assert read(",a\n5,1\n5.5,2\n").X.tolist() == [[5, 1], [5.5, 2]]
    assert read(",a\n0,1\n1,2\n", target="a").X.tolist() == [[0], [1]]


def test_row_labels_in_any_order(read):
    """What is left of pandas' index by a filter or a sample, and what R's write.csv writes."""
    table = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    for part in (table[1:], table.sample(frac=1, random_state=0)):
        assert read(part.to_csv()).X.tolist() == part.to_numpy().tolist()
    assert read('"","a","b"\n"1",5,6\n"2",7,8\n').X.tolist() == [[5, 6], [7, 8]]


def test_row_numbers_beside_a_target(read):
    data = read(pd.DataFrame(POINTS, columns=["a", "b", "c"]).to_csv(), target="b")
    assert data.X.tolist() == [[row[0], row[2]] for row in POINTS]
    assert data.y.tolist() == [row[1] for row in POINTS]


def test_a_name_may_hold_the_delimiter(read):
    data = read('"a, first",b\n1,2\n', target="a, first")
    assert data.X.tolist() == [[2]]
    assert data.y.tolist() == [1]


@pytest.mark.parametrize("seed", range(3))
def test_numbers_come_back_to_the_last_bit(read, seed):
    X = np.random.default_rng(seed).standard_normal((200, 4)) * 10.0 ** np.arange(-150, 250, 100)
    text = "\n".join(",".join(map(repr, row)) for row in X.tolist())
    np.testing.assert_array_equal(read(text).X, X)


# --- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["b", 1, -2, np.int64(1)])
def test_a_target_by_name_or_number(read, target):
    data = read("a,b,c\n1,2,3\n4,5.5,6\n", target=target)
    assert data.X.tolist() == [[1, 3], [4, 6]]
    assert data.y.tolist() == [2, 5.5]
    assert data.description == "2 points, 2 columns: a, c."


def test_a_target_of_text(read):
    data = read("1,2,red\n3,4,green\n5,6,red\n", target=-1)
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == ["red", "green", "red"]
    data = read("1,2,Phase\n0.5,0.25,D\n0.1,0.2,R\n", target="Phase")
    assert data.X.tolist() == [[0.5, 0.25], [0.1, 0.2]]
    assert data.y.tolist() == ["D", "R"]


def test_signs_that_are_classes(read):
    """They stand for a missing number, but not beside other words."""
    for text in ("a,b\n1,-\n2,+\n", "1,-\n2,+\n"):
        data = read(text, target=1)
        assert data.X.tolist() == [[1], [2]]
        assert data.y.tolist() == ["-", "+"]


def test_a_target_that_turns_to_text_late(read):
    rows = [f"{k},{k}" for k in range(200)]
    assert read("\n".join([*rows, "1,x"]), target=1).y.tolist() == [*map(str, range(200)), "x"]
    assert read("\n".join(rows), target=1).y.tolist() == list(range(200))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("a,b\n1,2\n", "c", "'target' parameter of load_file must name one column of .*'a', 'b'. Got 'c' instead"),
        ("a,a\n1,2\n", "a", "must name one column of .* Got 'a' instead"),
        ("a,b\n1,2\n", 2, "must be the number of one of the 2 columns of .* Got 2 instead"),
        ("a,b\n1,2\n", -3, "Got -3 instead"),
        ("a\n1\n", "a", "must have a column beside the target"),
        ("a,b\n1,\n2,3\n", "b", "must have a target in every line. Got '' in line 2, column 'b' instead"),
        ("a,b\n1,x\n\n2,NA\n", "b", "must have a target in every line. Got 'NA' in line 4, column 'b' instead"),
        ("a,b\n1,2\n3,nan\n", "b", "must have a target in every line. Got 'nan' in line 3, column 'b' instead"),
        ("a,b\n1,2\n3,-\n", "b", "must have a target in every line. Got '-' in line 3, column 'b' instead"),
        ("a,b\n1,2\n3,inf\n", "b", "free of NaN and infinity. Got inf in row 1 of the target instead"),
        ("a,b\n1,-\nnan,+\n", "b", "must have no missing values. Got 'nan' in line 3, column 'a' instead"),
        (
            "1,2\n3,4\n",
            "b",
            "must be the number of a column of .*a.csv, whose first line has no names. Got 'b' instead",
        ),
        ("1,2\n3,4\n", "2", "must be the number of a column of .* Got '2' instead"),
    ],
)
def test_bad_targets(read, text, target, message):
    with pytest.raises(ValueError, match=message):
        read(text, target=target)


@pytest.mark.parametrize("target", [1.5, True, ["a"], b"a"])
def test_targets_of_no_kind(read, target):
    with pytest.raises(TypeError, match="'target' parameter of load_file must be a name, a number or None"):
        read("a,b\n1,2\n", target=target)


# --- what is wrong, and where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv is empty"),
        ("\n \n\n", "a.csv is empty"),
        ("x,y\n", "has a header and no rows"),
        ("x,y\n1,2\n3\n", "must have 2 fields in every line, as in the first. Got 1 in line 3 instead"),
        ("1,2\n\n3,4,5\n", "Got 3 in line 3 instead"),
        ("x,y\n1,2,3\n4,5,6\n", "must have 2 fields in every line, as in the first. Got 3 in line 2 instead"),
        ("x,colour\n1,2\n3,red\n", "numbers in every column except the target. Got 'red' in line 3, column 'colour'"),
        ("M,1,2\nF,3,4\n", "Got 'M' in line 1, column 0 instead"),
        ("x,y\n1,2\n,4\n", "must have no missing values. Got '' in line 3, column 'x' instead"),
        ("x,y\n1,2\n3,?\n", "must have no missing values. Got '\\?' in line 3, column 'y' instead"),
        ("x,y\n1,2\n3,NA\n", "must have no missing values. Got 'NA' in line 3, column 'y'"),
        ("x,y\n1,2\n3,1_000\n", "Got '1_000' in line 3, column 'y'"),
        ("x;y\n1,5;2,5\n", "Got '1,5' in line 2, column 'x' instead. If these are decimal commas, replace them by"),
        ("1,5;2,5\n3,5;4,5\n", "Got '5;2' in line 1, column 1 instead. If these are decimal commas, replace them by"),
        ("x,y\n1,2\n3,nan\n", "must have no missing values. Got 'nan' in line 3, column 'y' instead"),
        ("x,y\n1,2\n\n3,NaN\n", "must have no missing values. Got 'NaN' in line 4, column 'y' instead"),
        ("1,2\ninf,4\n", "must be free of infinity. Got 'inf' in line 2, column 0 instead"),
        ("1,2\n1e999,4\n", "must be free of infinity. Got '1e999' in line 2, column 0 instead"),
        ("# made by hand\n1,2\n3,4\n", "fields in every line, .* in line 2 instead. Lines of comments must be removed"),
        ("# x y\n1 2\n# the end\n", "Got 3 in line 3 instead. Lines of comments must be removed"),
        # A digit only to Python, and a message of NumPy's that ends in a full stop itself.
        ("x,y\n1,2\n3,\uff14\n", r"cannot be read as a table of numbers: could not convert.*[^.]\.$"),
        (b"x,y\n1,\xff\xfe\n", "must be text in UTF-8"),
    ],
)
def test_what_is_wrong_is_said(read, tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(text)
    assert str(tmp_path / "a.csv") in str(caught.value)


@pytest.mark.parametrize(
    "cell", [".", "-", "", "?", "<NA>", "#N/A", "nan", "1.2.3", "12:30", "1_000", "$5", "%", "0x1F"]
)
def test_an_unreadable_cell_makes_no_header(read, cell):
    """The first line is a point among numbers, and would be lost."""
    with pytest.raises(ValueError, match=re.escape(f"Got {cell!r} in line 1, column 1 instead")):
        read(f"1,{cell},3\n4,5,6\n7,8,9\n")


def test_names_without_numbers_may_be_anything(read):
    assert read("%,12:30\n1,2\n").description.endswith(": %, 12:30.")
    assert read("2020,_a\n1,2\n").description.endswith(": 2020, _a.")


def test_columns_keep_their_numbers_beside_a_target(read):
    with pytest.raises(ValueError, match=re.escape("Got 'nan' in line 2, column 2 instead")):
        read("1,2,3\n4,5,nan\n", target=1)


def test_a_fault_far_down_is_found(read):
    rows = [f"{k},{k}" for k in range(5000)]
    rows[4321] = "1,oops"
    with pytest.raises(ValueError, match="Got 'oops' in line 4322, column 1 instead"):
        read("\n".join(rows))
