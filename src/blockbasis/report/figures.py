"""Matplotlib figures: panels, styles of curves that are distinguishable in grey, and SVG and PNG files.

matplotlib is an optional dependency, which is imported when the first figure is created. The module does not use pyplot
and does not change the global state of matplotlib, for example the backend of a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blockbasis._utils.files import replacing

#: Colours of Okabe and Ito for colour-blind readers, with wine in place of yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F", "#882255")
#: Markers and line styles, which distinguish curves in grey.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d")
DASHES = ("-", "--", "-.", ":")
#: Style of each method in all figures: its indices in the lists of colours, markers and line styles.
_METHODS = {
    "bbf": (0, 0, 0),
    "bbf-paper": (5, 7, 0),
    "svd": (6, 1, 1),
    "nystrom": (1, 2, 1),
    "nystrom-kmeans": (4, 4, 1),
    "nystrom-leverage": (3, 3, 1),
    "rpcholesky": (2, 5, 1),
    "random-features": (7, 6, 3),
    "meka": (8, 8, 2),
    "clra": (1, 9, 2),
    "ifgt": (3, 10, 2),
    "ifgt-direct": (7, 6, 3),
    "bbf-surrogate": (0, 11, 3),
    "nystrom-surrogate": (1, 12, 3),
    "bbf-fixed": (5, 7, 1),
}
_PANEL = (4.6, 3.5)  # width and height in inches
_SINGLE = (3.8, 3.0)  # of a figure with one panel in a report, whose text is legible on a phone
_DOTS_PER_INCH = 150
_IMAGES_PER_INCH = 100  # dots of images within SVG files
#: Tick labels of logarithmic axes: for a ratio of the limits below the key, these multiples of powers of ten.
_TICK_MULTIPLES = {4.0: (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7), 300.0: (1, 2, 5)}


def style(place: int | str) -> dict[str, Any]:
    """Return the colour, marker and line style of a curve.

    Parameters
    ----------
    place : int or str
        Index of the curve, or name of a method.

    Returns
    -------
    dict
        Keyword arguments of matplotlib's ``plot``.

    Examples
    --------
    >>> from blockbasis.report.figures import style
    >>> style(0)["color"], style("svd")["linestyle"]
    ('#0072B2', '--')
    """
    colour, marker, dash = _METHODS[place] if isinstance(place, str) else (place, place, place)
    return {
        "color": COLOURS[colour % len(COLOURS)],
        "marker": MARKERS[marker % len(MARKERS)],
        "linestyle": DASHES[dash % len(DASHES)],
    }


def panels(count: int, *, columns: int = 2) -> tuple[Any, list[Any]]:
    """Create a figure with the given number of panels.

    Parameters
    ----------
    count : int
        Number of panels.
    columns : int, default=2
        Largest number of panels in a row.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : list of matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from blockbasis.report.figures import panels
    >>> figure, axes = panels(3)
    >>> len(axes)
    3
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib: pip install matplotlib, or pip install blockbasis[plot]."
        ) from error
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    size = (_PANEL[0] * columns, _PANEL[1] * rows)
    figure = Figure(size, dpi=_DOTS_PER_INCH, layout="constrained")  # constrained layout uses the size of the text
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    for each in axes[:count]:
        each.grid(True, which="major", color="0.9", linewidth=0.6)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes[:count]


def new_axes(axes: Any = None) -> Any:
    """Return the given axes, or those of a new figure with one panel.

    Parameters
    ----------
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.figures import new_axes
    >>> axes = new_axes()
    >>> new_axes(axes) is axes
    True
    """
    if axes is not None:
        return axes
    figure, (own,) = panels(1)
    figure.set_size_inches(_SINGLE)
    return own


