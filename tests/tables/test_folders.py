from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table, encode, fit_table
from blockbasis.tables.folders import learn_others, parquet_files, pieces, sample_table

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path):
    """1,500 rows in three files, with text and missing values."""
    rng = np.random.default_rng(0)
    for i in range(3):
        x, sex = rng.uniform(0, 6, 500), rng.choice(["M", "F"], 500)
        y = np.sin(x) + (sex == "M") + 0.05 * rng.normal(size=500)
        table = {"x": [None if j == 7 else v for j, v in enumerate(x.tolist())], "sex": sex.tolist(), "y": y.tolist()}
        parquet.write_table(pa.table(table), tmp_path / f"{i}.parquet", row_group_size=200)
    return tmp_path


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr("blockbasis.tables.folders.SAMPLE_ROWS", 600)


def in_turn(function, tasks):
    first, *others = (function(*task) for task in tasks)
    for other in others:
        first = first.plus(other)
    return first


def test_row_groups_are_tables(folder):
    found = list(pieces(folder / "1.parquet"))
    assert [piece.n_rows for piece in found] == [200, 200, 100]
    assert found[0].names == ("x", "sex", "y") and np.isnan(found[0].column("x")[7])


def test_a_sample_has_rows_of_all_files(folder, few):
    table, rows = sample_table(folder, 0)
    assert table.n_rows == 600 and all(150 < len(own) < 250 for own in rows)
    y = np.concatenate([piece.column("y") for piece in pieces(folder / "0.parquet")])
    np.testing.assert_array_equal(table.column("y")[: len(rows[0])], y[rows[0]])


def test_the_others_are_learnt(folder, few):
    table, rows = sample_table(folder, 0)
    model, _ = fit_table(table, "y", seed=0, n_jobs=1)
    fitted = model.rows
    more = learn_others(model, folder, rows, in_turn)
    assert more.rows == fitted + 900 and more.estimator.stream_.sums.n_rows == fitted + 900
    X, _ = encode(more.encoder, Table(("x", "sex"), (np.array([1.0]), np.array(["F"], dtype=object))))
    assert more.estimator.predict(X)[0] == pytest.approx(np.sin(1.0), abs=0.05)


def test_a_folder_that_was_sampled_whole_changes_nothing(folder):
    table, rows = sample_table(folder, 0)
    model, _ = fit_table(table, "y", seed=0, n_jobs=1)
    assert learn_others(model, folder, rows, in_turn) is model


def test_folders_that_cannot_be_read_are_named(folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="has no file whose name ends with .parquet"):
        parquet_files(empty)
    data = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(data[:100])
    with pytest.raises(ValueError, match="1.parquet is not a complete Parquet file"):
        sample_table(folder, 0)
    parquet.write_table(pa.table({"x": [1.0], "z": [1.0]}), folder / "1.parquet")
    with pytest.raises(ValueError, match="1.parquet must have the columns of .*0.parquet: x, sex, y"):
        sample_table(folder, 0)
