"""Time by tolerance beside Nystroem's at the same error."""

from __future__ import annotations

from functools import partial

import numpy as np
from cases import CASES, TIMED, Case, chosen
from measure import Result, all_cores, fresh, interleaved, repeats_of
from peers import DOUBLINGS
from report import Content, Verdict, at_most, number, ratio_of, succeeded, table

TITLE = "By tolerance, beside Nystroem at the same error"
#: Nystroem counts at least this many seconds.
LEAST_SECONDS = 0.5


def cells(size: str, only: list[str] | None) -> list[Result]:
    threads = (1, all_cores()) if size == "full" else (1,)
    once = {"repeats": 1} if size == "tiny" else {}
    return [{"case": case.name, "threads": count} | once for count in threads for case in chosen(size, only)]


def run(cell: Result) -> Result:
    """Ours, then Nystroem in doublings until it reaches our error; then both in turn."""
    case, threads = CASES[cell["case"]], cell["threads"]
    build = partial(fresh, "build", threads, case=case.as_dict())
    ours = build(method="ours", options={})
    search = _search(build, ours["error"])
    components = search[-1]["components"]
    jobs = {
        "ours": partial(build, method="ours", options={}, error=False),
        "nystroem": partial(build, method="nystroem", options={"components": components}, error=False),
    }
    both = interleaved(jobs, known={"ours": ours, "nystroem": search[-1]}, repeats=repeats_of(cell))
    record: Result = {"title": case.title, "n": ours["n"], "d": ours["d"], "tol": case.tol, "components": components}
    record |= {"reached": search[-1]["error"] <= ours["error"], "search": [_brief(run) for run in search]}
    for name, first in (("ours", ours), ("nystroem", search[-1])):
        record |= {f"{name}_{key}": value for key, value in (first | both[name]).items() if key not in ("n", "d")}
    clock = "cpu" if threads == 1 else "wall"
    record["ratio"] = record[f"ours_{clock}"] / max(record[f"nystroem_{clock}"], LEAST_SECONDS)
    record["raw_ratio"] = record[f"ours_{clock}"] / record[f"nystroem_{clock}"]
    return record


def _search(build: partial[Result], error: float) -> list[Result]:
    runs: list[Result] = []
    for components in DOUBLINGS:
        found = build(method="nystroem", options={"components": components})
        runs.append(found | {"components": components})
        if found["error"] <= error or components >= found["n"]:
            break
    return runs


def _brief(run: Result) -> Result:
    return {key: run[key] for key in ("components", "error", "cpu", "wall", "peak_mb")}


def line(record: Result) -> str:
    return (
        f"ours {record['ours_cpu']:.2f} s, {record['ours_floats']:.0f} floats a point, "
        f"error {record['ours_error']:.2g}; "
        f"Nystroem({record['components']}) {record['nystroem_cpu']:.2f} s, error {record['nystroem_error']:.2g}; "
        f"ratio {record['ratio']:.2f}"
    )


def today(case: Case, content: Content) -> float | None:
    """Floats a point of the earlier commit: from the file given, or as reported in the issue."""
    rows = [row for row in content["baseline"] if row.get("case") == case.name]
    return rows[-1]["stored"] / rows[-1]["n"] if rows else case.today


def verdicts(content: Content) -> list[Verdict]:
    records = [record for record in succeeded(content) if record["threads"] == 1]
    timed = [record["ratio"] for record in records if record["case"] in TIMED or record["case"] == "tiny"]
    count = f"{len(timed)} of {len(TIMED)} cases"
    floats, halved = _floats(records, content)
    return [
        at_most(f"time over Nystroem's at the same error, median at most 1.0, {count}", timed, 1.0, np.median),
        at_most(f"time over Nystroem's at the same error, worst at most 3, {count}", timed, 3.0),
        at_most(f"floats at most 1.1 times today's, {len(floats)} cases with a figure of today's", floats, 1.1),
        at_most(f"floats at most half of today's on emg1, cov1, census1, {len(halved)} with a figure", halved, 0.5),
        at_most("error at most the tolerance", (record["ours_error"] / record["tol"] for record in records), 1.0),
    ]


def _floats(records: list[Result], content: Content) -> tuple[list[float], list[float]]:
    """Floats over today's: of all cases, and of those whose floats are to be halved."""
    every, halved = [], []
    for record in records:
        case = CASES[record["case"]]
        before = today(case, content)
        if before is not None:
            every.append(record["ours_floats"] / before)
            if case.floats < 1:
                halved.append(every[-1])
    return every, halved


def tables(content: Content) -> list[str]:
    header = ["case", "threads", "ours, cpu s", "wall s", "peak MB", "error", "floats a point", "today's", "components"]
    header += ["Nystroem, cpu s", "wall s", "peak MB", "error", "reached", "ratio, raw", "ratio, by the rule"]
    rows = []
    for record in succeeded(content):
        before = today(CASES[record["case"]], content)
        row = [record["title"], record["threads"]]
        row += [record[f"ours_{key}"] for key in ("cpu", "wall", "peak_mb", "error", "floats")]
        row += [before, record["components"]]
        row += [record[f"nystroem_{key}"] for key in ("cpu", "wall", "peak_mb", "error")]
        rows.append([*row, "yes" if record["reached"] else "no", record["raw_ratio"], record["ratio"]])
    slower = [row for row in content["baseline"] if "case" in row]
    earlier = [table(["case", "earlier commit, cpu s", "now", "now over then"], _earlier(slower, content))]
    return [table(header, rows), *(earlier if slower else [])]


def _earlier(rows: list[Result], content: Content) -> list[list[str]]:
    now = {record["case"]: record["ours_cpu"] for record in succeeded(content) if record["threads"] == 1}
    seconds = {row["case"]: row["plan"] + row["build"] for row in rows}
    return [
        [name, number(before), number(now.get(name)), number(ratio_of(now.get(name), before))]
        for name, before in seconds.items()
    ]
