from __future__ import annotations

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
from blockbasis.distributed.rows import DaskRows  # noqa: E402


def test_rows_of_an_array_in_any_blocks(client, points):
    X, _ = points
    for chunks in [(700, 2), (3000, 1), (1000, 2)]:
        rows = DaskRows(da.from_array(X, chunks=chunks), client)
        assert rows.shape == (3000, 2)
        np.testing.assert_array_equal(rows.take(np.array([0, 699, 700, 2999])), X[[0, 699, 700, 2999]])
        np.testing.assert_array_equal(np.concatenate([piece.values for piece in rows.pieces()]), X)


def test_columns_of_a_data_frame_are_taken_by_name(client, points):
    X, y = points
    frame = dd.from_pandas(pd.DataFrame({"y": y, "b": X[:, 1], "a": X[:, 0]}), npartitions=3)
    rows = DaskRows(frame, client, columns=["a", "b"])
    np.testing.assert_array_equal(rows.take(np.arange(3000)), X)
    with pytest.raises(ValueError, match="must have the column 'c'"):
        DaskRows(frame, client, columns=["c"])


def test_blocks_without_rows_are_left_out(client, points):
    X, _ = points
    array = da.from_array(X, chunks=(1000, 2))
    rows = DaskRows(array[array[:, 0] > 1.5], client)  # of unknown lengths
    assert len(rows.blocks) == 3 and len(rows) == (X[:, 0] > 1.5).sum()
    empty = da.concatenate([array[:1000], array[:0], array[1000:]])
    assert DaskRows(empty, client).lengths.tolist() == [1000, 1000, 1000]


def test_bad_rows_are_named_by_block_and_row(client, points):
    X = points[0].copy()
    X[1234, 1] = np.nan
    rows = DaskRows(da.from_array(X, chunks=(1000, 2)), client)
    with pytest.raises(ValueError, match="free of NaN and infinity. Got one in block 1, row 234"):
        rows.take(np.array([1000]))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((3, 2)), TypeError, "must be a dask array or a dask data frame. Got ndarray"),
        (da.zeros((2, 2, 2)), ValueError, "must have two dimensions. Got 3"),
        (da.zeros((0, 2)), ValueError, "at least one row and one column"),
    ],
)
def test_other_objects_are_refused(X, error, message, client):
    with pytest.raises(error, match=message):
        DaskRows(X, client)
