"""One self-contained HTML page of text, figures and tables."""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from blockbasis._utils.files import replacing
from blockbasis.report.figures import finish_figure

#: Colours of text and of grid lines in a figure, which become the colours of the page, light or dark.
_INK, _GRID = "#1a1b1c", "#d1d2d3"
_PAGE_COLOURS = {_INK: "currentColor", _GRID: "var(--grid)", "#000000": "currentColor"}
#: Characters of a cell that is not broken into lines, such as a number with its unit.
_SHORT = 20
_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_SIZE = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"')
_ID = re.compile(r'\bid="|url\(#|href="#')


@dataclass(frozen=True)
class DataTable:
    """Table of a page, which repeats the numbers of a figure for screen readers and for copying.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence
        Cells; floats are rounded to four digits.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Section:
    """Section of a page: a title, text, a figure with its description, and a table.

    Parameters
    ----------
    title : str
    text : str or sequence of str, default=()
        Paragraphs.
    axes : matplotlib.axes.Axes, default=None
        Axes whose figure is drawn.
    alt : str, default=""
        Description of the figure for screen readers.
    table : DataTable, default=None
    open_table : bool, default=False
        Whether the table is shown at first.
    wide : bool, default=False
        Whether the section takes the whole width.
    """

    title: str
    text: str | Sequence[str] = ()
    axes: Any = None
    alt: str = ""
    table: DataTable | None = None
    open_table: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Page:
    """Contents of a report.

    Parameters
    ----------
    title : str
    summary : sequence of str
        Sentences at the top.
    facts : sequence of (str, str)
        Names and values of the most important numbers.
    sections : sequence of Section
    command : str
        Command that made the report.

    Examples
    --------
    >>> from blockbasis.report import Page, Section, render_page
    >>> page = Page("A title", ["It works."], [("points", "200")], [Section("Checks", "No findings.")], "fit")
    >>> "<h2>Checks</h2>" in render_page(page)
    True
    """

    title: str
    summary: Sequence[str]
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
    command: str = ""


def render_page(page: Page) -> str:
    """Return a page as HTML that needs no other file and no network.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str
    """
    template = Template((files("blockbasis.report") / "template.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(page.title),
        summary="\n".join(f"<p>{escape(sentence)}</p>" for sentence in page.summary),
        facts="\n".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in page.facts),
        sections="\n".join(_section(section, place) for place, section in enumerate(page.sections)),
        command=escape(page.command),
        versions=escape(versions()),
    )


def write_page(page: Page, path: Path) -> None:
    """Write a page to a file, which is replaced atomically.

    Parameters
    ----------
    page : Page
    path : Path
    """
    text = render_page(page)
    with replacing(path) as stream:
        stream.write(text.encode())


def versions() -> str:
    """Return the versions of the library, of Python and of the libraries below, in one line."""
    names = ("blockbasis", "numpy", "scipy", "scikit-learn")
    return ", ".join([*(f"{name} {version(name)}" for name in names), f"Python {platform.python_version()}"])


def _section(section: Section, place: int) -> str:
    paragraphs = [section.text] if isinstance(section.text, str) else section.text
    parts = [
        f"<h2>{escape(section.title)}</h2>",
        *(f'<p class="note">{escape(text)}</p>' for text in paragraphs if text),
    ]
    if section.axes is not None:
        parts.append(f"<figure>{inline_svg(section.axes, section.alt or section.title, place)}</figure>")
    if section.table is not None:
        table = _table(section.table, section.title)
        shown = (
            table
            if section.axes is None or section.open_table
            else f"<details><summary>Table</summary>{table}</details>"
        )
        parts.append(shown)
    kind = ' class="wide"' if section.wide else ""
    return f"<section{kind}>\n" + "\n".join(parts) + "\n</section>"


def _table(table: DataTable, caption: str) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, first=place == 0) for place, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(value: Any, *, first: bool) -> str:
    text = escape(f"{value:.4g}" if isinstance(value, float) else str(value))
    if first:
        return f'<th scope="row">{text}</th>'
    return f"<td>{text}</td>" if len(text) > _SHORT else f'<td class="short">{text}</td>'


def inline_svg(axes: Any, alt: str, place: int = 0) -> str:
    """Return the figure of axes as an SVG element in the colours of the page.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    alt : str
        Description for screen readers.
    place : int, default=0
        Number of the figure on the page, which makes its identifiers unique.

    Returns
    -------
    str
    """
    from matplotlib import rc_context

    figure = axes.figure
    _use_page_colours(figure)
    finish_figure(figure)
    stream = io.StringIO()
    with rc_context({"svg.hashsalt": f"blockbasis-{place}", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    text = _HEAD.sub("", stream.getvalue(), count=0)
    for _ in range(2):
        text = _SIZE.sub(r"\1", text, count=1)
    text = _ID.sub(lambda found: f"{found[0]}f{place}-", text)
    for colour, own in _PAGE_COLOURS.items():
        text = text.replace(colour, own)
    text = re.sub(r"font: (.*?)'DejaVu Sans'.*?;", r"font: \1sans-serif;", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(alt, quote=True)}"', 1).strip()


def _use_page_colours(figure: Any) -> None:
    """Set the colours of texts, ticks, spines and grid lines of a figure to those that `inline_svg` replaces."""
    for axes in figure.axes:
        axes.tick_params(colors=_INK, which="both", labelcolor=_INK)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_color(_INK)
        for spine in axes.spines.values():
            spine.set_color(_INK)
        for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
            line.set_color(_GRID)
        if axes.get_legend() is not None:
            for text in axes.get_legend().get_texts():
                text.set_color(_INK)
    for legend in figure.legends:
        for text in legend.get_texts():
            text.set_color(_INK)
