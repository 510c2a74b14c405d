"""Data structures of experiments and of their results, and the files of results."""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from blockbasis._utils.files import replacing
from blockbasis.report import figures

#: A measurement, and the settings of a part of an experiment: strings, numbers and lists by name.
Row: TypeAlias = dict[str, Any]
Settings: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper holds in our measurements.

    Parameters
    ----------
    holds : bool or None
        Whether the claim holds; None if nothing was measured.
    sentence : str
        Summary of the measurements.
    complete : bool, default=True
        Whether all cases of the claim were measured.
    ours_only : bool, default=False
        Whether the claim holds for our default algorithm, but not for the paper's algorithm.
    also : str, default=""
        Second verdict in a few words, for a claim with two interpretations.

    Examples
    --------
    >>> from blockbasis.experiments import Verdict
    >>> Verdict(True, "The error falls.", complete=False).mark
    'holds where measured'
    """

    holds: bool | None
    sentence: str
    complete: bool = True
    ours_only: bool = False
    also: str = ""

    @property
    def mark(self) -> str:
        """Verdict in a few words."""
        if self.holds is None:
            return "not measured"
        return self._first + (f"; {self.also}" if self.also else "")

    @property
    def _first(self) -> str:
        if self.holds:
            of_whom = " for our default" if self.ours_only else ""
            return f"holds{of_whom}" + ("" if self.complete else " where measured")
        return "does not hold"


@dataclass(frozen=True)
class Table:
    """Table of measurements of a result.

    Parameters
    ----------
    caption : str
        Caption.
    header : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        Cells of each row.

    Examples
    --------
    >>> from blockbasis.experiments import Table
    >>> Table("Abalone", ("h", "rank"), (("1", "28"),)).rows[0]
    ('1', '28')
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _no_tables(result: Result) -> list[Table]:
    return []


@dataclass(frozen=True, eq=False)
class Experiment:
    """Reproduction of one figure or table of the paper.

    Parameters
    ----------
    name : str
        Name on the command line and in file names.
    title : str
        Title.
    section : str
        Section of the paper.
    claim : str
        Claim of the paper.
    parts : callable
        Function quick -> settings of all parts. A part is the unit that is measured and saved. The settings of a part
        that requires a data set have its name under "data".
    measure : callable
        Function (settings, rng) -> rows of a part.
    draw : callable
        Function result -> matplotlib figure.
    judge : callable
        Function result -> `Verdict`.
    timed : bool, default=False
        Whether it measures time, so that no other part may run at the same time.
    tabulate : callable, default=no tables
        Function result -> tables that the index page shows below the figure.
    choices : str, default=""
        Settings of a full run that the paper does not give, or that differ from the paper.

    Examples
    --------
    >>> from blockbasis.experiments import EXPERIMENTS
    >>> EXPERIMENTS["statistics"].section
    '4.2.2'
    """

    name: str
    title: str
    section: str
    claim: str
    parts: Callable[[bool], list[Settings]]
    measure: Callable[[Settings, np.random.Generator], list[Row]]
    draw: Callable[[Result], Any]
    judge: Callable[[Result], Verdict]
    timed: bool = False
    tabulate: Callable[[Result], list[Table]] = _no_tables
    choices: str = ""


@dataclass(frozen=True)
class Part:
    """Finished part of an experiment.

    Parameters
    ----------
    settings : dict
        Settings of the part.
    finished : float
        Time of the end, in seconds since 1970.
    seconds : float
        Duration in seconds.
    rows : tuple of dict
        Measurements.
    by : str, default=""
        Versions of the software, and the machine.

    Examples
    --------
    >>> from blockbasis.experiments import Part
    >>> Part({"h": 1.0}, finished=100.0, seconds=2.0, rows=({"rank": 12},)).rows[0]["rank"]
    12
    """

    settings: Settings
    finished: float
    seconds: float
    rows: tuple[Row, ...]
    by: str = ""


