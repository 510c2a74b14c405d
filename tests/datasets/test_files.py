from __future__ import annotations

import builtins

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from blockbasis.datasets import load_file

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
        ({"a": X, "b": X}, {}, "must hold an array X, or a single array of two dimensions. Got a, b instead"),
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
    with pytest.raises(ValueError, match=f"{name} is not a whole np[yz] file of numbers"):
        load_file(tmp_path / name)


def test_truncated_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="not a whole npz file"):
        load_file(path)


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
    ],
)
def test_bad_parquet(parquet, columns, settings, message):
    with pytest.raises(ValueError, match=message):
        load_file(parquet(**columns), **settings)


def test_an_empty_parquet(parquet):
    with pytest.raises(ValueError, match="at least one of each. Got 0 rows"):
        load_file(parquet(a=np.empty(0)))


def test_what_is_not_parquet(parquet):
    path = parquet(a=[1, 2])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="is not a whole Parquet file"):
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
