"""What an experiment is, and what comes out of it."""

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

#: One measurement, or the choices that one part of an experiment rests on: words, numbers and lists of them.
Row: TypeAlias = dict[str, Any]
Settings: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's claim is seen in our figures.

    Parameters
    ----------
    holds : bool or None
        None where nothing was measured.
    sentence : str
        What was found, with the figures.
    complete : bool, default=True
        Whether all was measured that the claim speaks of.
    ours_only : bool, default=False
        Whether what holds for our default algorithm does not for the paper's own.
    also : str, default=""
        A second verdict in a few words, where the claim can be read in two ways.

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
        """The verdict in a few words."""
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
    """Some of the figures of a result.

    Parameters
    ----------
    caption : str
    header : tuple of str
    rows : tuple of tuple of str

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
    """One figure or table of the paper.

    Parameters
    ----------
    name : str
    title : str
    section : str
        Of the paper.
    claim : str
        What the paper says, in words.
    parts : callable
        From whether it should be quick to the settings of all parts. A part is the unit that is run whole or again; a
        part that needs a data set has its name under "data".
    measure : callable
        From the settings of a part and a random generator to rows.
    draw : callable
        From a result to a matplotlib figure.
    judge : callable
        From a result to a `Verdict`.
    timed : bool, default=False
        Whether it measures time, which nothing else may run beside.
    tabulate : callable, default=no tables
        From a result to the tables that the index page shows below the picture.
    choices : str, default=""
        What a full run measures where the paper is silent or something else, in words.

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
    """A finished part.

    Parameters
    ----------
    settings : dict
    finished : float
        When, in seconds since 1970.
    seconds : float
        That it took.
    rows : tuple of dict
    by : str, default=""
        The software and the machine that measured it.

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
    """The measurements of an experiment.

    Parameters
    ----------
    experiment : Experiment
    parts : tuple of Part
    missing : tuple of str
        Data sets that were not at hand; what would have been measured on them is left out.

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
        """Rows of all parts, each with the settings of its part."""
        return [{**part.settings, **row} for part in self.parts for row in part.rows]

    @property
    def seconds(self) -> float:
        """Time during which some part was measured: parts may run side by side, and on different days."""
        total, end = 0.0, -math.inf
        for start, finished in sorted((part.finished - part.seconds, part.finished) for part in self.parts):
            total += max(finished - max(start, end), 0.0)
            end = max(end, finished)
        return total

    def where(self, **values: Any) -> list[Row]:
        """Rows that have these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in values.items())]

    def distinct(self, name: str, **values: Any) -> list[Any]:
        """Values of a column, each once, in the order of the rows."""
        return list(dict.fromkeys(row[name] for row in self.where(**values) if name in row))

    def verdict(self) -> Verdict:
        """Whether the claim holds, judged from the rows at hand."""
        absent = f" Not at hand: {', '.join(self.missing)}." if self.missing else ""
        if not self.parts:
            return Verdict(None, f"Nothing was measured.{absent}")
        found = self.experiment.judge(self)
        return replace(found, sentence=found.sentence + absent, complete=not self.missing)

    def tables(self) -> list[Table]:
        """What the experiment shows as tables, of the rows at hand."""
        return self.experiment.tabulate(self) if self.parts else []

    def draw(self, folder: Path) -> tuple[Path, Path]:
        """Write the picture as ``NAME.svg`` and ``NAME.png``."""
        return figures.save(self.experiment.draw(self), folder / self.experiment.name)

    def save(self, folder: Path) -> None:
        """Write ``NAME.json``, from which the result can be read, and ``NAME.csv``."""
        write_json(folder / f"{self.experiment.name}.json", self.parts, self.missing)
        self.save_csv(folder)

    def save_csv(self, folder: Path) -> None:
        """Write ``NAME.csv``."""
        with replacing(folder / f"{self.experiment.name}.csv") as stream:
            stream.write(_csv(self.rows).encode())


def _csv(rows: Sequence[Row]) -> str:
    # What a part went through as a list stands in its rows one by one.
    columns = list(dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, list)))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_json(path: Path, parts: Iterable[Part], missing: Sequence[str] = ()) -> None:
    """Finished parts and data sets that were looked for in vain as JSON, whole or not at all."""
    # A line for each part: json lays out a whole file by its slow encoder, and it is written again after every part.
    lines = ",\n".join(json.dumps(vars(part), default=_plain, allow_nan=False) for part in parts)
    with replacing(path) as stream:
        stream.write(f'{{"missing": {json.dumps(list(missing))}, "parts": [\n{lines}\n]}}\n'.encode())


def read_json(path: Path) -> tuple[list[Part], tuple[str, ...]]:
    """What `write_json` wrote; nothing where there is no file, or, with a warning, one of something else."""
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
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} does not belong into a row.")
