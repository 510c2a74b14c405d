"""Wall time on one core and on two, and whether the results are the same to the last bit.

Two virtual cores may be two threads of one physical core. What two cores can reach on a machine is therefore measured
too: two processes, each on one thread, that make the same factorization at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from cases import CASES
from measure import Result, fresh, interleaved, repeats_of
from report import Content, Verdict, at_most, share_at_least, succeeded, table

TITLE = "Two cores"
NAMES = {"tiny": ("tiny",), "quick": ("mix8", "pend4"), "full": ("mix8", "pend4", "cov4", "census4", "mix5", "emg1")}


def cells(size: str, only: list[str] | None) -> list[Result]:
    once = {"repeats": 1} if size == "tiny" else {}
    return [{"case": name} | once for name in NAMES[size] if not only or name in only]


def run(cell: Result) -> Result:
    """One core, two cores, one core, ..."""
    case = CASES[cell["case"]]
    build = partial(fresh, "build", case=case.as_dict(), method="ours", options={}, error=False)
    jobs = {"one": partial(build, threads=1), "two": partial(build, threads=2)}
    both = interleaved(jobs, repeats=repeats_of(cell))
    record: Result = {"title": case.title, "n": both["one"]["n"]}
    for name, result in both.items():
        record |= {f"{name}_{key}": result[key] for key in ("wall", "cpu", "product_wall", "digest", "runs")}
    with ThreadPoolExecutor(2) as pool:
        at_once = list(pool.map(lambda _: build(threads=1)["wall"], range(2)))
    record["ratio"] = record["two_wall"] / record["one_wall"]
    record["reachable"] = float(np.mean(at_once)) / (2 * record["one_wall"])
    record["identical"] = record["one_digest"] == record["two_digest"]
    return record


def line(record: Result) -> str:
    same = "identical" if record["identical"] else "NOT identical"
    return (
        f"one {record['one_wall']:.2f} s, two {record['two_wall']:.2f} s, ratio {record['ratio']:.2f} "
        f"(two processes at once {record['reachable']:.2f}), {same}"
    )


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    return [
        at_most("wall time on two cores at most 0.6 of one core's, every case", (r["ratio"] for r in records), 0.6),
        at_most(
            "half the wall time of two processes at once over that of one: what this machine's two cores can reach, "
            "median at most 0.6",
            (r["reachable"] for r in records),
            0.6,
            np.median,
        ),
        share_at_least("bit-identical results", (r["identical"] for r in records), 1.0),
    ]


def tables(content: Content) -> list[str]:
    header = ["case", "one core, wall s", "cpu s", "two cores, wall s", "cpu s", "ratio", "reachable", "identical"]
    keys = ("title", "one_wall", "one_cpu", "two_wall", "two_cpu", "ratio", "reachable", "identical")
    return [table(header, [[record[key] for key in keys] for record in succeeded(content)])]
