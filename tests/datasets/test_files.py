from __future__ import annotations

import builtins
import codecs
import contextlib

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from blockbasis.datasets import Dataset, files, load_file
from tests.repeating import first_of

X = np.array([[1.5, 0.0, 3.0], [0.0, 5.0, 6.0]])
y = np.array([1, -1])


# --- npy and npz -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool])
def test_npy(tmp_path, dtype):
    path = tmp_path / "a.npy"
    np.save(path, X.astype(dtype))
    data = load_file(path)
    np.testing.assert_array_equal(data.X, X.astype(dtype))
    assert data.X.dtype == (np.float32 if dtype is np.float32 else np.float64)
    assert data.y is None
    assert (data.name, data.source, data.description) == ("a", str(path), "2 points, 3 columns.")
    by_number = load_file(str(path), target=-1)
    np.testing.assert_array_equal(by_number.X, X[:, :2].astype(dtype))
    np.testing.assert_array_equal(by_number.y, X[:, 2].astype(dtype))


def test_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X, y=y, nsp=y + 7, other=np.zeros((4, 4)))
    np.testing.assert_array_equal(load_file(path).X, X)
    np.testing.assert_array_equal(load_file(path).y, y)
    np.testing.assert_array_equal(load_file(path, target="nsp").y, y + 7)
    np.testing.assert_array_equal(load_file(path, target=0).y, X[:, 0])
    np.testing.assert_array_equal(load_file(path, target=0).X, X[:, 1:])
    np.savez_compressed(path, points=X, names=np.array(["a", "b"]))
    np.testing.assert_array_equal(load_file(path).X, X)
    assert load_file(path).y is None
    assert load_file(path, target="names").y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        (
            {"a": X, "b": X},
            {},
            "must hold an array X, or a single array of numbers in two dimensions. Got a, b instead",
        ),
        ({"a": y}, {}, "must hold an array X, or a single array"),
        ({"X": y}, {}, r"must hold points by columns, at least one of each. Got shape \(2,\) instead"),
        ({"X": X[:0]}, {}, "at least one of each"),
        ({"X": X.astype(str)}, {}, "must hold real numbers. Got dtype <U"),
        ({"X": X + 1j}, {}, "must hold real numbers. Got dtype complex128"),
        ({"X": X, "y": np.zeros(3)}, {}, r"one target for each of the 2 points. Got shape \(3,\) instead"),
        ({"X": X}, {"target": "y"}, "must name an array of .*, which has X. Got 'y' instead"),
        ({"X": X}, {"target": 3}, "must be the number of one of the 3 columns"),
        ({"X": X[:, :1]}, {"target": 0}, "at least one of each"),
        ({"X": X, "y": np.array([1.0, np.nan])}, {}, "Got nan in row 1 of the target"),
        ({"X": X, "y": y + 1j}, {}, "must hold numbers or text as the target. Got dtype complex128 instead"),
        (
            {"X": X, "y": y.astype("M8[s]")},
            {},
            r"a.npz must hold numbers or text as the target. Got dtype datetime64\[s\]",
        ),
        ({"X": X, "y": y.astype(object)}, {}, "is not a complete npz file of numbers: Object arrays cannot be loaded"),
        ({"X": np.where(X == 5, np.inf, X)}, {}, "Got inf in row 1, column 1 instead"),
    ],
)
def test_bad_npz(tmp_path, arrays, settings, message):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        load_file(path, **settings)


def test_a_name_for_a_table_without_names(tmp_path):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(ValueError, match="'target' parameter of load_file must name one column of"):
        load_file(tmp_path / "a.npy", target="x")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
@pytest.mark.parametrize("content", [b"no such thing", b"PK\x03\x04 cut", b"\x93NUMPY cut"])
def test_what_is_not_numpys(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is not a complete np[yz] file of numbers"):
        load_file(tmp_path / name)


def test_truncated_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="not a complete npz file"):
        load_file(path)


def test_other_arrays_are_not_read(tmp_path):
    path, other = tmp_path / "a.npz", np.array([[object()]])
    np.savez(path, X=X, y=y, other=other)
    np.testing.assert_array_equal(load_file(path).y, y)
    np.savez(path, points=X, nsp=y, y=other, other=other)
    np.testing.assert_array_equal(load_file(path, target="nsp").X, X)


@pytest.mark.parametrize(("flipped", "step"), first_of([(0xFF, 3), (0xFF, 1), (0x01, 1)]))
@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
def test_damaged_bytes_have_one_error(tmp_path, save, flipped, step):
    """Of zipfile, zlib, tokenize and numpy come many more; a byte that changes a number only goes unseen in npy."""
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, X) if save is np.save else save(path, X=X, y=y)
    whole = path.read_bytes()
    for place in range(0, len(whole), step):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flipped]) + whole[place + 1 :])
        with contextlib.suppress(ValueError):
            assert isinstance(load_file(path), Dataset)


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_nothing_is_unpickled(tmp_path, save):
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, np.array([[object()]], dtype=object))
    with pytest.raises(ValueError, match="of numbers"):
        load_file(path)


