"""Kernel entries evaluated: for each point, free of n, and as a share of the matrix."""

from __future__ import annotations

from functools import partial

from cases import CASES, Case, chosen
from measure import Result, fresh
from report import Content, Verdict, at_most, succeeded, table

TITLE = "Kernel entries"


def cells(size: str, only: list[str] | None) -> list[Result]:
    return [{"case": case.name} for case in chosen(size, only)]


def run(cell: Result) -> Result:
    """Entries at n and n / 2 points: the line through the two has a part for each point and a part free of n."""
    case = CASES[cell["case"]]
    build = partial(fresh, "build", method="ours", options={}, error=False)
    whole = build(case=case.as_dict())
    half = build(case=_halved(case, whole["n"]).as_dict())
    slope = (whole["entries"] - half["entries"]) / (whole["n"] - half["n"])
    return {
        "title": case.title,
        "n": whole["n"],
        "rank": whole["rank"],
        "allowed": 6 * whole["rank"] + 400,
        "per_point": slope,
        "free_of_n": whole["entries"] - slope * whole["n"],
        "total_per_point": whole["entries"] / whole["n"],
        "half_total_per_point": half["entries"] / half["n"],
        "half_rank": half["rank"],
        "share": whole["entries"] / whole["n"] ** 2,
        "warnings": whole["warnings"],
    }


def _halved(case: Case, n: int) -> Case:
    return case.of(n=n // 2)


def line(record: Result) -> str:
    return (
        f"{record['per_point']:.0f} entries for each point ({record['allowed']:.0f} allowed), "
        f"{record['free_of_n']:.3g} free of n, {record['share']:.2%} of the matrix"
    )


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    over = (record["per_point"] / record["allowed"] for record in records)
    return [
        at_most(f"entries for each point over 6 r + 400 at most 1, worst of {len(records)}", over, 1.0),
        at_most("entries over those of the matrix at most 0.5, worst", (record["share"] for record in records), 0.5),
    ]


def tables(content: Content) -> list[str]:
    header = ["case", "n", "r", "6 r + 400", "for each point", "free of n", "all, a point", "all, a point at n / 2"]
    header += ["r at n / 2", "share of the matrix"]
    keys = ("title", "n", "rank", "allowed", "per_point", "free_of_n", "total_per_point", "half_total_per_point")
    keys = (*keys, "half_rank", "share")
    text = (
        "r is the mean rank of a point's cluster. *For each point* and *free of n* are slope and offset of the line "
        "through n and n / 2 points at the same tolerance; ranks and clusters may differ between the two."
    )
    return [table(header, [[record[key] for key in keys] for record in succeeded(content)]), text]
