from __future__ import annotations

import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
import blockbasis as bb  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    """900 rows in three Parquet files."""
    rng, folder = np.random.default_rng(0), tmp_path / "table"
    folder.mkdir()
    for i in range(3):
        X = rng.uniform(-2, 2, size=(300, 2))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=300)
        parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), folder / f"{i}.parquet", row_group_size=100)
    return folder


@pytest.fixture
def few(monkeypatch):
    """Samples of 400 rows."""
    for module in ("tables.folders", "streaming.sources", "streaming.factorization", "cli.compress"):
        monkeypatch.setattr(f"blockbasis.{module}.SAMPLE_ROWS", 400)


@pytest.fixture(scope="module")
def address():
    """Of a scheduler with two workers in this process, reachable by TCP."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp", memory_limit=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize("where", ["here", "on workers"])
def test_fit_and_predict_of_a_folder(where, call, folder, few, tmp_path, request):
    cluster = () if where == "here" else ("--cluster", request.getfixturevalue("address"))
    out = tmp_path / "model.bbf"
    code, text = call("fit", folder, "--target", "y", "--out", out, "--jobs", 1, *cluster)
    assert code == 0, text
    assert "table: 900 rows in 3 files, 400 drawn at random to choose and test, 3 columns" in text
    assert "320 rows determine the basis functions. The rows that were not drawn are learnt." in text
    assert "fitted to 820 rows" in text  # all but the 80 test rows of a sample of 400
    code, text = call("predict", out, folder, "--out", tmp_path / "p.csv", "--keep", "a", *cluster)
    assert code == 0, text
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    y = np.concatenate([parquet.read_table(path)["y"].to_numpy() for path in sorted(folder.iterdir())])
    assert len(rows) == 900 and set(rows[0]) == {"a", "prediction"}
    assert np.sqrt(np.mean((np.array([float(row["prediction"]) for row in rows]) - y) ** 2)) < 0.07


def test_compress_reads_a_folder(call, folder, few, tmp_path):
    out = tmp_path / "a.bbf"
    code, text = call("compress", folder, "--target", "y", "--tol", 0.05, "--bandwidth", 1, "--out", out)
    assert code == 0, text
    A = bb.load(out)
    assert A.shape == (900, 900) and A.error_estimate.value <= 0.05


def test_compress_on_workers_writes_a_folder(call, folder, few, tmp_path, address):
    from distributed import Client

    from blockbasis.distributed import load

    out = tmp_path / "factors"
    code, text = call(
        "compress",
        folder,
        "--target",
        "y",
        "--tol",
        0.05,
        "--bandwidth",
        1,
        "--out",
        out,
        "--cluster",
        address,
        "--json",
    )
    assert code == 0, text
    assert json.loads(text)["points"] == 900
    with Client(address, set_as_default=False) as client:
        assert load(out, client).shape == (900, 900)


def test_folders_and_clusters_that_cannot_be_used_are_named(call, folder, csv, tmp_path, monkeypatch):
    code, text = call("fit", tmp_path, "--target", "y", "--out", tmp_path / "m.bbf")
    assert code != 0 and "has no file whose name ends with .parquet" in text
    code, text = call("fit", csv, "--target", "price", "--out", tmp_path / "m.bbf", "--cluster", "tcp://127.0.0.1:1")
    assert code != 0 and "--cluster needs a directory of Parquet files" in text
    pytest.importorskip("distributed")
    monkeypatch.setattr("blockbasis.distributed.client._ANSWER", 1)
    code, text = call("compress", folder, "--tol", 0.1, "--out", tmp_path / "x", "--cluster", "tcp://127.0.0.1:1")
    assert code != 0 and "No dask scheduler answers at tcp://127.0.0.1:1" in text
