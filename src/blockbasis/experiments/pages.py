"""Index page of all experiments in HTML and Markdown: claim of the paper, our result, and verdict."""

from __future__ import annotations

import html
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blockbasis._utils.files import replacing
from blockbasis.experiments.registry import EXPERIMENTS

if TYPE_CHECKING:
    from blockbasis.experiments.framework.base import Result, Table, Verdict

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "img{max-width:100%;border:1px solid #ddd}h2{margin-top:3rem}.no{color:#b00}.yes{color:#070}"
    "td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}"
)
#: Description of the page in Markdown.
_DESCRIPTION = (
    "The command also writes `index.html`, and all numbers beside it as CSV and JSON. `--page` says where this page "
    "goes, and the environment variable `BLOCKBASIS_DATA` where the data sets are."
)


#: What a page of a quick run says at its top.
_QUICK = (
    "This is a quick run, with fewer and smaller measurements than a full one. It shows the form of each figure. A "
    "claim that needs many points or many repetitions may fail here, or hold, by chance: a full run decides."
)


def write_index(
    results: Sequence[Result], folder: Path, *, command: str, page: Path | None = None
) -> tuple[Path, Path]:
    """Write the index page of the results as HTML and as Markdown, both with the figures.

    Parameters
    ----------
    results : sequence of Result
        Results of the page.
    folder : Path
        Folder of ``index.html`` and of the figures.
    command : str
        Command that creates all results, with " all" instead of the name of an experiment.
    page : Path, default=None
        Path of the Markdown page; None selects ``reproduction.md`` in the folder. For a page in another folder, the
        figures are copied into a folder beside it, ``reproduction_pictures`` for ``reproduction.md``.

    Returns
    -------
    tuple of two Path
        Paths of the HTML and of the Markdown page.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from blockbasis.experiments import write_index
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_index([], pathlib.Path(folder), command="blockbasis reproduce all")]
    ['index.html', 'reproduction.md']
    """
    index, page = folder / "index.html", page or folder / "reproduction.md"
    pictures = _pictures(results, folder, page)
    for path, text in ((index, _html(results, command)), (page, _markdown(results, command, pictures))):
        with replacing(path) as stream:
            stream.write(text.encode())
    return index, page


def _pictures(results: Sequence[Result], folder: Path, page: Path) -> dict[str, str]:
    """Copy the figures beside a page in another folder; return their paths relative to the page, by experiment."""
    found = [path for result in results if (path := folder / f"{result.experiment.name}.svg").exists()]
    if page.parent.resolve() == folder.resolve() or not found:
        return {path.stem: path.name for path in found}
    beside = page.with_name(f"{page.stem}_pictures")
    beside.mkdir(exist_ok=True)
    for path in found:
        shutil.copyfile(path, beside / path.name)
    return {path.stem: f"{beside.name}/{path.name}" for path in found}


def _summary(results: Sequence[Result]) -> str:
    """Return the number of claims that hold, the duration, and the experiments without a result, as text."""
    verdicts = [verdict for result in results if (verdict := result.verdict()).holds is not None]
    holding = sum(bool(verdict.holds) for verdict in verdicts)
    in_part = sum(bool(verdict.holds) and not verdict.complete for verdict in verdicts)
    for_ours = sum(bool(verdict.holds) and verdict.ours_only for verdict in verdicts)
    minutes = sum(result.seconds for result in results) / 60
    missing = _without_result(results)
    return (
        f"{holding} of {len(verdicts)} claims hold"
        + (f", {for_ours} of them for our default and not for the paper's own algorithm" if for_ours else "")
        + (f", {in_part} where measured" if in_part else "")
        + f". The measurements took {minutes:.0f} min{_dates_and_software(results)}."
        + (f" Not run, or not to the end: {', '.join(missing)}." if missing else "")
    )


def _without_result(results: Sequence[Result]) -> list[str]:
    """Return the names of the experiments without a result."""
    known = {result.experiment.name for result in results}
    return [name for name in EXPERIMENTS if name not in known]


def _generator(results: Sequence[Result], command: str) -> str:
    """Return the command that creates the page: for all experiments, or for a single one."""
    return command.replace(" all", " NAME") if _without_result(results) else command