# --- LIBSVM ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["libsvm", "svm", "svmlight"])
def test_libsvm(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    data = load_file(path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert isinstance(data.X, np.ndarray)
    with pytest.raises(ValueError, match="'target' parameter of load_file must be None for a LIBSVM file"):
        load_file(path, target=0)
    path.write_text("1 1:0.5\nx y:z\n")
    with pytest.raises(ValueError, match="is not a LIBSVM file"):
        load_file(path)
    path.write_text("# nothing\n")
    with pytest.raises(ValueError, match="at least one of each"):
        load_file(path)


def test_libsvm_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.svm"
    path.write_bytes(codecs.BOM_UTF8 + b"1 1:0.5 2:2\n-1 1:3\n")
    assert load_file(path).X.tolist() == [[0.5, 2], [3, 0]]
    assert load_file(path).y.tolist() == [1, -1]


@pytest.mark.parametrize("index", [3 * 10**9, 10**11, 10**30])
def test_libsvm_with_an_index_beyond_all_integers(tmp_path, index):
    path = tmp_path / "a.svm"
    path.write_text(f"1 {index}:1\n")
    with pytest.raises(ValueError, match=r"a.svm is not a LIBSVM file, lines of 'label index:value ...': .*[^.]\.$"):
        load_file(path)


def test_libsvm_that_does_not_fit_as_a_dense_array(tmp_path, monkeypatch):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n2 1000:1\n")
    monkeypatch.setattr(files, "available_memory", lambda: 15_999)
    with pytest.raises(
        MemoryError, match="fit into memory .* Got 2 points and indices up to 1000, 1.6e-05 GB, instead"
    ):
        load_file(path)
    for enough in (16_000, None):
        monkeypatch.setattr(files, "available_memory", lambda enough=enough: enough)
        assert load_file(path).X.shape == (2, 1000)


# --- Parquet ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    """Function that writes columns to a file."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(**columns):
        path = tmp_path / "a.parquet"
        parquet.write_table(pa.table(columns), path)
        return path

    return write


def test_parquet(parquet):
    path = parquet(a=[1, 2], b=[0.5, 1.5], c=["x", "y"], d=[True, False])
    data = load_file(path, target="c")
    assert data.X.tolist() == [[1, 0.5, 1], [2, 1.5, 0]]
    assert data.X.dtype == np.float64
    assert data.y.tolist() == ["x", "y"]
    assert data.y.dtype.kind == "U"
    assert data.description == "2 points, 3 columns: a, b, d."
    np.testing.assert_array_equal(load_file(parquet(a=[1, 2], b=[3, 4]), target=0).y, [1, 2])
    assert load_file(parquet(a=[1, 2])).y is None
    assert load_file(parquet(a=np.ones(2, np.float32))).X.dtype == np.float32


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"a": [1, 2], "b": ["x", "y"]}, {}, "numbers in every column except the target. Got string in column 'b'"),
        ({"a": [1, 2], "b": [1, None]}, {}, "free of NaN and infinity. Got nan in row 1, column 'b' instead"),
        ({"a": [True, None]}, {}, "free of NaN and infinity. Got nan in row 1, column 'a' instead"),
        ({"a": [1, 2], "b": ["x", None]}, {"target": "b"}, "must have a target in every row. Got none in row 1"),
        ({"a": [1, 2]}, {"target": "b"}, "must name one column of .*'a'. Got 'b' instead"),
        ({"a": [1, 2]}, {"target": "a"}, "2 rows and 0 columns beside the target"),
        ({"a": [1, 2], "b": [[1], [2]]}, {"target": "b"}, "must hold numbers or text as the target. Got dtype object"),
        ({"a": [1, 2], "b": y.astype("M8[s]")}, {"target": "b"}, r"a.parquet must hold .* Got dtype datetime64\[ms\]"),
    ],
)
def test_bad_parquet(parquet, columns, settings, message):
    with pytest.raises(ValueError, match=message):
        load_file(parquet(**columns), **settings)


def test_the_index_of_pandas(tmp_path):
    """Without a name it labels rows; a name makes it a column."""
    path = tmp_path / "a.parquet"
    table = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}, index=[7, 3, 5])
    table.to_parquet(path)
    assert load_file(path).X.tolist() == table.to_numpy().tolist()
    assert load_file(path, target=-1).y.tolist() == [0.5, 1.5, 2.5]
    table.rename_axis("place").to_parquet(path)
    assert load_file(path).description == "3 points, 3 columns: a, b, place."


def test_parquet_classes_of_pandas(tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": [1, 2, 3], "b": pd.Categorical(["x", "y", "x"])}).to_parquet(path)
    assert load_file(path, target="b").y.tolist() == ["x", "y", "x"]


def test_parquet_columns_of_one_name(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]), path)
    assert load_file(path).X.tolist() == [[1, 3], [2, 4]]
    assert load_file(path, target=1).y.tolist() == [3, 4]
    with pytest.raises(ValueError, match="must name one column of .* Got 'a' instead"):
        load_file(path, target="a")


def test_an_empty_parquet(parquet):
    with pytest.raises(ValueError, match="at least one of each. Got 0 rows"):
        load_file(parquet(a=np.empty(0)))


def test_what_is_not_parquet(parquet):
    path = parquet(a=[1, 2])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="is not a complete Parquet file"):
        load_file(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ImportError, match=r"needs pyarrow to read .*: pip install pyarrow, or pip install blockbasis\[data\]"
    ):
        load_file(path)


# --- paths -----------------------------------------------------------------------------------------------------------


def test_bad_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="'path' parameter of load_file must be a file that exists"):
        load_file(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match="'path' parameter of load_file must be a file. Got"):
        load_file(tmp_path)
    with pytest.raises(TypeError, match="'path' parameter of load_file must be a path to a file. Got ndarray instead"):
        load_file(X)
    for name in ("a.xlsx", "a"):
        (tmp_path / name).write_text("1")
        with pytest.raises(ValueError, match=f"must end in one of .csv, .*.svmlight. Got '{name}' instead"):
            load_file(tmp_path / name)


@pytest.mark.parametrize("suffix", ["csv", "npz", "npy", "parquet", "svm"])
def test_empty_files(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    path.touch()
    with pytest.raises(ValueError, match=f"a.{suffix} is empty"):
        load_file(path)
