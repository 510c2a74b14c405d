from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from blockbasis.report import DataTable, Page, Section, render_page, write_page
from blockbasis.report.figures import panels
from blockbasis.report.page import inline_svg, versions


def two_figures():
    sections = []
    for k in range(2):
        figure, (axes,) = panels(1)
        axes.plot([1, 2], [1, 10 + k], label=f"curve <{k}>", color="#000000")
        axes.set(yscale="log", title="a & b")
        axes.legend()
        figure.legend(*axes.get_legend_handles_labels())
        table = DataTable(("x", "y"), [("<1>", 0.123456), (2, np.float64(1e-9))])
        sections.append(Section(f"Figure {k}", "What it shows.", axes, 'A "rising" curve', table))
    return sections


def test_a_page_needs_no_other_file():
    text = render_page(Page("A <title>", ["It works."], [("points", "7")], two_figures(), "blockbasis fit 'a b.csv'"))
    assert "A &lt;title&gt;" in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert '<td class="short">0.1235</td>' in text
    assert '<th scope="row">&lt;1&gt;</th>' in text
    assert "blockbasis fit &#x27;a b.csv&#x27;" in text
    assert versions() in text


def test_identifiers_are_unique_and_references_have_a_target():
    text = render_page(Page("t", [], (), two_figures()))
    found = re.findall(r'\bid="([^"]+)"', text)
    assert len(found) == len(set(found))
    references = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    assert references <= set(found)


def test_figures_have_the_colours_of_the_page_and_a_description():
    svg = inline_svg(two_figures()[0].axes, 'A "rising" curve')
    assert svg.startswith('<svg role="img" aria-label="A &quot;rising&quot; curve"')
    assert "currentColor" in svg
    assert "var(--grid)" in svg
    assert "#000000" not in svg
    assert "<text" in svg
    assert not re.search(r'<svg[^>]*\b(?:width|height)="', svg)


def test_tags_are_closed():
    class Tags(HTMLParser):
        open: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "link", "path", "use", "image", "rect"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("path", "use", "image", "rect"):
                assert self.open.pop() == tag

    tags = Tags()
    tags.feed(render_page(Page("t", ["s"], [("a", "b")], two_figures())))
    assert tags.open == []


def test_a_page_is_written_in_one_step(tmp_path):
    write_page(Page("t", ["s"]), tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
