"""Pictures of the results, in colours that colour-blind readers can tell apart (Okabe and Ito)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from peers import METHODS
from report import Content, succeeded
from suites import peers as peers_suite

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
STYLE = {name: {"color": c, "marker": m} for name, c, m in zip(METHODS, COLOURS, MARKERS, strict=True)}


def draw(contents: dict[str, Content], directory: Path) -> list[Path]:
    """Draw what there are results of; the files, each as SVG and PNG."""
    found: list[Path] = []
    with plt.rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "svg.hashsalt": "blockbasis"}):
        for name, picture in PICTURES.items():
            if name in contents and succeeded(contents[name]):
                figure = picture(contents[name])
                for ending in ("svg", "png"):
                    path = directory / f"{name}.{ending}"
                    figure.savefig(path, bbox_inches="tight", dpi=150)
                    found.append(path)
                plt.close(figure)
    return found


def engine(content: Content) -> Any:
    """Time over Nystroem's at the same error."""
    records = [record for record in succeeded(content) if record["threads"] == 1]
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(records) + 1.2))
    axes.barh([record["title"] for record in records], [record["ratio"] for record in records], color=COLOURS[0])
    axes.axvline(1, color=COLOURS[6], linestyle="--", linewidth=1)
    axes.set(xscale="log", xlabel="processor time over Nystroem's at the same error")
    axes.invert_yaxis()
    return figure


def scale(content: Content) -> Any:
    """Seconds and memory against n."""
    records = sorted(succeeded(content), key=lambda record: record["n"])
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.2))
    sizes = [record["n"] for record in records]
    for axes, key, title in zip(
        panels, ("cpu", "peak_mb", "product_cpu"), ("build, s", "peak, MB", "product, s"), strict=True
    ):
        for name in ("ours", "nystroem"):
            values = [record[f"{name}_{key}"] for record in records]
            axes.plot(sizes, values, **STYLE[name], label=METHODS[name].title)
        axes.set(xscale="log", yscale="log", xlabel="points", ylabel=title)
    panels[0].legend()
    figure.tight_layout()
    return figure


def grid(content: Content) -> Any:
    """Error over tolerance and estimate over error, cell by cell."""
    built = [record for record in succeeded(content) if not record["skipped"]]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2))
    for number, tol in enumerate(sorted({record["tol"] for record in built}, reverse=True)):
        part = [record for record in built if record["tol"] == tol]
        style = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none", "label": f"tol={tol:g}"}
        floats = [record["stored"] / record["points"] for record in part]
        panels[0].plot(floats, [record["error"] / record["tol"] for record in part], **style)
        panels[1].plot(floats, [record["estimate"] / record["error"] for record in part], **style)
    for axes, title in zip(panels, ("error / tolerance", "estimate / error"), strict=True):
        axes.axhline(1, color=COLOURS[6], linestyle="--", linewidth=1)
        axes.set(xscale="log", xlabel="floats a point", ylabel=title)
    panels[0].legend()
    figure.tight_layout()
    return figure


def peers(content: Content) -> Any:
    """Error against time of build and one product, and against peak memory; one thread."""
    records = [record for record in peers_suite.summarized(content) if record["threads"] == 1]
    places = list(dict.fromkeys((record["data"], record["points"], record["h"]) for record in records))
    figure, panels = plt.subplots(len(places), 2, figsize=(10, 3.4 * len(places)), squeeze=False)
    for row, place in zip(panels, places, strict=True):
        here = [record for record in records if (record["data"], record["points"], record["h"]) == place]
        for axes, key in zip(row, (_seconds, _floats), strict=True):
            _errors(axes, here, key)
        row[0].set(ylabel="relative error", xlabel="build and one product, processor s")
        row[0].set_title(f"{place[0]}, {place[1]:,} points, h={place[2]:g}", loc="left", fontsize=9)
        row[1].set(xlabel="floats a point")
    panels[0, 1].legend(*panels[0, 0].get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.tight_layout()
    return figure


def _seconds(record: dict[str, Any]) -> float:
    return float(record["cpu"] + record["product_cpu"])


def _floats(record: dict[str, Any]) -> float:
    return float(record["floats"])


def _errors(axes: Any, records: list[dict[str, Any]], key: Callable[[dict[str, Any]], float]) -> None:
    """A curve for each method; exact ones, which have no error, are lines at their time."""
    for name in dict.fromkeys(record["method"] for record in records):
        part = sorted((record for record in records if record["method"] == name), key=key)
        places = np.array([key(record) for record in part])
        if name not in peers_suite.EXACT:
            axes.plot(places, [record["error"] for record in part], **STYLE[name], label=METHODS[name].title)
        elif places[0] > 0:
            axes.axvline(places[0], color=STYLE[name]["color"], linestyle=":", label=METHODS[name].title)
    axes.set(xscale="log", yscale="log")


PICTURES: dict[str, Callable[[Content], Any]] = {"engine": engine, "scale": scale, "grid": grid, "peers": peers}