def _dates_and_software(results: Sequence[Result]) -> str:
    parts = [part for result in results for part in result.parts]
    if not parts:
        return ""
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(part.finished)) for part in parts})
    by = sorted({part.by for part in parts if part.by})
    return f", {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") + (f", by {'; and '.join(by)}" if by else "")


def _is_quick(command: str) -> bool:
    return "--quick" in command.split()


def _title(command: str) -> str:
    return "The paper's figures and tables, " + ("from a quick run" if _is_quick(command) else "measured again")


def _markdown(results: Sequence[Result], command: str, pictures: Mapping[str, str]) -> str:
    quick = _is_quick(command)
    before = "quick-" if quick else ""  # of the anchors, so that a site may have both pages
    lines = [
        f"# {_title(command)}",
        "",
        *([f"**{_QUICK}**", ""] if quick else []),
        f"Generated by `{_generator(results, command)}`; not written by hand. {_summary(results)}",
        "",
        _DESCRIPTION,
        "",
        "| figure | section | | seconds |",
        "| --- | --- | --- | --- |",
    ]
    for result in results:
        about = result.experiment
        mark = result.verdict().mark
        lines.append(f"| [{about.title}](#{before}{about.name}) | {about.section} | {mark} | {result.seconds:.0f} |")
    for result in results:
        about, verdict = result.experiment, result.verdict()
        alone = command.replace(" all", f" {about.name}")
        lines += [
            "",
            f'<a id="{before}{about.name}"></a>',
            "",
            f"## {about.title}",
            "",
            f"The paper, section {about.section}: {about.claim}",
            "",
            f"**{verdict.mark.capitalize()}.** {verdict.sentence}",
            "",
            f"`{alone}`, {result.seconds:.0f} s." + (f" {about.choices}" if about.choices else ""),
        ]
        if about.name in pictures:
            lines += ["", f"![{about.title}]({pictures[about.name]})"]
        for table in result.tables():
            lines += ["", f"{table.caption}:", "", *_markdown_table(table)]
    return "\n".join(lines) + "\n"


def _markdown_table(table: Table) -> list[str]:
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines]


def _html(results: Sequence[Result], command: str) -> str:
    body = [
        f"<h1>{_title(command)}</h1>",
        *([f"<p><b>{_QUICK}</b></p>"] if _is_quick(command) else []),
        f"<p>Generated by <code>{html.escape(_generator(results, command))}</code>. {_summary(results)}</p>",
        "<table><tr><th>figure</th><th>section</th><th></th><th>seconds</th></tr>",
    ]
    for result in results:
        about = result.experiment
        body.append(
            f'<tr><td><a href="#{about.name}">{html.escape(about.title)}</a></td><td>{about.section}</td>'
            f"<td>{_coloured(result.verdict())}</td><td>{result.seconds:.0f}</td></tr>"
        )
    body.append("</table>")
    for result in results:
        about, verdict = result.experiment, result.verdict()
        body += [
            f'<h2 id="{about.name}">{html.escape(about.title)}</h2>',
            f"<p>The paper, section {about.section}: {html.escape(about.claim)}</p>",
            f"<p><b>{_coloured(verdict)}.</b> {html.escape(verdict.sentence)}</p>",
            *([f"<p>{html.escape(about.choices)}</p>"] if about.choices else []),
        ]
        if result.parts:
            body += [
                f'<p><img src="{about.name}.svg" alt="{html.escape(about.title)}"></p>',
                *(_html_table(table) for table in result.tables()),
                f'<p><a href="{about.name}.csv">numbers</a>, <a href="{about.name}.png">picture as PNG</a></p>',
            ]
    head = f'<meta charset="utf-8"><title>Reproduction</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _html_table(table: Table) -> str:
    marked = [("th", table.header), *(("td", row) for row in table.rows)]
    cells = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in marked]
    lines = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<details><summary>{html.escape(table.caption)}</summary><table>{lines}</table></details>"


def _coloured(verdict: Verdict) -> str:
    return f'<span class="{"yes" if verdict.holds else "no"}">{verdict.mark}</span>'
