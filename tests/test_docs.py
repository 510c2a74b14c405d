"""Every Python block of the hand-written pages runs, and their lines are short.

The blocks of a page share their names and run in the order of the page. A block after the comment ``<!-- not run -->``
is left out.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import blockbasis as bb

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {"docs/reproduction.md", "docs/reproduction_quick.md", "docs/transcript.md"}
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "docs/tasks/*.md", ".github/**/*.md")
    for path in ROOT.glob(pattern)
    if path.relative_to(ROOT).as_posix() not in GENERATED
)
BLOCK = re.compile(r"(<!-- not run -->\n+)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#]*)(#[^)]*)?\)")


def blocks(page):
    """Each block to run, behind as many empty lines as precede it: errors name the line of the page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [match for match in BLOCK.finditer(text) if match[1] is None]
    return ["\n" * text.count("\n", 0, match.start(2)) + match[2] for match in found]


def write_tables():
    """Write the tables of which the pages speak: text, missing values and the target ``price``."""
    rng = np.random.default_rng(0)
    area, kind = rng.uniform(50, 200, size=120).round(1), np.array(["flat", "house"])[rng.integers(2, size=120)]
    price = 3 * area + 90 * (kind == "house") + rng.normal(size=120)
    rows = [f"{a if i % 9 else ''},{k}" for i, (a, k) in enumerate(zip(area, kind, strict=True))]
    Path("new.csv").write_text("\n".join(["area,kind", *rows]) + "\n")
    rows = [f"{row},{p:.2f}" for row, p in zip(rows, price, strict=True)]
    Path("table.csv").write_text("\n".join(["area,kind,price", *rows]) + "\n")


def run(page):
    names: dict[str, object] = {}
    for code in blocks(page):
        exec(compile(code, str(ROOT / page), "exec"), names)
    return names


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page not in ("README.md", "docs/guide.md")]
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables()
    run(page)


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A = run("README.md")["A"]
    assert isinstance(A, bb.BlockBasis)
    assert A.error_estimate.value <= 1e-2
    shown = re.search(r"^A  # (BlockBasis\(.*?, U C .*?, )", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert repr(A).startswith(shown[1])
    v = np.linspace(-1, 1, A.shape[0])
    np.testing.assert_allclose(bb.load(tmp_path / "a.bbf") @ v, A @ v, rtol=1e-12)


def test_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    errors = run("docs/guide.md")["errors"]
    assert errors["bbf"] < errors["svd"] < min(errors["nystrom"], errors["nystrom-kmeans"])
    assert errors["bbf"] < errors["meka"]


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_at_most_120_columns_wide(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_repository_lead_to_files_and_headings(page):
    for target, heading in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page).parent / target if target else ROOT / page
        if path.parent == ROOT / "docs" / "gallery":  # written by make docs
            continue
        assert path.exists(), f"{page}: {target}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in slugs, f"{page}: {target}{heading}"
