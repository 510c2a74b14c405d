from __future__ import annotations

import numpy as np
import pytest

from blockbasis.streaming import ArrayRows, ChunkRows, ParquetRows, sources
from blockbasis.streaming.sources import as_rows, is_streamed


def whole(rows):
    return np.concatenate([piece.values for piece in rows.pieces()])


def as_array(points, path):
    return ArrayRows(points)


def as_chunks(points, path):
    return ChunkRows(np.array_split(points, 7), len(points))


def as_files(points, path):
    return ParquetRows(path, columns=["a", "b", "c"])


def as_hdf5(points, path):
    file = pytest.importorskip("h5py").File(path / "points.h5", "w")
    return ArrayRows(file.create_dataset("X", data=points))


def as_zarr(points, path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(zarr.storage.MemoryStore(), shape=points.shape, chunks=(500, 3), dtype=points.dtype)
    array[...] = points
    return ArrayRows(array)


@pytest.mark.parametrize("make", [as_array, as_chunks, as_files, as_hdf5, as_zarr])
def test_pieces_are_the_rows_of_the_table_in_order(make, points, parquet, monkeypatch):
    monkeypatch.setattr(sources, "_PIECE_ROWS", 256)
    rows = make(points, parquet)
    pieces = list(rows.pieces())
    assert rows.shape == points.shape and max(len(piece.values) for piece in pieces) <= 256
    assert [piece.start for piece in pieces] == np.cumsum([0, *(len(piece.values) for piece in pieces)])[:-1].tolist()
    np.testing.assert_array_equal(whole(rows), points)
    np.testing.assert_array_equal(rows.take(np.array([0, 255, 256, 2999])), points[[0, 255, 256, 2999]])


def test_float32_is_kept_and_other_numbers_become_float64():
    assert whole(ArrayRows(np.zeros((3, 2), dtype=np.float32))).dtype == np.float32
    assert whole(ChunkRows([np.ones((2, 2), dtype=np.int8), np.ones((1, 2), dtype=bool)], 3)).dtype == np.float64


def test_a_data_set_of_pyarrow_is_read_in_pieces(points, parquet):
    dataset = pytest.importorskip("pyarrow.dataset").dataset(parquet)
    assert is_streamed(dataset)
    np.testing.assert_array_equal(whole(as_rows(dataset))[:, :3], points)


def test_small_arrays_on_disk_are_not_read_in_pieces(on_disk, small_sample):
    assert is_streamed(on_disk) and not is_streamed(on_disk[:1000]) and not is_streamed(np.zeros((10**6, 1)))
    assert is_streamed(ArrayRows(np.zeros((2, 2))))


def test_chunks_with_other_columns_are_named():
    with pytest.raises(ValueError, match=r"3 columns in all pieces. Got shape \(2, 4\) in chunk 1, row 0"):
        whole(ChunkRows([np.zeros((2, 3)), np.zeros((2, 4))], 4))


def test_chunks_of_text_are_named():
    with pytest.raises(TypeError, match="array of numbers. Got dtype <U1 in chunk 1, row 0"):
        whole(ChunkRows([np.zeros((2, 1)), np.array([["a"]])], 3))


def test_a_wrong_number_of_rows_is_named():
    with pytest.raises(ValueError, match="must have the 5 rows that it announces. Got 4"):
        whole(ChunkRows([np.zeros((4, 1))], 5))


def test_a_generator_is_refused():
    with pytest.raises(TypeError, match="iterated several times"):
        ChunkRows((np.zeros((2, 2)) for _ in range(3)), 6)


@pytest.mark.parametrize("chunks", [[], [np.zeros(3)]])
def test_chunks_that_are_no_tables_are_refused(chunks):
    with pytest.raises(ValueError, match="two-dimensional arrays"):
        ChunkRows(chunks, 3)


@pytest.mark.parametrize("array", [3.0, np.zeros((2, 2, 2)), np.zeros((0, 2))])
def test_arrays_that_are_no_tables_are_refused(array):
    with pytest.raises(ValueError, match=r"of shape \(n_points, n_features\)"):
        ArrayRows(array)


def test_other_numbers_of_columns_are_refused():
    with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
        as_rows(np.zeros((2, 2)), n_features=3, caller="KernelRidge")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_entry_that_is_not_finite_is_named_by_file_and_row(bad, points, parquet):
    pyarrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = points[:1000].copy()
    values[777, 1] = bad
    tables.write_table(
        pyarrow.table(dict(zip("abc", values.T, strict=True))), parquet / "1.parquet", row_group_size=400
    )
    with pytest.raises(ValueError, match="free of NaN and infinity. Got one in file 1.parquet, row 777"):
        whole(ParquetRows(parquet, columns=["a", "b", "c"]))


def test_a_truncated_file_is_named(parquet):
    data = (parquet / "2.parquet").read_bytes()
    (parquet / "2.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"2.parquet is not a Parquet file, or is truncated"):
        ParquetRows(parquet)


def test_directories_without_files_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="has no file whose name ends with .parquet"):
        ParquetRows(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file or directory"):
        ParquetRows(tmp_path / "missing")


def test_a_file_with_other_columns_or_text_is_named(parquet):
    pyarrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    tables.write_table(pyarrow.table({"a": [1.0], "b": [1.0]}), parquet / "1.parquet")
    with pytest.raises(ValueError, match="file 1.parquet has no column 'c'"):
        whole(ParquetRows(parquet, columns=["a", "c"]))
    tables.write_table(pyarrow.table({"a": ["x"], "c": [1.0]}), parquet / "1.parquet")
    with pytest.raises(TypeError, match="Column 'a' must hold numbers. Got string in file 1.parquet"):
        whole(ParquetRows(parquet, columns=["a", "c"]))
    with pytest.raises(ValueError, match="no column 'z'"):
        ParquetRows(parquet, columns="z")


def test_changes_of_a_private_memory_map_are_kept(tmp_path):
    np.save(tmp_path / "points.npy", np.full((1000, 3), 100.0))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="c")
    mapped /= 100
    for _ in range(2):
        np.testing.assert_array_equal(whole(ArrayRows(mapped)), 1.0)
