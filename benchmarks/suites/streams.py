"""Points larger than memory and streams: processor time, memory, and equality with fits in memory."""

from __future__ import annotations

from measure import STREAMS, Result, fresh
from report import Content, Verdict, at_most, number, succeeded, table

TITLE = "Larger than memory, and streams"
#: Rows of the table on disk, of that in memory, of the chunks, and of the stream.
SIZES = {
    "tiny": (3_000, 2_000, 2_000, 2_000),
    "quick": (1_000_000, 200_000, 100_000, 200_000),
    "full": (5_000_000, 500_000, 500_000, 2_000_000),
}
TASKS = ("fit_on_disk", "fit_in_memory", "in_chunks", "stream")


def cells(size: str, only: list[str] | None) -> list[Result]:
    on_disk, in_memory, chunks, stream = SIZES[size]
    chunk = max(stream // 100, 20)
    return [
        {"data": "mixture-20", "task": "fit_on_disk", "n": on_disk},
        {"data": "mixture-20", "task": "fit_in_memory", "n": in_memory},
        {"data": "mixture-20", "task": "in_chunks", "n": chunks, "parts": 50},
        {"data": "covtype", "task": "stream", "n": stream, "chunk": chunk},
    ]


def run(cell: Result) -> Result:
    return fresh(worker=STREAMS, **{key: value for key, value in cell.items() if key != "data"})


def line(record: Result) -> str:
    known = (*_cell_keys(), "data", "task")
    return ", ".join(f"{key} {number(value)}" for key, value in record.items() if key not in known)


def _cell_keys() -> tuple[str, ...]:
    return "commit", "cell", "n", "parts", "chunk"


def verdicts(content: Content) -> list[Verdict]:
    found = {record["task"]: record for record in succeeded(content)}
    disk, memory, chunks, stream = (found.get(task, {}) for task in TASKS)
    ratio = disk["fit_cpu"] / memory["fit_cpu"] if disk and memory else None
    must = (
        f"processor time of {disk.get('n', 0):,} rows on disk at most 12 times that of {memory.get('n', 0):,} in memory"
    )
    return [
        _within("a fit of rows on disk within 1,500 MB", disk.get("fit_peak_mb"), 1500),
        _within("predictions of all rows within 1,000 MB", disk.get("predict_peak_mb"), 1000),
        _within(must, ratio, 12),
        _within("rows on disk and in memory: the same predictions to 1e-6", memory.get("difference"), 1e-6),
        _within("the direct solver in memory: the same predictions to 1e-6", memory.get("solver_difference"), 1e-6),
        _within(
            "50 chunks and one call: the same predictions to 1e-8", found.get("in_chunks", {}).get("difference"), 1e-8
        ),
        _within("resident memory over a stream flat within 50 MB", found.get("stream", {}).get("growth_mb"), 50),
    ]


def _within(must: str, value: float | None, bound: float) -> Verdict:
    return at_most(must, [] if value is None else [value], bound)


def tables(content: Content) -> list[str]:
    keys = (
        "fit_cpu",
        "fit_peak_mb",
        "predict_cpu",
        "predict_peak_mb",
        "rmse",
        "ordinary_rmse",
        "difference",
        "growth_mb",
    )
    rows = [[r["task"], r["n"], *(r.get(key) for key in keys)] for r in succeeded(content)]
    text = (
        "Seconds are processor seconds of one thread, peaks the largest resident memory in MB, pages of the file "
        "included. `ordinary_rmse` is the training error of `KernelRidge.fit` in memory, which has local regressions, "
        "and `rmse` that of the fit in pieces."
    )
    return [table(["task", "n", *keys], rows), text]
