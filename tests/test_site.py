"""The documentation site: its checks of links, its gallery, and its list of public names."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import blockbasis as bb
from docs import members
from tools import check_links, method_tables, transcript

ROOT = Path(__file__).resolve().parent.parent
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


def test_broken_links_and_anchors_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a><a href="https://e.org/">3</a>')
    (tmp_path / "b.html").write_text('<p id="x"></p><img src="absent.png"><a href="a.html">back</a>')
    assert check_links.broken_links(tmp_path) == ["a.html: b.html#y (no such anchor)", "b.html: absent.png"]


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.rst"))
    listed = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    public = {name for name, value in vars(bb).items() if getattr(value, "__module__", "").startswith("blockbasis.")}
    assert public - listed == set()


def test_a_page_of_a_class_has_its_public_methods_and_no_internal_ones():
    found = members.members("blockbasis", "KernelRidgeCV")
    assert {"fit", "predict", "predict_interval", "partial_fit"} <= set(found["methods"])
    assert not {"restored", "describe", "add_sums", "set_fit_request", "get_params"} & set(found["methods"])
    gaussian = members.members("blockbasis", "Gaussian")
    assert "from_gamma" in gaussian["methods"] and "gamma" in gaussian["properties"]
    assert "`Kernel.gradient <blockbasis.kernels.Kernel.gradient>`" in gaussian["inherited"]


def test_the_gallery_has_a_dozen_examples_with_a_picture():
    assert len(GALLERY) >= 12
    assert all(re.search(r"^figure\b", path.read_text(encoding="utf-8"), re.MULTILINE) for path in GALLERY)


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=[path.stem for path in GALLERY])
def test_an_example_of_the_gallery_runs(path):
    pytest.importorskip("matplotlib")
    assert runpy.run_path(str(path))["figure"].axes


def test_every_command_of_the_transcript_is_on_its_page():
    page = (ROOT / "docs" / "transcript.md").read_text(encoding="utf-8")
    commands = (*transcript.ABALONE, *transcript.POINTS, *transcript.MISTAKES, *transcript.LARGE)
    assert [command for command in commands if f"$ {command}\n" not in page] == []


def test_a_command_is_shown_with_its_output_and_its_exit_code(tmp_path):
    assert transcript.shown("echo hello", tmp_path) == "```console\n$ echo hello\nhello\n```\n"
    assert "[exit code 1]" in transcript.shown("false", tmp_path)


def test_the_picture_of_the_structure_shows_a_factorization():
    pytest.importorskip("matplotlib")
    from tools import structure

    found = structure.parts()
    D = found["D"]
    assert np.abs(D - np.diag(np.diag(D))).max() < 1e-12
    difference = found["K"] - found["U"] @ found["C"] @ found["Uᵀ"] - D
    assert np.linalg.norm(difference) < 0.02 * np.linalg.norm(found["K"])
    assert len(structure.draw().axes) == 5


def test_formulas_need_no_network():
    pytest.importorskip("latex2mathml")
    from docs import mathml

    assert "mathml" in (ROOT / "docs" / "conf.py").read_text()
    assert mathml.convert(r"K \approx U C U^T").startswith("<math ")


def test_tables_of_methods_name_every_model():
    text = (ROOT / "docs" / "tables" / "models.md").read_text(encoding="utf-8")
    assert all(name in text for name in (*method_tables.models(False), *method_tables.data_sets(rows=50)))
    assert method_tables.table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_a_new_table_replaces_the_old_one():
    page = "text\n\n| data | measure | a |\n| --- |\n| 1 |\n\nmore\n"
    assert method_tables.with_table(page, "| new |\n") == "text\n\n| new |\n\nmore\n"


def test_the_readme_has_the_measured_table():
    table = (ROOT / "docs" / "tables" / "models.md").read_text(encoding="utf-8").split("\n\n")[0].strip()
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")
