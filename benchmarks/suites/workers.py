"""dask workers: speed, bytes moved, workers that are killed, and Covertype."""

from __future__ import annotations

from measure import STREAMS, Result, fresh
from report import Content, Verdict, at_most, number, succeeded, table

TITLE = "Several workers"
#: Points of the comparison of one worker with two, and those of the growth of bytes.
SIZES = {
    "tiny": (2_000, (2_000,)),
    "quick": (200_000, (100_000, 400_000)),
    "full": (1_000_000, (100_000, 400_000, 1_600_000)),
}
STAGES = ("factorize", "product", "solve", "fit")
KILLS = {"tiny": 1, "quick": 4, "full": 20}


def cells(size: str, only: list[str] | None) -> list[Result]:
    n, sizes = SIZES[size]
    shape = {"data": "mixture-8", "task": "on_workers", "d": 8, "blocks": 20}
    shape |= {"clusters": 5, "rank": 10} if size == "tiny" else {"clusters": 50, "rank": 40}
    pairs = dict.fromkeys([(n, 1), (n, 2), *((each, 2) for each in sizes)])
    found = [shape | {"n": each, "workers": workers} for each, workers in pairs]
    found.append({"data": "mixture-5", "task": "killed", "kills": KILLS[size]})
    if size != "tiny":
        found += [{"data": "mixture-8", "task": "memory_limit"}, {"data": "covtype", "task": "covertype"}]
    return found


def run(cell: Result) -> Result:
    return fresh(worker=STREAMS, **{key: value for key, value in cell.items() if key != "data"})


def line(record: Result) -> str:
    shown = ("factorize_wall", "fit_wall", "same", "error", "other", "longest", "one_error", "seconds")
    return ", ".join(f"{key} {number(record[key])}" for key in shown if key in record)


def verdicts(content: Content) -> list[Verdict]:
    records = succeeded(content)
    runs = [record for record in records if record["task"] == "on_workers"]
    kills = next((record for record in records if record["task"] == "killed"), None)
    covertype = next((record for record in records if record["task"] == "covertype"), None)
    memory = next((record for record in records if record["task"] == "memory_limit"), None)
    two = [record for record in runs if record["workers"] == 2]
    ratios = [r[f"{stage}_moved"] / r[f"{stage}_predicted"] for r in two for stage in STAGES if r[f"{stage}_predicted"]]
    differences = [r[key] for r in runs for key in ("product_difference", "fit_difference") if key in r]
    found = [
        _speed(runs),
        at_most("the result of one process to 1e-10", differences, 1e-10),
        at_most("bytes between workers over those of the cost model", ratios, 1.5),
        _growth(two),
    ]
    must = "a worker killed: the same result or a clear error within 60 s"
    if kills is None:
        found.append(Verdict(must, "", None))
    else:
        counts = f"{kills['same']} the same, {kills['error']} errors, {kills['other']} others"
        text = f"{counts}, longest {kills['longest']:.0f} s"
        found.append(Verdict(must, text, kills["other"] == 0 and kills["longest"] <= 60))
    gap = [] if covertype is None else [100 * abs(covertype["error"] - covertype["one_error"])]
    found.append(at_most("error on Covertype: two workers and one process, difference in points", gap, 0.1))
    named = None if memory is None else "more memory" in memory["message"]
    return [*found, Verdict("a worker of 500 MB ends in an error that names the remedy", "", named)]


def _speed(runs: list[Result]) -> Verdict:
    """One worker over two, at the largest number of points that both have run."""
    must = "two workers at least 1.6 times as fast as one (construction)"
    walls = {(record["n"], record["workers"]): record["factorize_wall"] for record in runs}
    both = [n for n, workers in walls if workers == 1 and (n, 2) in walls]
    if not both:
        return Verdict(must, "", None)
    speed = walls[max(both), 1] / walls[max(both), 2]
    return Verdict(must, f"{speed:.2f} at n = {max(both):,}", speed >= 1.6)


def _growth(two: list[Result]) -> Verdict:
    must = "bytes between workers do not grow with n: largest over smallest"
    if len(two) < 2:
        return Verdict(must, "", None)
    moved = [[record[f"{stage}_moved"] for record in two] for stage in STAGES]
    return at_most(must, [max(each) / min(each) for each in moved if min(each)], 1.05)


def tables(content: Content) -> list[str]:
    runs = [record for record in succeeded(content) if record["task"] == "on_workers"]
    keys = [f"{stage}_{what}" for stage in STAGES for what in ("wall", "moved", "predicted")]
    rows = [[record["n"], record["workers"], *(record[key] for key in keys)] for record in runs]
    text = (
        "Wall seconds; bytes that workers receive from each other, as they report them, and those of "
        "`predicted_costs`. The workers share the bases of the sample of 100,000 rows; its clusters and its check are "
        "the work of the caller. Work stealing is off: with it, dask moves points from busy workers to idle ones."
    )
    return [table(["n", "workers", *keys], rows), text] if rows else []
