"""Command compress: the factorization of the kernel matrix of points."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.cli import options
from blockbasis.cli.console import Output, StageClock, progress_bars, running
from blockbasis.cli.descriptions import factorization_facts, factorization_lines
from blockbasis.cli.files import check_output, named, size_of
from blockbasis.cli.folders import check_source
from blockbasis.cli.points import make_kernel, read_points, read_rows
from blockbasis.cli.reporting import check_report, command_line, write_report
from blockbasis.report import factorization_page
from blockbasis.streaming.sources import SAMPLE_ROWS
from blockbasis.tables.checks import check_points
from blockbasis.tables.folders import parquet_files


def compress(
    file: options.FileOrFolder,
    out: options.Out = Path("factorization.bbf"),
    kernel: options.Kernel = options.KernelName.gaussian,
    bandwidth: options.Bandwidth = None,
    tol: options.Tolerance = None,
    memory: options.Memory = None,
    dtype: options.DtypeName = options.DtypeName.float64,
    target: options.Target = None,
    raw: options.Raw = False,
    cluster: options.Cluster = None,
    report: options.Report = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Compress the kernel matrix of the points of a file, for a relative error (--tol) or a size (--memory).

    The bandwidth h is that of exp(-|x - y|²/h²) for the Gaussian kernel, between columns of standard deviation 1. A
    directory of Parquet files is read by pieces; with --cluster the result is a directory, with a file for each part.
    """
    output = Output(quiet, json, debug)
    goal = options.one_goal(tol, memory)
    with running(output):
        check_source(file, cluster)
        check_output(out, force=force)
        check_report(report, force=force)
        X: Any = read_rows(file, target) if file.is_dir() else read_points(file, target).astype(dtype.value)
        n, d = X.shape
        few = X.take(np.arange(0, n, -(-n // SAMPLE_ROWS))) if file.is_dir() else X
        chosen, h = make_kernel(kernel, bandwidth, few, raw=raw)
        output.say(f"{file}: {n} points, {d} columns; {kernel.value} kernel, bandwidth {h:g}")
        goal |= {"memory": options.budget(memory, n), "rng": seed, "n_jobs": jobs}
        if cluster is not None:
            _on_workers(file, X.columns, chosen, cluster, out, output, dtype=dtype.value, **goal)
            return
        start, clock = time.perf_counter(), StageClock()
        with progress_bars(shown=output.verbose, clock=clock):
            own: dict[str, Any] = {"dtype": dtype.value} if file.is_dir() else {}
            A = bb.factorize(X, chosen, progress=True, **own, **goal)
        seconds = time.perf_counter() - start
        try:
            bb.save(A, out)
        except OSError as error:
            raise named(error, out) from None
        facts = factorization_facts(A)
        for line in factorization_lines(facts):
            output.say(line)
        output.say(f"Factorization: {out} ({size_of(out)}), in {seconds:.1f} s")
        if report is not None:
            about = {"title": f"Kernel matrix of {n:,} points", "command": command_line()}
            findings = None if file.is_dir() else check_points(X)
            write_report(factorization_page(A, findings=findings, stages=clock.seconds, **about), report, output)
        output.finish({**facts, "bandwidth": h, "seconds": seconds, "out": str(out)})


def _on_workers(
    folder: Path, columns: Sequence[str], kernel: Any, address: str, out: Path, output: Output, **settings: Any
) -> None:
    """Factorize a directory on the workers of a dask scheduler, which write the parts."""
    from blockbasis.distributed import connect, factorize
    from blockbasis.distributed.rows import parquet_array

    start = time.perf_counter()
    with connect(address) as client:
        X = parquet_array([path.resolve() for path in parquet_files(folder)], columns)
        A = factorize(X, kernel, client, **settings)
        A.save(out)
        seconds, error = time.perf_counter() - start, A.error_estimate
        output.say(f"  relative error  {error:.2g}")
        output.say(f"  clusters        {A.n_clusters}, ranks {A.ranks.min()} to {A.ranks.max()}")
        output.say(f"Factorization: {out}, {len(A.parts.futures)} parts, in {seconds:.1f} s")
        facts = {"kind": "DistributedBlockBasis", "points": A.shape[0], "clusters": A.n_clusters, "error": error.value}
        output.finish({**facts, "parts": len(A.parts.futures), "seconds": seconds, "out": str(out)})
