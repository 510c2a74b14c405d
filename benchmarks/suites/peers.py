"""Error against time and memory of every method that is installed."""

from __future__ import annotations

import itertools
import statistics

from cases import TINY, Case
from measure import Result, all_cores, fresh
from peers import METHODS
from report import Content, Verdict, succeeded, table

TITLE = "Every method: error against time and memory"
CASES = {
    "tiny": (TINY,),
    "quick": (Case("mix3", "mixture-3", 10_000, 0.3, 1e-3),),
    "full": (
        Case("mix3", "mixture-3", 20_000, 0.3, 1e-3),
        Case("pend4", "pendigits", None, 4.0, 1e-2),
        Case("census2", "census_house", None, 2.0, 1e-2),
    ),
}
REPEATS = {"tiny": 1, "quick": 1, "full": 3}
#: A reduced run takes every second budget.
STEP = {"tiny": 4, "quick": 2, "full": 1}
DIMENSIONS = {"pendigits": 16, "census_house": 16}
#: Methods without an error: their time is that of a product.
EXACT = ("exact", "exact-numpy", "pykeops")


def cells(size: str, only: list[str] | None) -> list[Result]:
    """Methods in turn, all of them before the next repeat; those absent, or not for so many columns, are left out."""
    found = []
    for repeat, case, threads in itertools.product(range(REPEATS[size]), CASES[size], (1, all_cores())):
        levels = [
            [(name, budget) for budget in method.budgets[:: STEP[size] if name != "ours" else 1]]
            for name, method in METHODS.items()
            if not method.absent and dimension(case.data) <= (method.largest_dimension or 1_000)
        ]
        for level in itertools.zip_longest(*levels):
            found += [
                _cell(case, threads, repeat, *choice) for choice in level if choice and (not only or choice[0] in only)
            ]
    return found


def _cell(case: Case, threads: int, repeat: int, method: str, budget: Result) -> Result:
    place = {"data": case.data, "n": case.n, "h": case.bandwidth}
    return place | {"method": method, "budget": budget, "threads": threads, "repeat": repeat}


def dimension(data: str) -> int:
    return DIMENSIONS.get(data) or int(data.rpartition("-")[2])


def run(cell: Result) -> Result:
    case = Case("peers", cell["data"], cell["n"], cell["h"], cell["budget"].get("tol", 1e-3)).as_dict()
    first = cell["repeat"] == 0  # the error is the same in every repeat
    found = fresh("build", cell["threads"], case=case, method=cell["method"], options=cell["budget"], error=first)
    keys = ("wall", "cpu", "product_wall", "product_cpu", "data_mb", "peak_mb", "floats", "error", "error_stderr")
    return {key: found[key] for key in keys if key in found} | {"points": found["n"]}


def line(record: Result) -> str:
    error = f", error {record['error']:.2g}" if "error" in record else ""
    return (
        f"{record['cpu']:.2f} s, product {record['product_cpu']:.3g} s, "
        f"{record['peak_mb'] - record['data_mb']:.0f} MB, {record['floats']:.0f} floats a point{error}"
    )


def verdicts(content: Content) -> list[Verdict]:
    return []


def summarized(content: Content) -> list[Result]:
    """Medians over the repeats of each method and budget; without a first run there is no error, and no row."""
    found: dict[str, list[Result]] = {}
    for record in succeeded(content):
        key = str([record[name] for name in ("data", "n", "h", "threads", "method", "budget")])
        found.setdefault(key, []).append(record)
    measured = ("wall", "cpu", "product_wall", "product_cpu", "data_mb", "peak_mb")
    return [
        records[0] | {key: statistics.median(record[key] for record in records) for key in measured}
        for records in found.values()
        if "error" in records[0]
    ]


def tables(content: Content) -> list[str]:
    header = ["method", "budget", "threads", "build, cpu s", "wall s", "product, cpu s", "wall s", "MB beyond the data"]
    header += ["floats a point", "error"]
    order = list(METHODS)
    found = []
    records = sorted(summarized(content), key=lambda r: (order.index(r["method"]), r["threads"]))
    for place in dict.fromkeys((r["data"], r["points"], r["h"]) for r in records):
        rows = [
            [METHODS[r["method"]].title, ", ".join(f"{k}={v:g}" for k, v in r["budget"].items()), r["threads"]]
            + [r[key] for key in ("cpu", "wall", "product_cpu", "product_wall")]
            + [max(0.0, r["peak_mb"] - r["data_mb"]), r["floats"], r["error"]]
            for r in records
            if (r["data"], r["points"], r["h"]) == place
        ]
        found.append(f"{place[0]}, {place[1]:,} points, h={place[2]:g}:\n\n{table(header, rows)}")
    return found
