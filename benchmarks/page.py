"""Make benchmarks/README.md and the plots from the results: nothing on that page is typed by hand.

    python benchmarks/page.py [--results benchmarks/results] [--readme benchmarks/README.md]

Results of different commits are refused: run the suites again at one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import textwrap
from pathlib import Path

from report import Content, Verdict, failures
from suites import SUITES

HERE = Path(__file__).parent

INTRODUCTION = """\
# Benchmarks

`python benchmarks/page.py` wrote this page from the results of one run. No number on it was typed by hand.

    make bench                                  a reduced set, at most 15 minutes on two cores, and this page
    make bench-full                             every cell, and this page
    python benchmarks/run.py SUITE [--full]     one suite; `--help` lists the suites and the options

An interrupted run continues where it stopped. `--baseline FILE` names the JSON lines of an earlier commit (those that
`grid` writes, or lines with case, n, plan, build and stored for `engine`). The floats and seconds of the run are then
compared with that commit.

The real data are loaded by `blockbasis.datasets.load` or, for bike, elevators and keggdirected, from NPZ files in the
directory that `BLOCKBASIS_DATA` names. All columns are standardised. A data set that is not available is omitted, and
the page says so.

**Method.** blockbasis and the peer run in turn, each run in a new process, at least three times, or once if a run takes
more than 20 s. The numbers are medians. Seconds are processor seconds of one thread unless stated otherwise; those of
blockbasis include the plan and the check. Peak memory is the largest resident memory of the process after the points
are loaded. The errors of all methods are relative Frobenius errors from the same rows of the exact matrix, in float64.
Nystroem is given the smallest number of components, 50 to 3,200 in steps of a factor of 2, that reaches the error of
blockbasis. If 3,200 components do not reach it, the time is that of 3,200. A time of Nystroem below 0.5 s counts as
0.5 s (*ratio, by the rule*; the raw ratio stands next to it).
"""

OTHERS = """\
## Other scripts

These scripts print tables of their own: `learning.py`, `learning_peers.py` and `gaussian_process.py` (estimators
compared with scikit-learn's), `solvers.py` (accuracy of solutions), `baselines.py` (the methods of
`blockbasis.baselines` at equal memory, compared with published numbers), `kernels.py` (nanoseconds for one kernel
entry)."""


class MixedCommits(ValueError):
    """Results of more than one commit."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--readme", type=Path, default=HERE / "README.md")
    options = parser.parse_args(arguments)
    contents = read(options.results)
    try:
        text = page(contents)
    except MixedCommits as error:
        print(error, file=sys.stderr)
        return 1
    options.readme.write_text(text)
    print(f"{options.readme}: {len(contents)} suites")
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is absent: no plots")
        return 0
    from plots import draw

    for path in draw(contents, options.results):
        print(path)
    return 0


def read(directory: Path) -> dict[str, Content]:
    """Results of the suites that have some, in the order of the suites."""
    paths = {name: directory / f"{name}.json" for name in SUITES}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def page(contents: dict[str, Content]) -> str:
    """The page, from the results of one commit."""
    commits = {name: content["commit"] for name, content in contents.items()}
    if len(set(commits.values())) > 1:
        listed = ", ".join(f"{name}: {commit}" for name, commit in commits.items())
        raise MixedCommits(f"The results come from different commits ({listed}). Run these suites again at one.")
    parts = [INTRODUCTION.rstrip(), *(_about(contents) if contents else ["No results yet."])]
    parts += [_verdicts(contents)] if contents else []
    for name, content in contents.items():
        parts += [f"## {SUITES[name].TITLE}: `{name}`", _extent(content)]
        parts += SUITES[name].tables(content) if content["records"] else []
        parts.append(failures(content))
    return "\n\n".join(_wrapped(part) for part in [*parts, OTHERS] if part) + "\n"


def _wrapped(part: str) -> str:
    """A paragraph in lines of at most 120 columns; tables and texts of several lines stay as they are."""
    if "\n" in part or part.startswith(("|", "#")):
        return part
    return textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False)


def _about(contents: dict[str, Content]) -> list[str]:
    last = max(contents.values(), key=lambda content: content["date"])
    machine = last["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in last["versions"].items())
    dates = sorted(content["date"][:10] for content in contents.values())
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    place = f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, {machine['system']}"
    methods = "; ".join(f"{name}: {version}" for name, version in last["peers"].items())
    pictures = "The plots of a run are next to its results, in `benchmarks/results/` (SVG and PNG), and not in git."
    return [f"Commit **{last['commit']}**, {when}. {place}. {versions}.", f"Methods: {methods}.", pictures]


def _verdicts(contents: dict[str, Content]) -> str:
    """A line for everything that must be shown, suite by suite."""
    blocks = ["## What must be shown"]
    for name, module in SUITES.items():
        if name not in contents:
            blocks.append(f"`{name}`: not run.")
            continue
        content = contents[name]
        failed = sum("failed" in record for record in content["records"])
        done = Verdict("no cell failed", f"{failed} of {len(content['records'])}", not failed)
        lines = [str(verdict) for verdict in (*module.verdicts(content), done)]
        blocks.append(f"`{name}`, {_extent(content)}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks)


def _extent(content: Content) -> str:
    """How much of the suite was run."""
    size = {"full": "the full set", "quick": "the reduced set", "tiny": "a test of the harness"}[content["size"]]
    absent = f" Not at hand: {', '.join(content['absent'])}." if content["absent"] else ""
    return f"{len(content['records'])} of {content['cells']} cells of {size}, {content['date']}.{absent}"


if __name__ == "__main__":
    sys.exit(main())
