from __future__ import annotations

import json

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators.archive import read_archive, write_archive
from blockbasis.tables import fit_table
from blockbasis.tables.model import plain


@pytest.fixture
def model(shells):
    return fit_table(shells, "rings", seed=0)[0]


def test_a_file_has_everything(model, shells, tmp_path):
    bb.save(model, tmp_path / "m.bbf")
    again = bb.load(tmp_path / "m.bbf")
    assert isinstance(again, bb.TableModel)
    np.testing.assert_array_equal(again.predict(shells)[0], model.predict(shells)[0])
    assert (again.encoder, again.scorecard, again.rows) == (model.encoder, model.scorecard, model.rows)


def test_a_file_has_no_training_rows(model, shells, tmp_path):
    assert hasattr(model.estimator, "X_fit_")
    bb.save(model, tmp_path / "m.bbf")
    assert not hasattr(bb.load(tmp_path / "m.bbf").estimator, "X_fit_")
    assert hasattr(model.estimator, "X_fit_")


def test_intervals_of_a_table(model, shells):
    (lower, upper), notes = model.predict_interval(shells, coverage=0.8)
    assert (lower < model.predict(shells)[0]).all() and (model.predict(shells)[0] < upper).all()
    wider = model.predict_interval(shells, coverage=0.99)[0]
    assert (wider[0] < lower).all() and notes == model.predict(shells)[1]
    with pytest.raises(ValueError, match="predict_proba needs a classification"):
        model.predict_proba(shells)


def test_probabilities_of_a_table(shells):
    model = fit_table(shells, "sex", test_size=0)[0]
    shares, _ = model.predict_proba(shells)
    assert (model.estimator.classes_[shares.argmax(axis=1)] == model.predict(shells)[0]).all()
    with pytest.raises(ValueError, match="predict_interval needs a regression"):
        model.predict_interval(shells)


def test_classes_and_a_missing_scorecard_are_kept(shells, tmp_path):
    model = fit_table(shells, "sex", test_size=0)[0]
    bb.save(model, tmp_path / "m.bbf")
    again = bb.load(tmp_path / "m.bbf")
    assert again.predict(shells)[0].tolist() == model.predict(shells)[0].tolist()
    assert again.scorecard is None


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(task="sorting"),
        lambda meta: meta["encoder"]["columns"].pop(),
        lambda meta: meta["encoder"]["columns"][0].update(kind="magic"),
        lambda meta: meta["encoder"]["columns"][0].update(fill=None),
        lambda meta: meta["encoder"]["columns"][1].update(categories=[1, 2]),
        lambda meta: meta.update(rows=-1),
        lambda meta: meta.pop("target"),
    ],
)
def test_forged_metadata_are_rejected(model, tmp_path, change):
    path = tmp_path / "m.bbf"
    bb.save(model, path)
    meta, arrays = read_archive(path)
    change(meta)
    for known in ("format", "version", "arrays"):
        meta.pop(known)
    with path.open("wb") as stream:
        write_archive(stream, meta, arrays)
    with pytest.raises(bb.StorageError, match="cannot be restored"):
        bb.load(path)


def test_numbers_that_json_does_not_have():
    assert json.dumps(plain({"a": [np.nan, 1.0], "b": (np.inf,)}), allow_nan=False) == '{"a": [null, 1.0], "b": [null]}'


@pytest.mark.parametrize(
    ("column", "kinds"),
    [
        ("flag", {}),
        ("code", {"code": "one-hot"}),
        ("zip", {"zip": "one-hot"}),
        ("day", {"day": "one-hot"}),
    ],
)
@pytest.mark.parametrize("learned_from", ["file", "frame"])
def test_a_model_predicts_the_same_from_a_file_a_frame_and_parquet(column, kinds, learned_from, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    high = rng.random(60) > 0.5
    written = {
        "flag": high,
        "code": np.where(high, 1.0, 2.0),
        "zip": np.where(high, "07030", "10001"),
        "day": np.where(high, "2024-05-31", "2024-06-01"),
    }
    table = pandas.DataFrame({column: written[column], "x": rng.random(60)})
    table["y"] = 10 * high + table["x"]
    table.to_csv(tmp_path / "t.csv", index=False)
    frame = pandas.read_csv(tmp_path / "t.csv", parse_dates=["day"] if column == "day" else None)
    frame.to_parquet(tmp_path / "t.parquet")
    model, _ = fit_table(tmp_path / "t.csv" if learned_from == "file" else frame, "y", kinds=kinds)
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        predictions, notes = model.predict(source)
        assert notes == []
        np.testing.assert_allclose(predictions, table["y"], atol=1)


def test_classes_of_truth_values_are_written_alike(tmp_path):
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).random(60)
    frame = pandas.DataFrame({"x": x, "y": x > 0.5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        assert fit_table(source, "y")[0].estimator.classes_.tolist() == ["False", "True"]


def test_what_a_model_does_not_use_stops_nothing():
    pandas = pytest.importorskip("pandas")
    x = np.linspace(0, 6, 60)
    frame = pandas.DataFrame({"x": x, "q": [str(i % 7) for i in range(59)] + ["bad"], "lists": [[1]] * 60, "y": x})
    model, _ = fit_table(frame, "y", kinds={"q": "number", "lists": "drop"})
    assert [column.kind for column in model.encoder.columns] == ["number", "number", "drop"]
    expected = model.predict(frame[["x", "q"]][:50])[0]
    others = frame[:50].assign(y=[1, "?!"] * 25, more=np.inf)
    np.testing.assert_array_equal(model.predict(others)[0], expected)
    with pytest.raises(ValueError, match="lacks columns that the model needs: x. It has width"):
        model.predict(frame.rename(columns={"x": "width"}))
