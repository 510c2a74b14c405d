"""Ten k-means clusters of Pendigits: radii, sizes, and the singular values of the rows of each."""

from __future__ import annotations

from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis._utils.parallel import single_threaded
from blockbasis.experiments.framework import points
from blockbasis.experiments.framework.base import Experiment, Result, Row, Settings, Verdict
from blockbasis.experiments.framework.spectra import decay, rank_from_values, singular_values
from blockbasis.partition import kmeans
from blockbasis.report import figures

_CLUSTERS, _BANDWIDTH, _TOL = 10, 2.0, 1e-3
_FULL = 0
#: Radius of all points and largest radius of a cluster in the paper, in unknown units.
_PAPER_FULL, _PAPER_LARGEST = 62.8, 42.4
#: Smallest factor between ranks that counts as "much lower".
_MUCH = 2


def _parts(quick: bool) -> list[Settings]:
    return [{"data": "pendigits-train", "n": 2000 if quick else None}]


def _measure(settings: Settings, rng: np.random.Generator) -> list[Row]:
    X, _ = points.load_points(settings["data"], settings["n"])
    partition = kmeans(X, _CLUSTERS, rng)
    whole = float(np.linalg.norm(X - X.mean(axis=0), axis=1).max())
    values = singular_values(X, _BANDWIDTH)
    rows: list[Row] = [_facts(_FULL, whole, len(X), values), *decay(values, cluster=_FULL)]
    kernel = bb.Gaussian(_BANDWIDTH)
    for place, i in enumerate(np.argsort(-partition.radii), start=1):
        inside = X[partition.order[partition.cluster(int(i))]]
        values = _of_rows(kernel, inside, X)
        facts = _facts(place, float(partition.radii[i]), len(inside), values)
        # A submatrix of few rows has few singular values. Random rows of the same number are the reference.
        anywhere = X[rng.choice(len(X), len(inside), replace=False)]
        facts["rank_of_any_rows"] = rank_from_values(_of_rows(kernel, anywhere, X), _TOL)
        rows += [facts, *decay(values, cluster=place)]
    return rows


def _of_rows(kernel: bb.Gaussian, inside: Any, X: Any) -> Any:
    """Return the singular values of M(C, :) from the Gram matrix of its rows, accurate to 1e-8 of the largest."""
    with single_threaded():
        M = kernel(inside, X)
        return np.sqrt(np.maximum(np.linalg.eigvalsh(M @ M.T)[::-1], 0))


def _facts(cluster: int, radius: float, size: int, values: Any) -> Row:
    return {"cluster": cluster, "radius": radius, "size": size, "rank": rank_from_values(values, _TOL)}


def _draw(result: Result) -> Any:
    figure, (left, right) = figures.panels(2)
    table = [row for row in result.rows if "radius" in row]
    cells = [
        [
            "all" if r["cluster"] == _FULL else r["cluster"],
            f"{r['radius']:.2f}",
            r["size"],
            r["rank"],
            r.get("rank_of_any_rows", ""),
        ]
        for r in table
    ]
    left.axis("off")
    drawn = left.table(cells, colLabels=["cluster", "radius", "size", "rank", "rank of any rows"], loc="center")
    left.set_title(f"ranks at {_TOL:g}; of as many rows of anywhere")
    drawn.scale(1, 1.2)
    for cluster in result.distinct("cluster")[::-1]:
        rows = [row for row in result.where(cluster=cluster) if "index" in row]
        whole = cluster == _FULL
        look = {"color": "k", "lw": 2} if whole else {"color": figures.COLOURS[cluster % 6], "ls": "--", "lw": 1}
        label = "whole matrix" if whole else "rows of a cluster" if cluster == 1 else None
        right.plot([r["index"] for r in rows], [max(r["value"], 1e-9) for r in rows], **look, label=label)
    right.set(yscale="log", xscale="log", ylim=(1e-7, 2), xlabel="index", ylabel="singular value / largest")
    right.legend(frameon=False)
    return figure


def _judge(result: Result) -> Verdict:
    facts = [row for row in result.rows if "radius" in row]
    whole = next(row for row in facts if row["cluster"] == _FULL)
    clusters = [row for row in facts if row["cluster"] != _FULL]
    widest, highest = max(row["radius"] for row in clusters), max(row["rank"] for row in clusters)
    lower = [row for row in clusters if row["rank"] < row["rank_of_any_rows"]]
    shares = [row["rank"] / row["rank_of_any_rows"] for row in clusters]
    return Verdict(
        widest < whole["radius"] and len(lower) == len(clusters) and _MUCH * highest <= whole["rank"],
        f"Radii of the clusters are {min(r['radius'] for r in clusters):.2g} to {widest:.2g} of {whole['radius']:.2g} "
        f"for all points (the largest {widest / whole['radius']:.0%} of it; the paper: "
        f"{_PAPER_LARGEST / _PAPER_FULL:.0%}), and ranks at {_TOL:g} at most {highest} of {whole['rank']}; "
        f"{len(lower)} of {len(clusters)} are lower than the rank of as many rows of anywhere, {min(shares):.0%} to "
        f"{max(shares):.0%} of it. {_MUCH} times lower than that of all points counts as much.",
    )


EXPERIMENT = Experiment(
    "pendigits-clusters",
    "Clusters of Pendigits and the rows they own",
    "3.2.1",
    "Each of ten k-means clusters has a smaller radius than the whole data set, and the singular values of its rows "
    "fall much faster than those of the whole matrix.",
    _parts,
    _measure,
    _draw,
    _judge,
)