@dataclass(frozen=True, eq=False)
class Result:
    """Measurements of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    parts : tuple of Part
        Finished parts.
    missing : tuple of str
        Data sets that were not available; their parts are omitted.

    Examples
    --------
    >>> from blockbasis.experiments import EXPERIMENTS, run
    >>> result = run(EXPERIMENTS["curvature"], parts=[{"n": 300}])
    >>> result.verdict().holds
    True
    >>> len(result.rows), result.rows[0]["n"]
    (33, 300)
    """

    experiment: Experiment
    parts: tuple[Part, ...]
    missing: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """Rows of all parts, with the settings of their part."""
        return [{**part.settings, **row} for part in self.parts for row in part.rows]

    @property
    def seconds(self) -> float:
        """Seconds during which at least one part was measured; parts may overlap in time."""
        total, end = 0.0, -math.inf
        for start, finished in sorted((part.finished - part.seconds, part.finished) for part in self.parts):
            total += max(finished - max(start, end), 0.0)
            end = max(end, finished)
        return total

    def where(self, **values: Any) -> list[Row]:
        """Return the rows with the given values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in values.items())]

    def distinct(self, name: str, **values: Any) -> list[Any]:
        """Return the distinct values of a column, in the order of the rows."""
        return list(dict.fromkeys(row[name] for row in self.where(**values) if name in row))

    def verdict(self) -> Verdict:
        """Return whether the claim holds in the available rows."""
        absent = f" Not at hand: {', '.join(self.missing)}." if self.missing else ""
        if not self.parts:
            return Verdict(None, f"Nothing was measured.{absent}")
        found = self.experiment.judge(self)
        return replace(found, sentence=found.sentence + absent, complete=not self.missing)

    def tables(self) -> list[Table]:
        """Return the tables of the available rows."""
        return self.experiment.tabulate(self) if self.parts else []

    def draw(self, folder: Path) -> tuple[Path, Path]:
        """Write the figure as ``NAME.svg`` and ``NAME.png``."""
        return figures.save_figure(self.experiment.draw(self), folder / self.experiment.name)

    def save(self, folder: Path) -> None:
        """Write ``NAME.json``, which `read_json` reads, and ``NAME.csv``."""
        write_json(folder / f"{self.experiment.name}.json", self.parts, self.missing)
        self.save_csv(folder)

    def save_csv(self, folder: Path) -> None:
        """Write ``NAME.csv``."""
        with replacing(folder / f"{self.experiment.name}.csv") as stream:
            stream.write(_csv(self.rows).encode())


def _csv(rows: Sequence[Row]) -> str:
    # The rows have the elements of settings that are lists.
    columns = list(dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, list)))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_json(path: Path, parts: Iterable[Part], missing: Sequence[str] = ()) -> None:
    """Write finished parts and the names of missing data sets to a JSON file, atomically."""
    # One line per part: the indenting encoder of json is slow, and the file is written after every part.
    lines = ",\n".join(json.dumps(vars(part), default=_plain, allow_nan=False) for part in parts)
    with replacing(path) as stream:
        stream.write(f'{{"missing": {json.dumps(list(missing))}, "parts": [\n{lines}\n]}}\n'.encode())


def read_json(path: Path) -> tuple[list[Part], tuple[str, ...]]:
    """Read a file of `write_json`; a missing file is empty, and an invalid file is renamed with a warning."""
    try:
        contents = json.loads(path.read_bytes())
        parts = [Part(**{**each, "rows": tuple(each["rows"])}) for each in contents["parts"]]
        return parts, tuple(contents["missing"])
    except FileNotFoundError:
        return [], ()
    except (ValueError, KeyError, TypeError):
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        warnings.warn(f"{path} is not a result as this version writes them: it is now {aside}.", stacklevel=2)
        return [], ()


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"The values of a row must be JSON types. Got {type(value).__name__} instead.")
