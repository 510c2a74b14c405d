"""Bytes a second of a product, beside those of a copy by NumPy."""

from __future__ import annotations

from cases import Case
from measure import Result, fresh
from report import Content, Verdict, number, succeeded, table

TITLE = "Product"
SIZES = {"tiny": (1_500, 5, 10), "quick": (200_000, 15, 80), "full": (1_000_000, 15, 80)}
NEEDED = 0.7


def cells(size: str, only: list[str] | None) -> list[Result]:
    n, clusters, rank = SIZES[size]
    return [{"data": "mixture-5", "n": n, "clusters": clusters, "rank": rank, "threads": count} for count in (1, 2)]


def run(cell: Result) -> Result:
    case = Case("product", cell["data"], cell["n"], 0.5, 1e-3).as_dict()
    options = {"n_clusters": cell["clusters"], "rank": cell["rank"]}
    found = fresh("bandwidth", cell["threads"], case=case, options=options)
    return {key: found[key] for key in ("wall", "gb_per_s", "copy_gb_per_s", "share", "stored", "floats")}


def line(record: Result) -> str:
    return (
        f"{1e3 * record['wall']:.1f} ms, {record['gb_per_s']:.1f} GB/s, "
        f"{record['share']:.0%} of the {record['copy_gb_per_s']:.1f} GB/s of a copy"
    )


def verdicts(content: Content) -> list[Verdict]:
    shares = {(record["n"], record["threads"]): record["share"] for record in succeeded(content)}
    found = []
    for threads, name in ((1, "one core"), (2, "two cores")):
        share = shares.get((1_000_000, threads))
        must = f"at least 70% of the bandwidth of a copy at n = 1,000,000 on {name}"
        found.append(Verdict(must, number(share), None if share is None else share >= NEEDED))
    return found


def tables(content: Content) -> list[str]:
    header = ["n", "cores", "clusters", "rank", "product, s", "GB/s", "copy, GB/s", "share"]
    keys = ("n", "threads", "clusters", "rank", "wall", "gb_per_s", "copy_gb_per_s", "share")
    text = "A product reads U twice, half of C and D once; a copy reads and writes its array."
    return [table(header, [[record[key] for key in keys] for record in succeeded(content)]), text]
