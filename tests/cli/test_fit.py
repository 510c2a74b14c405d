from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")

import blockbasis as bb


def test_a_regression_from_a_file(call, shells, tmp_path):
    out = tmp_path / "m.bbf"
    code, text = call("fit", shells, "--target", "rings", "--column", "kind=drop", "--out", out)
    assert code == 0, text
    assert "shells.csv: 80 rows, 5 columns" in text
    assert "sex: text, one-hot with 3 categories (F, I, M)" in text
    assert "length: missing values replaced by" in text
    assert "found: date, in days since 1970-01-01" in text
    assert "Regression of rings, fitted to 64 rows" in text
    assert "Errors at 16 test rows" in text
    assert "The kernel model has the lowest test error" in text
    model = bb.load(out)
    assert model.target == "rings"
    assert model.scorecard.scores[0].error < model.scorecard.scores[1].error


def test_text_as_the_target_is_a_classification(call, shells, tmp_path):
    code, text = call(
        "fit", shells, "-t", "kind", "--out", tmp_path / "m.bbf", "--json", "--seed", 3, "--column", "rings=drop"
    )
    assert code == 0, text
    found = json.loads(text)
    assert found["task"] == "classification"
    assert [score["name"] for score in found["scorecard"]["scores"]] == [
        "kernel model", "linear model", "most frequent class",
    ]  # fmt: skip
    assert found["out"] == str(tmp_path / "m.bbf")


def test_the_seed_alone_decides(call, shells, tmp_path):
    errors = []
    for seed, jobs in ((0, 1), (0, 2), (1, 1)):
        options = ("--json", "--seed", seed, "--jobs", jobs, "--force", "--out", tmp_path / "m.bbf")
        errors.append(json.loads(call("fit", shells, "-t", "rings", *options)[1])["scorecard"]["scores"][0]["error"])
    assert errors[0] == errors[1] != errors[2]


def test_quiet_prints_nothing(call, shells, tmp_path):
    assert call("fit", shells, "-t", "rings", "-q", "--test-size", 0, "--out", tmp_path / "m.bbf") == (0, "")
    assert bb.load(tmp_path / "m.bbf").scorecard is None


def test_without_a_test_the_error_is_not_known(call, shells, tmp_path):
    code, text = call("fit", shells, "-t", "rings", "--test-size", 0, "--out", tmp_path / "m.bbf")
    assert code == 0
    assert "the error of the model is not known" in text


def test_a_column_that_holds_the_answer_is_said(call, tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 2))
    np.savetxt(tmp_path / "t.csv", np.column_stack([x, x[:, 0]]), delimiter=",", header="a,b,y", comments="")
    code, text = call("fit", tmp_path / "t.csv", "-t", "y", "--out", tmp_path / "m.bbf")
    assert code == 0, text
    assert "The column 'a' alone explains" in text


def test_columns_are_named_with_hints_about_identifiers_and_dates(call, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{10_000 + i},{x:.3f},{1 + i % 28:02}.01.2024,{x + 1:.3f}" for i, x in enumerate(rng.normal(size=60))]
    (tmp_path / "t.csv").write_text("\n".join(["id,area,sold,price", *rows]) + "\n")
    code, text = call("fit", tmp_path / "t.csv", "-t", "price", "--out", tmp_path / "m.bbf")
    assert code == 0, text
    assert "other columns: numbers (id, area)" in text
    assert "id: a different whole number in each row, in order; --column 'id=drop' leaves it out" in text
    assert "sold: '01.01.2024' is read as text; dates are read in the form 2024-05-31" in text
    assert "± one standard error" in text
    options = ("--column", "id=drop", "--column", "sold=ordinal", "--force")
    text = call("fit", tmp_path / "t.csv", "-t", "price", "--out", tmp_path / "m.bbf", *options)[1]
    assert "id=drop" not in text and "is read as text" not in text


def test_the_errors_of_each_class_are_printed_and_small_classes_are_named(call, tmp_path):
    rng = np.random.default_rng(0)
    kinds = ["left"] * 60 + ["right"] * 56 + ["rare"] * 4
    rows = [f"{'lr'.find(kind[0]) + rng.normal() / 9:.3f},{rng.normal():.3f},{kind}" for kind in kinds]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *rows]) + "\n")
    code, text = call("fit", tmp_path / "t.csv", "-t", "kind", "--out", tmp_path / "m.bbf")
    assert code == 0, text
    assert "few rows of the classes rare (4): their errors are uncertain" in text
    assert re.search(r"Test rows predicted correctly by class: left \d+% of 12, rare \d+% of 1, right \d+% of 11", text)
    text = call("fit", tmp_path / "t.csv", "-t", "kind", "--out", tmp_path / "m.bbf", "--force", "--json")[1]
    assert json.loads(text[text.index("{") :])["recall"]["rare"]["rows"] == 1
