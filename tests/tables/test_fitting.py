from __future__ import annotations

import numpy as np
import pytest

from blockbasis.tables import Table, fit_table, prepare_table


@pytest.fixture
def frame(shells):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: shells.column(name) for name in shells.names})


def test_a_data_frame_is_fitted_as_the_table_is(shells, frame):
    model, _ = fit_table(frame, "rings", seed=0)
    expected, _ = fit_table(shells, "rings", seed=0)
    assert model.encoder == expected.encoder
    predictions, notes = model.predict(frame.drop(columns="rings"))
    np.testing.assert_allclose(predictions, expected.predict(shells)[0], rtol=1e-12)
    assert notes == expected.predict(shells)[1]


def test_a_path_is_fitted_as_the_table_of_the_file_is(frame, tmp_path):
    path = tmp_path / "shells.csv"
    frame.to_csv(path, index=False)
    model, _ = fit_table(path, "rings", seed=0, kinds={"sex": "ordinal"})
    expected, _ = fit_table(frame, "rings", seed=0, kinds={"sex": "ordinal"})
    assert model.encoder == expected.encoder
    np.testing.assert_allclose(model.predict(str(path))[0], expected.predict(frame)[0], rtol=1e-12)
    path.write_text(path.read_text() + "much,M,2024-01-01,1\n")
    with pytest.raises(ValueError, match=r"Correct it, or empty the cell\.$"):
        model.predict(path)


def test_missing_text_of_a_table_may_be_nan(shells):
    sex = np.array([np.nan if each is None else each for each in shells.column("sex")], dtype=object)
    table = Table(list(shells.names), (shells.columns[0], sex, *shells.columns[2:]))
    assert fit_table(table, "rings", seed=0)[0].encoder == fit_table(shells, "rings", seed=0)[0].encoder


def test_other_tables_are_named():
    with pytest.raises(TypeError, match="path of a file, a pandas DataFrame or a Table. Got dict instead"):
        fit_table({"x": [1.0]}, "x")


def test_what_is_returned_is_shown_on_one_line(shells):
    model, evaluation = fit_table(shells, "rings", seed=0)
    error = f"test RMSE {model.scorecard.scores[0]}"
    assert repr(model) == f"TableModel(regression of rings, 3 columns, fitted to 96 rows, {error})"
    assert repr(evaluation) == "Evaluation(24 test rows: kernel model, linear model, mean)"
    assert repr(evaluation.prepared) == "Prepared(regression of rings, 96 training rows, 24 test rows, 6 columns)"
    assert repr(model.encoder) == "TableEncoder(3 columns, encoded as 6)"
    assert repr(shells) == "Table(shells.csv, 120 rows, 4 columns: size, sex, found, rings)"


@pytest.mark.parametrize("keep_points", [True, False])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_rows_that_a_budget_leaves_out_are_not_counted(task, keep_points):
    X = np.random.default_rng(0).normal(size=(25_000, 2))
    product = X[:, 0] * X[:, 1]
    table = Table(("a", "b", "y"), (X[:, 0], X[:, 1], product if task == "regression" else np.sign(product)))
    with pytest.warns(UserWarning, match="was fitted to [0-9]+ of them") as warned:
        model, _ = fit_table(table, "y", time_budget=0.5, n_jobs=1, keep_points=keep_points)
    assert f"was fitted to {model.rows} of them" in " ".join(str(each.message) for each in warned)


def test_the_task_follows_from_the_target(shells):
    assert prepare_table(shells, "rings").task == "regression"
    assert prepare_table(shells, "sex").task == "classification"
    two = Table(("x", "y"), (np.arange(20.0), np.arange(20.0) % 2))
    assert prepare_table(two, "y").task == "classification"
    few = prepare_table(Table(("x", "y"), (np.arange(20.0), np.arange(20.0) % 3)), "y")
    assert few.task == "regression"
    assert "taken as quantities" in few.notes[0]
    asked = prepare_table(Table(("x", "y"), (np.arange(20.0), np.arange(20.0) % 3)), "y", task="classification")
    assert asked.y.dtype.kind == "i"


def test_rows_without_a_target_are_left_out(shells):
    prepared = prepare_table(shells, "sex")
    assert len(prepared.y) + len(prepared.y_test) == shells.n_rows - 1
    assert prepared.notes == ["sex: 1 rows without a value are left out"]


def test_test_rows_are_not_those_of_the_fit(shells):
    prepared = prepare_table(shells, "rings", test_size=0.25, seed=3)
    assert (len(prepared.y), len(prepared.y_test)) == (90, 30)
    assert not set(prepared.y) & set(prepared.y_test)
    assert len(prepare_table(shells, "rings", test_size=0).y_test) == 0


def test_a_fit_is_compared_with_simple_models(shells):
    model, evaluation = fit_table(shells, "rings", seed=0)
    ours, linear, mean = model.scorecard.scores
    assert ours.error < linear.error < mean.error
    assert set(evaluation.predictions) == {"kernel model", "linear model", "mean"}
    assert evaluation.probabilities is None


def test_a_classification_has_probabilities(shells):
    model, evaluation = fit_table(shells, "sex", seed=0)
    assert [score.name for score in model.scorecard.scores][-1] == "most frequent class"
    np.testing.assert_allclose(evaluation.probabilities.sum(axis=1), 1)


def test_without_a_test_there_is_no_scorecard(shells):
    model, evaluation = fit_table(shells, "rings", test_size=0)
    assert model.scorecard is None
    assert evaluation.predictions == {}


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (np.full(20, 3.0), None, "different values. Got 3.0 in every row"),
        (np.where(np.arange(20) < 4, np.arange(20.0), np.nan), None, "at least 10 rows with a value of 'y'. Got 4"),
        (np.array(["a", "b"] * 10, dtype=object), "regression", "A regression needs numbers"),
        (np.arange(20).astype("datetime64[D]"), None, "Got dates"),
    ],
)
def test_targets_that_cannot_be_learned(y, task, message):
    with pytest.raises(ValueError, match=message):
        prepare_table(Table(("x", "y"), (np.arange(20.0), y)), "y", task=task)


def test_a_target_alone_is_not_enough():
    with pytest.raises(ValueError, match="a column beside the target"):
        prepare_table(Table(("y",), (np.arange(20.0),)), "y")


def test_classes_of_one_row_are_split_all_the_same():
    y = np.array(["a"] * 19 + ["b"] + ["c"] * 20, dtype=object)
    prepared = prepare_table(Table(("x", "y"), (np.arange(40.0), y)), "y")
    assert len(prepared.y_test) == 8
    lone = np.array(["a"] * 39 + ["b"], dtype=object)
    seeds = [seed for seed in range(20) if _fails(lone, seed)]
    assert seeds


def _fails(y, seed):
    try:
        prepare_table(Table(("x", "y"), (np.arange(40.0), y)), "y", seed=seed)
    except ValueError as error:
        return "a single class" in str(error)
    return False
