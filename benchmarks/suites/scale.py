"""Growth with the number of points, beside Nystroem(500) and one exact product."""

from __future__ import annotations

from functools import partial

import numpy as np
from cases import Case
from measure import Result, fresh, interleaved, repeats_of
from report import Content, Verdict, at_most, number, succeeded, table

TITLE = "Growth with the number of points"
COMPONENTS = 500
EXACT_POINTS = 100_000
SIZES = {
    "tiny": (1_500,),
    "quick": (30_000, 60_000, 120_000),
    "full": (30_000, 60_000, 100_000, 125_000, 250_000, 500_000, 1_000_000),
}
EXACT = {"tiny": 1_500, "quick": 60_000, "full": EXACT_POINTS}


def cells(size: str, only: list[str] | None) -> list[Result]:
    once = {"repeats": 1} if size == "tiny" else {}
    return [{"data": "mixture-5", "n": n, "exact": n == EXACT[size]} | once for n in SIZES[size]]


def run(cell: Result) -> Result:
    """Plan and build by tolerance, and Nystroem, in turn; where asked one exact product."""
    case = Case("scale", cell["data"], cell["n"], 0.5, 1e-3).as_dict()
    build = partial(fresh, "build", 1, case=case)
    first = {
        "ours": build(method="ours", options={}),
        "nystroem": build(method="nystroem", options={"components": COMPONENTS}),
    }
    jobs = {
        "ours": partial(build, method="ours", options={}, error=False),
        "nystroem": partial(build, method="nystroem", options={"components": COMPONENTS}, error=False),
    }
    both = interleaved(jobs, known=first, repeats=repeats_of(cell))
    record: Result = {}
    for name in jobs:
        record |= {f"{name}_{key}": value for key, value in (first[name] | both[name]).items() if key not in ("n", "d")}
    record["ratio"] = record["ours_cpu"] / record["nystroem_cpu"]
    record["product_ratio"] = record["ours_product_cpu"] / record["nystroem_product_cpu"]
    if cell["exact"]:
        for name, key in (("exact-numpy", ""), ("exact", "own_")):
            exact = build(method=name, options={}, error=False)
            record |= {
                f"{key}exact_product_cpu": exact["product_cpu"],
                f"{key}exact_product_wall": exact["product_wall"],
            }
            record[f"{key}gain"] = exact["product_cpu"] / (record["ours_cpu"] + record["ours_product_cpu"])
    return record


def line(record: Result) -> str:
    exact = f", exact product {record['exact_product_cpu']:.1f} s" if "exact_product_cpu" in record else ""
    return (
        f"ours {record['ours_cpu']:.2f} s, {record['ours_peak_mb']:.0f} MB, "
        f"product {record['ours_product_cpu']:.3g} s; "
        f"Nystroem({COMPONENTS}) {record['nystroem_cpu']:.2f} s, {record['nystroem_peak_mb']:.0f} MB, "
        f"product {record['nystroem_product_cpu']:.3g} s; ratio {record['ratio']:.2f}{exact}"
    )


def exponent(records: list[Result], key: str) -> float:
    """Slope of a line through the logarithms."""
    records = [record for record in records if record["n"] >= 30_000]
    if len(records) < 2:
        return float("nan")
    return float(np.polyfit(np.log([r["n"] for r in records]), np.log([r[key] for r in records]), 1)[0])


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    at = {record["n"]: record for record in records}

    def values(n: int, key: str) -> list[float]:
        return [at[n][key]] if n in at and key in at[n] else []

    slope = exponent(records, "ours_cpu")
    sizes = f"{min(at, default=0):,} to {max(at, default=0):,}"
    million = 1_000_000
    gain, own = values(EXACT_POINTS, "gain"), values(EXACT_POINTS, "own_gain")
    return [
        at_most("n = 60,000: time at most 1.5 of Nystroem(500)", values(60_000, "ratio"), 1.5),
        at_most("n = 1,000,000: time at most 0.4 of Nystroem(500)", values(million, "ratio"), 0.4),
        at_most("n = 1,000,000: at most 3,000 MB resident", values(million, "ours_peak_mb"), 3000),
        at_most("n = 1,000,000: a product at most a third of Nystroem's", values(million, "product_ratio"), 1 / 3),
        at_most(f"exponent of plan + build at most 1.05, n = {sizes}", [] if np.isnan(slope) else [slope], 1.05),
        Verdict(
            "n = 100,000: an exact product in tiled NumPy takes at least 20 times plan + build + product",
            number(gain[0]) if gain else "",
            gain[0] >= 20 if gain else None,
        ),
        Verdict(
            "n = 100,000: an exact product of blockbasis.ExactKernel takes at least 20 times plan + build + product",
            number(own[0]) if own else "",
            own[0] >= 20 if own else None,
        ),
    ]


def tables(content: Content) -> list[str]:
    header = ["n", "ours, cpu s", "wall s", "peak MB", "product s", "error", "floats a point"]
    header += ["Nystroem(500), cpu s", "wall s", "peak MB", "product s", "error", "ratio", "product ratio"]
    header += ["exact product, tiled NumPy, cpu s", "ExactKernel, cpu s"]
    keys = ("cpu", "wall", "peak_mb", "product_cpu", "error")
    records = sorted(succeeded(content), key=lambda record: record["n"])
    rows = [
        [record["n"], *(record[f"ours_{key}"] for key in (*keys, "floats")), *(record[f"nystroem_{k}"] for k in keys)]
        + [
            record["ratio"],
            record["product_ratio"],
            record.get("exact_product_cpu"),
            record.get("own_exact_product_cpu"),
        ]
        for record in records
    ]
    slopes = {name: exponent(records, f"{name}_cpu") for name in ("ours", "nystroem")}
    text = f"Exponents in n: ours {number(slopes['ours'])}, Nystroem {number(slopes['nystroem'])}."
    return [table(header, rows), text]