def runs_and_mean(
    axes: Any, x: Sequence[float], runs: Sequence[Sequence[float]], *, label: str, place: int | str
) -> None:
    """Plot a curve of means, with a marker for every run.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes of the plot.
    x : sequence of float
        Abscissas.
    runs : sequence of sequence of float
        Values of all runs at each abscissa.
    label : str
        Label of the curve in the legend.
    place : int or str
        Argument of `style`.

    Examples
    --------
    >>> from blockbasis.report.figures import panels, runs_and_mean
    >>> figure, (axes,) = panels(1)
    >>> runs_and_mean(axes, [1, 2], [[3, 5], [2, 2]], label="ours", place=0)
    >>> [float(y) for y in axes.lines[-1].get_ydata()]
    [4.0, 2.0]
    """
    look = style(place)
    dots = [(at, value) for at, values in zip(x, runs, strict=True) for value in values]
    axes.plot(*zip(*dots, strict=True), linestyle="none", marker=look["marker"], color=look["color"], ms=4, alpha=0.4)
    means = [float(np.mean(values)) for values in runs]
    axes.plot(x, means, color=look["color"], linestyle=look["linestyle"], marker=look["marker"], ms=5, label=label)


def shared_legend(figure: Any, axes: Any, *, columns: int = 4) -> None:
    """Add a legend of the curves of one panel below all panels.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure of the legend.
    axes : matplotlib.axes.Axes
        Panel with the labelled curves.
    columns : int, default=4
        Largest number of columns of the legend.

    Examples
    --------
    >>> from blockbasis.report.figures import panels, shared_legend
    >>> figure, axes = panels(2)
    >>> _ = axes[0].plot([1, 2], label="ours")
    >>> shared_legend(figure, axes[0])
    >>> len(figure.legends)
    1
    """
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), frameon=False)


def legend_below(axes: Any, *, columns: int = 1) -> None:
    """Add a legend below a panel, so that it covers no curve.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Panel with labelled curves.
    columns : int, default=1
        Number of columns of the legend.

    Examples
    --------
    >>> from blockbasis.report.figures import legend_below, panels
    >>> figure, (axes,) = panels(1)
    >>> _ = axes.plot([1, 2], label="ours")
    >>> legend_below(axes)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['ours']
    """
    axes.legend(frameon=False, fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


def save_figure(figure: Any, stem: Path) -> tuple[Path, Path]:
    """Write a figure as an SVG file and a PNG file; each file is replaced atomically.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure to write.
    stem : Path
        Path of the files without extension.

    Returns
    -------
    tuple of two Path
        Paths of the SVG and the PNG file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from blockbasis.report.figures import panels, save_figure
    >>> figure, _ = panels(1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figure(figure, pathlib.Path(folder) / "empty")]
    ['empty.svg', 'empty.png']
    """
    from matplotlib import rc_context

    finish_figure(figure)
    paths = stem.parent / f"{stem.name}.svg", stem.parent / f"{stem.name}.png"
    for path in paths:
        # Without a date and with fixed identifiers, the same figure gives the same file.
        own = {"metadata": {"Date": None}, "dpi": _IMAGES_PER_INCH} if path.suffix == ".svg" else {}
        with replacing(path) as stream, rc_context({"svg.hashsalt": "blockbasis"}):
            figure.savefig(stream, format=path.suffix[1:], **own)
    return paths


def finish_figure(figure: Any) -> None:
    """Set the ticks of logarithmic axes and compute the layout, before a figure is written.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Examples
    --------
    >>> from blockbasis.report.figures import finish_figure, panels
    >>> figure, _ = panels(1)
    >>> finish_figure(figure)
    """
    for axes in figure.axes:
        _set_log_ticks(axes)
    _lay_out(figure)


def _lay_out(figure: Any) -> None:
    """Compute the layout once for both files and remove the layout engine, which would compute it again."""
    from matplotlib import rc_context

    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
    with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)


def _set_log_ticks(axes: Any) -> None:
    """Set few plain tick labels on logarithmic axes; those of matplotlib overlap if an axis spans about a decade.

    Minor ticks are removed: the grid makes them redundant, and drawing them takes a third of the time.
    """
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() != "log" or isinstance(axis.get_major_locator(), FixedLocator):
            continue
        axis.set_minor_locator(NullLocator())
        multiples = next((each for ratio, each in _TICK_MULTIPLES.items() if high < ratio * low), None)
        if multiples is not None:
            axis.set_major_locator(LogLocator(subs=multiples))
            axis.set_major_formatter("{x:g}")
