from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import architecture

ROOT = Path(__file__).resolve().parent.parent
#: A file or a folder of the package or of the repository, in backticks.
PATH = re.compile(r"`([\w./-]+/|[\w./-]+\.(?:py|md|toml|txt|svg|yml|cff))`")


def test_the_picture_is_current():
    """``python -m tools.architecture`` writes the picture again."""
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture()


def test_a_package_without_a_place_is_named():
    with pytest.raises(ValueError, match="elsewhere has no place"):
        architecture._package("blockbasis.elsewhere.stage")


def test_arrows_that_follow_from_others_are_left_out():
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert architecture.transitive_reduction(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "README.md"])
def test_paths_that_a_page_names_exist(page):
    named = PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    made = ("benchmarks/results/", "dist/")
    folders = (ROOT, ROOT / "src" / "blockbasis", (ROOT / page).parent)
    missing = [path for path in named if path not in made and not any((each / path).exists() for each in folders)]
    assert missing == []
