from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import blockbasis as bb
from blockbasis.report import factorization_page, model_page, pages, render_page
from blockbasis.tables import Table, fit_table


def titles(page):
    return [section.title for section in page.sections]


def test_a_regression_has_its_sections(fitted):
    model, evaluation = fitted["regression"]
    page = model_page(model, evaluation, findings=["A finding."], stages={"search": 1.0}, command="blockbasis fit")
    assert titles(page) == [
        "Test error", "Predicted and true values", "Importance of the columns", "Error over bandwidth and ridge",
        "Learning curve of the search", "Time by stage", "Data",
    ]  # fmt: skip
    assert page.facts[0] == ("test RMSE", str(model.scorecard.scores[0]))
    assert page.summary[1] == model.scorecard.verdict
    text = render_page(page)
    assert "A finding." in text
    assert text.count("<svg") == 6
    assert all(section.alt for section in page.sections if section.axes is not None)


def test_a_classification_has_its_confusion_and_calibration(fitted):
    page = model_page(*fitted["classification"])
    assert titles(page)[1:3] == ["Confusion matrix", "Calibration"]
    counts = page.sections[1].table.rows
    assert sum(sum(row[1:]) for row in counts) == 20


def test_the_best_pair_on_the_edge_of_the_map_is_said():
    values = np.zeros((3, 3))
    values[1, 1] = 1
    assert pages._edge(values) == ""
    values[1, 2] = 2
    assert "on the edge of the map" in pages._edge(values)


def test_without_test_rows_and_with_notes():
    x = np.linspace(0, 1, 40)
    y = np.where(x < 0.1, np.nan, np.sin(6 * x))
    page = model_page(*fit_table(Table(("x", "y"), (x, y)), "y", test_size=0))
    assert "Test error" not in titles(page)
    assert titles(page)[-1] == "Notes"
    assert "not known" in page.summary[1]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_compressed_model_shows_its_clusters(task):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.sin(5 * X[:, 0])
    table = Table(("a", "b", "y"), (*X.T, y if task == "regression" else np.where(y > 0, "up", "down").astype(object)))
    page = model_page(*fit_table(table, "y", n_clusters=4, rank=10))
    assert {"Clusters and ranks", "Blocks of the inner matrix", "Memory beside the dense matrix"} <= set(titles(page))


@pytest.mark.parametrize(("task", "score"), [("regression", "R²"), ("classification", "minus the log-loss")])
def test_the_learning_curve_says_what_its_score_is(fitted, task, score):
    page = model_page(*fitted[task])
    curve = next(section for section in page.sections if section.title == "Learning curve of the search")
    assert curve.axes.get_ylabel() == score
    assert curve.table.header == ("kernel", "rows", score)


def test_columns_are_counted_as_in_the_file():
    sizes, kinds = np.linspace(0, 1, 60), np.array(["a", "b", "c"] * 20, dtype=object)
    table = Table(("size", "kind", "y"), (sizes, kinds, np.sin(6 * sizes)))
    assert "from 2 columns, 4 after encoding. It" in model_page(*fit_table(table, "y")).summary[0]


def test_every_figure_of_a_factorization_has_a_table_and_the_data_their_checks(factorization):
    page = factorization_page(factorization, title="300 points", findings=[])
    assert all(section.table.rows for section in page.sections if section.axes is not None)
    assert page.sections[-1].text == ["The checks of the data found nothing."]
    spectra = next(section.table for section in page.sections if section.title == "Spectra of the clusters")
    assert [row[0] for row in spectra.rows][:3] == ["1", "2", "5"]


def test_a_factorization(factorization):
    page = factorization_page(factorization, title="300 points", stages={"bases": 1.0})
    assert titles(page) == [
        "Clusters and ranks", "Blocks of the inner matrix", "Spectra of the clusters",
        "Memory beside the dense matrix", "Time by stage",
    ]  # fmt: skip
    assert "relative error" in page.facts[0]
    assert render_page(page).count("<svg") == 5


def test_the_summary_says_which_entries_the_error_is_from(factorization):
    for exact, source in ((True, "from all entries"), (False, "from sampled exact entries")):
        estimate = replace(factorization.error_estimate, exact=exact)
        page = factorization_page(replace(factorization, error_estimate=estimate), title="300 points")
        assert source in page.summary[1]


def test_many_clusters_have_no_block_map_and_no_error_is_no_fact():
    X = np.random.default_rng(0).normal(size=(900, 2))
    A = bb.factorize(X, bb.Gaussian(0.1), n_clusters=420, rank=1, rng=0)
    page = factorization_page(A, title="t")
    assert "Blocks of the inner matrix" not in titles(page)
    assert page.facts[0][0] == "points"
