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
    """Entries of the pass over the points, and all others, at n and at n / 2 points.

    The pass evaluates every point with the landmarks of its cluster; everything else works on samples.
    """
    case = CASES[cell["case"]]
    build = partial(fresh, "build", method="ours", options={}, error=False)
    whole = build(case=case.as_dict())
    half = build(case=_halved(case, whole["n"]).as_dict())
    return {
        "title": case.title,
        "n": whole["n"],
        "rank": whole["rank"],
        "allowed": 6 * whole["rank"] + 400,
        "per_point": whole["in_pass"] / whole["n"],
        "sampled": whole["entries"] - whole["in_pass"],
        "half_sampled": half["entries"] - half["in_pass"],
        "total_per_point": whole["entries"] / whole["n"],
        "share": whole["entries"] / whole["n"] ** 2,
        "warnings": whole["warnings"],
    }


def _halved(case: Case, n: int) -> Case:
    return case.of(n=n // 2)


def line(record: Result) -> str:
    return (
        f"{record['per_point']:.0f} entries for each point in the pass ({record['allowed']:.0f} allowed), "
        f"{record['sampled']:.3g} others ({record['half_sampled']:.3g} at n / 2), {record['share']:.2%} of the matrix"
    )


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    over = (record["per_point"] / record["allowed"] for record in records)
    return [
        at_most(f"entries for each point in the pass over 6 r + 400 at most 1, worst of {len(records)}", over, 1.0),
        at_most(
            "other entries at n over those at n / 2 at most 1.2, worst: free of n",
            (record["sampled"] / record["half_sampled"] for record in records),
            1.2,
        ),
        at_most("entries over those of the matrix at most 0.5, worst", (record["share"] for record in records), 0.5),
    ]


def tables(content: Content) -> list[str]:
    header = ["case", "n", "r", "6 r + 400", "for each point", "others", "others at n / 2", "all, a point"]
    header += ["share of the matrix"]
    keys = ("title", "n", "rank", "allowed", "per_point", "sampled", "half_sampled", "total_per_point", "share")
    text = (
        "r is the mean rank of a point's cluster. *For each point*: the entries that the pass over the points "
        "evaluates, those of a point with the landmarks of its cluster. *Others*: surveys, samples of rows and "
        "columns, C and the check, whose number depends on ranks and clusters; ranks and clusters are chosen anew "
        "for n / 2 points."
    )
    return [table(header, [[record[key] for key in keys] for record in succeeded(content)]), text]
