"""Command apply: products of a factorization with vectors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import blockbasis as bb
from blockbasis import datasets
from blockbasis.cli import options
from blockbasis.cli.console import Output, running
from blockbasis.cli.files import ARRAYS, check_output, write_array
from blockbasis.operators.storage import load
from blockbasis.tables.reading import check_file


def apply(
    factorization: Annotated[
        Path, typer.Argument(metavar="FACTORIZATION", help="File that compress has written.", show_default=False)
    ],
    vectors: Annotated[
        Path,
        typer.Argument(
            metavar="VECTORS", help="Vectors as columns: CSV, NPZ, NPY or Parquet file.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="NPY or CSV file.")] = Path("product.npy"),
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Multiply the compressed kernel matrix by vectors, in the order of the points of compress."""
    output = Output(quiet, json, debug)
    with running(output):
        check_file(vectors)
        check_output(out, force=force, endings=ARRAYS)
        if not factorization.exists():
            raise FileNotFoundError(f"There is no file {factorization}.")
        A = load(factorization)
        if not isinstance(A, (bb.BlockBasis, bb.CrossBlockBasis)):
            raise ValueError(
                f"{factorization} holds a {type(A).__name__}, which has no products. blockbasis compress writes a "
                "factorization."
            )
        V = datasets.load_file(vectors).X
        if len(V) != A.shape[1]:
            raise ValueError(
                f"{vectors} must have a row for each of the {A.shape[1]} points of {factorization}. Got {len(V)} "
                "instead."
            )
        start = time.perf_counter()
        product = A @ V
        seconds = time.perf_counter() - start
        write_array(out, product)
        output.say(f"{product.shape[1]} products of {A.shape[0]} entries in {seconds:.3g} s: {out}")
        output.finish({"shape": list(product.shape), "seconds": seconds, "out": str(out)})
