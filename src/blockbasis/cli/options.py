"""Options that several commands share, and checks of their values before a file is read."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from blockbasis.tables.encoding import KINDS

#: Fewest floats per point of a factorization.
_FEWEST_FLOATS = 3
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KIB|MIB|GIB)?", re.IGNORECASE)


class KernelName(StrEnum):
    """Kernels whose parameter is the bandwidth."""

    gaussian = "gaussian"
    laplacian = "laplacian"
    matern = "matern"
    cauchy = "cauchy"
    inverse_multiquadric = "inverse_multiquadric"
    rational_quadratic = "rational_quadratic"


class DtypeName(StrEnum):
    """Precisions of a factorization."""

    float64 = "float64"
    float32 = "float32"


class TaskName(StrEnum):
    """Tasks of a model."""

    regression = "regression"
    classification = "classification"


def _positive(value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"must be a positive number, not {value:g}.")
    return value


def _tolerance(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"must be a relative error between 0 and 1, such as 0.01, not {value:g}.")
    return value


def _share(value: float) -> float:
    if not 0 <= value < 1:
        raise typer.BadParameter(f"must be a share of the rows of at least 0 and below 1, such as 0.2, not {value:g}.")
    return value


def _coverage(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"must be a probability between 0 and 1, such as 0.9, not {value:g}.")
    return value


def _memory(value: str | None) -> str | None:
    if value is not None and not (_MEMORY.fullmatch(value.strip()) and float(_MEMORY.fullmatch(value.strip())[1])):  # type: ignore[index]
        raise typer.BadParameter(f"must be a size such as 50MB, or a number of floats per point, not {value!r}.")
    return value


def _kinds(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        name, sign, kind = value.rpartition("=")
        if not sign or not name or kind not in KINDS:
            raise typer.BadParameter(f"must be NAME=KIND, KIND one of {', '.join(KINDS)}, not {value!r}.")
    return values


def column_kinds(values: list[str] | None) -> dict[str, str]:
    """Return the values of --column as a dictionary from names to kinds."""
    return {name: kind for name, _, kind in (value.rpartition("=") for value in values or ())}


def budget(memory: str | None, n: int) -> int | str | None:
    """Return the value of --memory for `factorize`: a size, or floats per point times the number of points."""
    if memory is None:
        return None
    if not memory.strip().isdecimal():
        return memory
    if int(memory) < _FEWEST_FLOATS:
        raise ValueError(f"--memory must be at least {_FEWEST_FLOATS} floats per point. Got {memory} instead.")
    return int(memory) * n


def target_number(target: str | None) -> str | int | None:
    """Return the number of a column, negative from the end, if the text is an integer; otherwise its name."""
    try:
        return None if target is None else int(target)
    except ValueError:
        return target


File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Table: CSV, Parquet, NPZ, NPY or LIBSVM file.", show_default=False)
]
FileOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Table: CSV, Parquet, NPZ, NPY or LIBSVM file, or a directory of Parquet files, read by pieces.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Address of a dask scheduler, whose workers read the files of a directory."),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="File to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random numbers.", min=0)]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; by default one for each core.", min=1)]
Report = Annotated[Path | None, typer.Option("--report", help="Write a page with figures to this HTML file.")]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--bandwidth",
        "-b",
        help="Bandwidth h of the kernel in standard deviations of the columns; default: the median distance.",
        callback=_positive,
    ),
]
Kernel = Annotated[KernelName, typer.Option("--kernel", "-k", help="Kernel.", case_sensitive=False)]
Tolerance = Annotated[
    float | None, typer.Option("--tol", help="Relative error of the matrix; default 0.01.", callback=_tolerance)
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="In place of --tol: a size such as 50MB, or floats per point.", callback=_memory),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Column to leave out, by name or number.")]
Raw = Annotated[bool, typer.Option("--raw", help="Do not scale the columns to standard deviation 1.")]
Task = Annotated[TaskName | None, typer.Option("--task", help="Default: by the kind of the target.")]
TestSize = Annotated[
    float, typer.Option("--test-size", help="Share of the rows for the test; 0 for no test.", callback=_share)
]
TimeBudget = Annotated[
    float | None,
    typer.Option("--time-budget", help="Seconds for the search and the fit, about.", callback=_positive),
]
Interval = Annotated[
    float | None,
    typer.Option("--interval", help="Add intervals that hold this share of new values.", callback=_coverage),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=KIND",
        help=f"How to use a column, KIND one of {', '.join(KINDS)}; may be given several times.",
        callback=_kinds,
    ),
]


def one_goal(tol: float | None, memory: str | None) -> dict[str, Any]:
    """Return the tolerance of a factorization, 0.01 without --tol and --memory; both together are wrong usage."""
    if tol is not None and memory is not None:
        raise typer.BadParameter("--tol and --memory exclude each other: give one of them.")
    return {} if memory is not None else {"tol": 0.01 if tol is None else tol}
