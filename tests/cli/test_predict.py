from __future__ import annotations

import csv as csv_format
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb
from blockbasis.cli import console, predict
from blockbasis.tables import read_table


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,sex,length\n7,M,0.5\n8,I,0.25\n9,X,\n")
    return path


def test_predictions_are_those_of_the_model(call, saved, new, tmp_path):
    out = tmp_path / "p.csv"
    code, text = call("predict", saved / "rings.bbf", new, "--out", out, "--interval", 0.9, "--keep", "id")
    assert code == 0, text
    assert "sex: 1 value that the model does not know, such as 'X'" in text
    assert "length: 1 missing value replaced by" in text
    rows = list(csv_format.DictReader(io.StringIO(out.read_text())))
    expected, _ = bb.load(saved / "rings.bbf").predict(read_table(new))
    assert [row["id"] for row in rows] == ["7", "8", "9"]
    assert [float(row["prediction"]) for row in rows] == expected.tolist()
    assert all(float(row["lower"]) < float(row["prediction"]) < float(row["upper"]) for row in rows)


def test_many_rows_are_predicted_by_pieces_with_the_time_left(call, saved, tmp_path, monkeypatch):
    path = tmp_path / "many.csv"
    path.write_text("length,sex\n" + "".join(f"{i / 9},{'MFI'[i % 3]}\n" for i in range(9)))
    whole = json.loads(call("predict", saved / "rings.bbf", path, "--json", "--interval", 0.9)[1])
    monkeypatch.setattr(predict, "_PIECE", 4)
    monkeypatch.setattr(console, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(console, "_NEXT_LINE", 0.0)
    code, text = call("predict", saved / "rings.bbf", path, "--out", tmp_path / "p.csv", "--interval", 0.9, "-j", 1)
    assert code == 0, text
    assert "reading many.csv: " in text
    stage = "predictions of many.csv"
    assert f"{stage}: 33% done, 0 s left {stage}: 67% done, 0 s left {stage}: done" in text
    rows = list(csv_format.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    for name in ("prediction", "lower", "upper"):
        np.testing.assert_allclose([float(row[name]) for row in rows], whole[name], rtol=1e-9)


def test_probabilities_and_parquet(call, saved, new, tmp_path):
    pytest.importorskip("pyarrow")
    code, text = call("predict", saved / "kind.bbf", new, "--proba", "--out", tmp_path / "p.parquet")
    assert code == 0, text
    table = read_table(tmp_path / "p.parquet")
    assert table.names == ("prediction", "p(big)", "p(small)")
    np.testing.assert_allclose(table.columns[1] + table.columns[2], 1)
    assert set(table.columns[0]) <= {"big", "small"}


def test_the_error_is_said_where_the_target_is_known(call, saved, tmp_path):
    (tmp_path / "t.csv").write_text("length,sex,rings\n0.5,M,1.0\n0.2,F,0.7\n0.9,I,\n")
    code, text = call("predict", saved / "rings.bbf", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert code == 0, text
    assert "RMSE against rings of the file:" in text
    assert "(2 rows)" in text
    kept = ("--keep", "rings", "--interval", 0.9, "--force")
    code, text = call("predict", saved / "rings.bbf", tmp_path / "t.csv", "--out", tmp_path / "p.csv", *kept)
    assert code == 0, text
    rows = list(csv_format.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert [row["rings"] for row in rows] == ["1.0", "0.7", "nan"]
    (tmp_path / "t.csv").write_text("length,sex,kind\n0.5,M,big\n0.2,F,big\n")
    code, text = call("predict", saved / "kind.bbf", tmp_path / "t.csv", "--out", tmp_path / "p.csv", "--force")
    assert "error rate against kind of the file: 0 (2 rows)" in text


def test_without_a_file_the_output_is_csv_or_json(call, saved, new):
    found = json.loads(call("predict", saved / "rings.bbf", new, "--json", "--quiet")[1])
    assert found["rows"] == len(found["prediction"]) == 3
    header, *lines = call("predict", saved / "rings.bbf", new, "--quiet")[1].split()
    assert header == "prediction"
    assert [float(line) for line in lines] == found["prediction"]


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_the_end_of_a_reader_is_no_error(saved, tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("length,sex\n" + "0.5,M\n" * 20_000)
    command = [sys.executable, "-m", "blockbasis", "predict", saved / "rings.bbf", path, "--quiet"]
    for more in ([], ["--json"]):
        with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout.read(5)
            process.stdout.close()
            assert process.stderr.read() == b""


def test_points_without_names(call, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    np.savez(tmp_path / "t.npz", X=X, y=X[:, 0] + X[:, 1] ** 2)
    assert call("fit", tmp_path / "t.npz", "-t", "y", "-q", "--out", tmp_path / "m.bbf") == (0, "")
    np.save(tmp_path / "new.npy", X[:5])
    for name in ("new.npy", "t.npz"):
        code, text = call("predict", tmp_path / "m.bbf", tmp_path / name, "--json", "-q")
        assert code == 0, text
        assert np.isfinite(json.loads(text)["prediction"]).all()


def test_known_targets_are_written_as_the_classes():
    truth = np.array(["TRUE", "false", "True"], dtype=object)
    assert predict._as_classes(truth, np.array(["false", "true"])).tolist() == ["true", "false", "true"]
    assert predict._as_classes(np.array(["a", "b"], dtype=object), np.array(["a", "c"])).tolist() == ["a", "b"]
    assert predict._as_classes(np.array([1.0, 0.0]), np.array([0, 1])).dtype.kind == "i"


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_a_model_may_have_the_name_of_a_table(call, saved, new, tmp_path, ending):
    named = tmp_path / f"m{ending}"
    named.write_bytes((saved / "rings.bbf").read_bytes())
    code, text = call("predict", named, new, "--out", tmp_path / "p.csv")
    assert code == 0, text
    np.savez(tmp_path / "array.npz", X=np.eye(3))
    code, text = call("predict", tmp_path / "array.npz", new)
    assert "array.npz is a table, and not a model" in text
