"""Write docs/transcript.md: a session of the command line on Abalone and Covertype, run by this script.

``python -m tools.transcript`` needs the data sets abalone and covtype (see ``blockbasis data``) and about five minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from blockbasis import datasets

#: Lines of progress.
PROGRESS = re.compile(r": (?:\d+% done, .*|done)$")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "transcript.md"
NAMES = ("sex", "length", "diameter", "height", "whole", "shucked", "viscera", "shell", "rings")
#: Rows of the first file, share of the values that are removed, and rows of Covertype.
FIRST, MISSING, COVERTYPE = 3_000, 0.01, 100_000

ABALONE = (
    "head -3 abalone.csv",
    "blockbasis fit abalone.csv --target rings --out rings.bbf --report rings.html",
    "blockbasis info rings.bbf",
    "head -3 new.csv",
    "blockbasis predict rings.bbf new.csv --interval 0.9 --out predictions.csv",
    "head -4 predictions.csv",
)
POINTS = (
    "blockbasis compare points.csv --target rings --bandwidth 1 --points 1000 --runs 1 --memory 20 --memory 50",
    "blockbasis plan points.csv --target rings --bandwidth 1 --tol 0.01",
    "blockbasis compress points.csv --target rings --bandwidth 1 --tol 0.01",
    "blockbasis info factorization.bbf",
    "blockbasis apply factorization.bbf vectors.npy",
)
MISTAKES = (
    "blockbasis fit abalone.csv --target ring",
    "blockbasis fit abalone.csv --target rings --out rings.bbf",
    "blockbasis compress points.csv --tol 7",
)
LARGE = ("blockbasis fit covtype.parquet --target type --task classification --time-budget 120 --out covtype.bbf",)


def write_files(folder: Path) -> None:
    """Write Abalone as CSV with the sex as text and missing values, its complete rows as points, and vectors."""
    data = datasets.load("abalone", standardize=False)
    rng = np.random.default_rng(0)
    rows = []
    for x, rings in zip(data.X, data.y, strict=True):
        cells = ["MFI"[int(x[0]) - 1], *(f"{value:g}" for value in x[1:]), f"{rings:g}"]
        rows.append([cell if j in (0, 8) or rng.uniform() >= MISSING else "" for j, cell in enumerate(cells)])
    text = [",".join(row) for row in rows]
    (folder / "abalone.csv").write_text("\n".join([",".join(NAMES), *text[:FIRST]]) + "\n")
    shorter = [",".join(row[:-1]) for row in rows[FIRST:]]
    (folder / "new.csv").write_text("\n".join([",".join(NAMES[:-1]), *shorter]) + "\n")
    points = [row[1:] for row in rows if "" not in row]
    (folder / "points.csv").write_text("\n".join(",".join(row) for row in [list(NAMES[1:]), *points]) + "\n")
    np.save(folder / "vectors.npy", rng.normal(size=(len(points), 3)))


def write_covertype(folder: Path) -> None:
    """Write rows of Covertype as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    data = datasets.load("covtype", standardize=False)
    rows = np.random.default_rng(0).permutation(len(data.X))[:COVERTYPE]
    columns = {f"c{j}": data.X[rows, j] for j in range(data.X.shape[1])}
    parquet.write_table(pa.table({**columns, "type": data.y[rows].astype(int)}), folder / "covtype.parquet")


def shown(command: str, folder: Path) -> str:
    """Run a command and return it with its output, as a block of Markdown."""
    words = shlex.split(command)
    if words[0] == "blockbasis":
        words = [sys.executable, "-m", *words]
    environment = {**os.environ, "NO_COLOR": "1"}
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    lines = [line.rstrip() for line in (run.stdout + run.stderr).splitlines() if not PROGRESS.search(line)]
    code = f"\n[exit code {run.returncode}]" if run.returncode else ""
    return "```console\n$ " + command + "\n" + re.sub(r"\n+$", "", "\n".join(lines)) + code + "\n```\n"


def page(folder: Path, *, large: bool) -> str:
    """Return the page of all commands."""
    write_files(folder)
    parts = [
        "# A session of the command line\n",
        "`python -m tools.transcript` ran these commands and wrote this page.\n",
    ]
    chapters = [
        ("A model of a CSV file", "The sex of a shell is text, and some values are missing.", ABALONE),
        ("A kernel matrix of points", "The complete rows, without the sex.", POINTS),
        ("Mistakes", "One sentence each. The exit code is 1 for a failure and 2 for wrong usage.", MISTAKES),
    ]
    if large:
        write_covertype(folder)
        chapters.append(("A hundred thousand rows of Parquet", "Covertype, with two minutes for the fit.", LARGE))
    for title, text, commands in chapters:
        parts += [f"## {title}\n", f"{text}\n", *(shown(command, folder) for command in commands)]
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as name:
        PAGE.write_text(page(Path(name), large="--small" not in sys.argv[1:]), encoding="utf-8")


if __name__ == "__main__":
    main()
