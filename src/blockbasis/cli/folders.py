"""Directories of Parquet files for the commands: read by pieces here, or by the workers of a dask scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blockbasis.tables.folders import parquet_files
from blockbasis.tables.reading import check_file


def check_source(path: Path, cluster: str | None) -> None:
    """Raise an error if a file or a directory cannot be read, or if a cluster is given for a file."""
    if path.is_dir():
        parquet_files(path)
        return
    check_file(path)
    if cluster is not None:
        raise ValueError(f"--cluster needs a directory of Parquet files, and {path} is a file.")


@contextmanager
def mapping(cluster: str | None) -> Iterator[Callable[..., list[Any]]]:
    """Context with a function that maps a function over tuples of arguments: here, or on workers."""
    if cluster is None:
        yield lambda function, tasks: [function(*task) for task in tasks]
        return
    from blockbasis.distributed import client as dask_client

    with dask_client.connect(cluster) as client:
        yield lambda function, tasks: dask_client.gathered(
            client, dask_client.submitted(client, "file", function, *zip(*tasks, strict=True))
        )


@contextmanager
def summing(cluster: str | None) -> Iterator[Callable[..., Any]]:
    """Context with a function that adds up what a function gives for tuples of arguments."""
    with mapping(cluster) as mapped:

        def summed(function: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> Any:
            first, *others = mapped(function, tasks)
            for other in others:
                first = first.plus(other)
            return first

        yield summed
