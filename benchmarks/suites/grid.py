"""The tolerance grid: tolerances met, estimates right, plans true; floats and time beside an earlier commit."""

from __future__ import annotations

import itertools

import numpy as np
from cases import TINY
from data import points_of
from measure import Result, quietly, stopwatch
from report import Content, Verdict, at_most, number, share_at_least, succeeded, table

import blockbasis as bb

TITLE = "The tolerance grid"
SEEDS = 3
#: Points, data sets, bandwidths, tolerances.
FULL = (
    (
        2_000,
        ("abalone", "pendigits", "ctg", "emg", "gesture", "census_house"),
        (0.25, 0.5, 1.0, 2.0, 4.0),
        (1e-1, 1e-2, 1e-3),
    ),
    (
        8_000,
        ("pendigits", "emg", "gesture", "census_house", "keggdirected", "covtype"),
        (0.5, 1.0, 2.0),
        (1e-1, 1e-2),
    ),
)
QUICK = (
    (2_000, ("abalone", "pendigits", "ctg", "emg", "gesture", "census_house"), (0.5, 2.0), (1e-1, 1e-2)),
    (8_000, ("pendigits", "emg", "keggdirected"), (2.0,), (1e-1, 1e-2)),
)
KEYS = ("data", "h", "tol", "seed", "n")


def cells(size: str, only: list[str] | None) -> list[Result]:
    if size == "tiny":
        return [{"data": TINY.data, "h": TINY.bandwidth, "tol": TINY.tol, "seed": 0, "n": TINY.n}]
    parts, seeds = (FULL, SEEDS) if size == "full" else (QUICK, 1)
    return [
        dict(zip(KEYS, (name, h, tol, seed, n), strict=True))
        for n, data, bandwidths, tolerances in parts
        for name, h, tol, seed in itertools.product(data, bandwidths, tolerances, range(seeds))
        if not only or name in only
    ]


def run(cell: Result) -> Result:
    """Plan, build, and the true error from the whole matrix, one thread."""
    X, kernel, seed = points_of(cell["data"], cell["n"], cell["seed"]), bb.Gaussian(cell["h"]), cell["seed"]
    with quietly() as messages:
        with stopwatch() as planning:
            plan = bb.plan(X, kernel, tol=cell["tol"], rng=seed, n_jobs=1)
        record: Result = {"points": len(X), "planned": int(plan.stored), "planned_seconds": float(plan.seconds)}
        record |= {"plan": planning.cpu, "plan_wall": planning.wall}
        if plan.stored > len(X) * (len(X) + 1) // 2:
            return record | {"skipped": True}
        with stopwatch() as building:
            A = bb.factorize(X, kernel, plan=plan, rng=seed, n_jobs=1)
        record |= {"build": building.cpu, "build_wall": building.wall, "stored": int(A.stored), "k": A.n_clusters}
        record |= {"estimate": A.error_estimate.value, "entries": int(A.entries.total), "skipped": False}
        record["error"] = bb.relative_error(A, X, kernel).value
    return record | {"warnings": messages}


def line(record: Result) -> str:
    if record["skipped"]:
        return (
            f"skipped, {record['planned'] / record['points']:.0f} floats a point planned, plan {record['plan']:.2f} s"
        )
    return (
        f"error {record['error']:.3g}, estimate {record['estimate']:.3g}, {record['stored'] / record['points']:.0f} "
        f"floats a point, plan {record['plan']:.2f} s, build {record['build']:.2f} s"
    )


def verdicts(content: Content) -> list[Verdict]:
    built = [record for record in succeeded(content) if not record["skipped"]]
    excess = [record["error"] / record["tol"] for record in built]
    met = (ratio <= 1 for ratio in excess)
    estimates = (abs(_ratio(record["estimate"], record["error"]) - 1) <= 0.2 for record in built)
    planned = (abs(record["planned"] / record["stored"] - 1) <= 0.25 for record in built)
    pace = (1 / 3 <= record["planned_seconds"] / record["build_wall"] <= 3 for record in built)
    return [
        share_at_least("error at most tol in 98% of the cells", met, 0.98),
        at_most("largest error over tol at most 1.2", excess, 1.2),
        share_at_least("estimate within 20% of the error in 95%", estimates, 0.95),
        share_at_least("planned floats within 25%, every cell", planned, 1.0),
        share_at_least("planned seconds within a factor of 3, every cell", pace, 1.0),
        *_against_earlier(content),
    ]


def _ratio(estimate: float, error: float) -> float:
    return estimate / error if error > 0 else 1.0


def _against_earlier(content: Content) -> list[Verdict]:
    """Floats and processor time cell by cell, where the earlier commit has the cell."""
    pairs = compared(content)
    floats = [now["stored"] / then["stored"] for now, then in pairs if not (now["skipped"] or then["skipped"])]
    few = (ratio <= 1.1 for ratio in floats)
    median = f"median {np.median(floats):.3g}" if floats else ""
    now, then = (sum(seconds(pair[side]) for pair in pairs) for side in (0, 1))
    both = f"{now:,.0f} s now, {then:,.0f} s then, {len(pairs)} cells"
    return [
        share_at_least("floats at most 1.1 times the earlier commit's in 90%", few, 0.9, median),
        Verdict(
            "processor time at most a tenth of the earlier commit's",
            f"{both}: {number(now / then)}" if pairs else "",
            now <= 0.1 * then if pairs else None,
        ),
    ]


def compared(content: Content) -> list[tuple[Result, Result]]:
    """Cells of now and of the earlier commit."""
    earlier = {tuple(row[key] for key in KEYS): row for row in content["baseline"] if all(k in row for k in KEYS)}
    records = {tuple(record[key] for key in KEYS): record for record in succeeded(content)}
    return [(record, earlier[cell]) for cell, record in records.items() if cell in earlier]


def seconds(record: Result) -> float:
    return float(record["plan"] + record.get("build", 0.0))


def tables(content: Content) -> list[str]:
    records = succeeded(content)
    built = sum(not record["skipped"] for record in records)
    total = sum(seconds(record) for record in records)
    text = (
        f"{len(records)} cells, {built} built, {len(records) - built} skipped (the plan needs more floats than the "
        f"dense matrix has), {total:,.0f} processor seconds. Below: floats a point (mean of the seeds), largest error "
        "over tolerance, processor seconds of plan and build (mean)."
    )
    found = [text]
    for n in sorted({record["n"] for record in records}):
        part = [record for record in records if record["n"] == n]
        tolerances = sorted({record["tol"] for record in part}, reverse=True)
        groups = dict.fromkeys((record["data"], record["h"]) for record in part)
        rows = [
            [f"{name} {h:g}"]
            + [_summary([r for r in part if (r["data"], r["h"], r["tol"]) == (name, h, tol)]) for tol in tolerances]
            for name, h in groups
        ]
        found.append(table([f"data, h; n = {n:,}", *(f"tol={tol:g}" for tol in tolerances)], rows))
    return found


def _summary(records: list[Result]) -> str:
    built = [record for record in records if not record["skipped"]]
    if not built:
        return "skipped" if records else ""
    floats = np.mean([record["stored"] / record["points"] for record in built])
    excess = max(record["error"] / record["tol"] for record in built)
    return f"{floats:.0f}, {excess:.2f}, {np.mean([seconds(record) for record in built]):.2f} s"
