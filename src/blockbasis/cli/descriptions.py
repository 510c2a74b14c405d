"""Descriptions of factorizations and of models that several commands print: numbers for JSON, and lines of text."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

from blockbasis._utils.files import in_bytes
from blockbasis.tables.model import plain

if TYPE_CHECKING:
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.tables.model import TableModel
    from blockbasis.tables.scorecard import Scorecard

#: Numbers with more than six decimals.
_LONG = re.compile(r"\d+\.\d{7,}(?:e[-+]?\d+)?")


def factorization_facts(A: BlockBasis) -> dict[str, Any]:
    """Return the numbers of a factorization, for JSON."""
    estimate = A.error_estimate
    n = A.shape[0]
    return {
        "kind": "BlockBasis",
        "points": n,
        "kernel": None if A.kernel is None else type(A.kernel).__name__,
        "clusters": A.n_clusters,
        "ranks": [int(A.ranks.min()), int(A.ranks.max())],
        "floats_per_point": A.stored / n,
        "bytes": A.nbytes,
        "dense_bytes": A.dtype.itemsize * n**2,
        "dtype": str(A.dtype),
        "error": None if estimate is None else estimate.value,
        "error_stderr": None if estimate is None else estimate.stderr,
        "entries": A.entries.total,
    }


def factorization_lines(facts: dict[str, Any]) -> list[str]:
    """Return the lines that describe a factorization on the terminal."""
    low, high = facts["ranks"]
    dense, kept = facts["dense_bytes"], facts["bytes"]
    text = [
        f"  clusters        {facts['clusters']}, ranks {low} to {high}",
        f"  memory          {in_bytes(kept)}, {facts['floats_per_point']:.1f} floats per point",
        f"  dense matrix    {in_bytes(dense)}, {_times(dense / kept)} times as much",
        f"  kernel entries  {facts['entries'] / facts['points'] ** 2:.2%} of the matrix were evaluated",
    ]
    if facts["error"] is not None:
        spread = f" ± {facts['error_stderr']:.0e}" if facts["error_stderr"] else ""
        text.insert(0, f"  relative error  {facts['error']:.2e}{spread}")
    return text


def rounded(text: str) -> str:
    """Return a text with numbers of many digits rounded to six.

    Examples
    --------
    >>> from blockbasis.cli.descriptions import rounded
    >>> rounded("Gaussian(bandwidth=1.4142135623730951)")
    'Gaussian(bandwidth=1.41421)'
    """
    return _LONG.sub(lambda found: f"{float(found[0]):.6g}", text)


def _times(factor: float) -> str:
    return f"{factor:.3g}" if factor < 999.5 else f"{factor:,.0f}"


def model_facts(model: TableModel) -> dict[str, Any]:
    """Return the task, the columns, the chosen parameters and the scorecard of a model, for JSON."""
    best = {name: value for name, value in model.estimator.best_params_.items() if value is not None}
    return {
        "task": model.task,
        "target": model.target,
        "rows": model.rows,
        "columns": list(model.encoder.outputs),
        "chosen": plain(
            {name: value if isinstance(value, (str, float, int)) else str(value) for name, value in best.items()}
        ),
        "seconds": model.seconds,
        "scorecard": None if model.scorecard is None else plain(asdict(model.scorecard)),
    }


def chosen_line(model: TableModel) -> str:
    """Return the kernel, metric, bandwidth and ridge that were chosen, as text."""
    best = model.estimator.best_params_
    parts = [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in best.items()
        if value
    ]
    return ", ".join(parts)


def scorecard_table(card: Scorecard) -> Table:
    """Return the scorecard as a table for the terminal."""
    table = Table(Column("model", overflow="fold"), Column(f"test {card.measure}", overflow="fold"), box=None)
    best = min(score.error for score in card.scores)
    for score in card.scores:
        table.add_row(score.name, f"[bold]{score}[/]" if score.error == best else str(score))
    return table
