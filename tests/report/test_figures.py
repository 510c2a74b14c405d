from __future__ import annotations

import sys

import pytest

pytest.importorskip("matplotlib")

from blockbasis.baselines import METHODS
from blockbasis.report import figures


@pytest.mark.parametrize("beside", [("bbf-surrogate", "nystrom-surrogate"), ()])
def test_no_two_curves_look_alike_in_grey(beside):
    looks = [figures.style(method) for method in (*METHODS, *beside)]
    assert len({look["marker"] for look in looks}) == len(looks)
    of_transform = [figures.style(method)["marker"] for method in ("ifgt", "ifgt-direct", "bbf", "bbf-fixed")]
    assert len(set(of_transform)) == len(of_transform)
    first = [tuple(figures.style(place).values()) for place in range(8)]
    assert len(set(first)) == 8


def test_the_methods_of_the_comparison_have_different_colours():
    compared = ("bbf", "svd", "nystrom", "nystrom-kmeans", "rpcholesky", "random-features", "meka")
    assert len({figures.style(method)["color"] for method in compared}) == len(compared)


def test_every_run_is_a_marker_and_the_mean_a_line():
    _, (axes,) = figures.panels(1)
    figures.runs_and_mean(axes, [1, 2], [[1.0, 3.0], [4.0, 6.0]], label="ours", place="bbf")
    runs, mean = axes.lines
    assert sorted(runs.get_ydata()) == [1, 3, 4, 6]
    assert runs.get_linestyle() == "None"
    assert list(mean.get_ydata()) == [2, 5]


def test_the_same_figure_gives_the_same_file(tmp_path):
    figure, (axes,) = figures.panels(1)
    axes.loglog([1, 30], [2, 3000])
    first = [path.read_bytes() for path in figures.save_figure(figure, tmp_path / "a.b")]
    again = [path.read_bytes() for path in figures.save_figure(figure, tmp_path / "c")]
    assert first == again
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b.png", "a.b.svg", "c.png", "c.svg"]


def test_nothing_is_drawn_over_the_edge_or_over_another_panel(tmp_path):
    figure, (left, right) = figures.panels(2)
    for axes in (left, right):
        axes.plot([1, 2], [1e-12, 1], label="ours")
        axes.set(yscale="log", xlabel="points", ylabel="relative error", title="all of it")
    figures.shared_legend(figure, left)
    figures.save_figure(figure, tmp_path / "laid out")
    *panels, legend = (each.get_tightbbox() for each in (left, right, figure.legends[0]))
    assert panels[0].x1 < panels[1].x0
    assert legend.y1 < min(panel.y0 for panel in panels)
    for box in (*panels, legend):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_a_short_axis_has_more_than_one_label(tmp_path):
    figure, (axes,) = figures.panels(1)
    axes.loglog([0.95, 1.8], [3, 4])
    figures.save_figure(figure, tmp_path / "short")
    low, high = axes.get_xlim()
    assert sum(low <= tick <= high for tick in axes.get_xticks()) >= 3


def test_a_failure_leaves_no_file(tmp_path):
    class Broken:
        axes = ()

        def get_layout_engine(self):
            return None

        def set_layout_engine(self, name):
            pass

        def savefig(self, *args, **kwargs):
            raise RuntimeError("no picture")

    with pytest.raises(RuntimeError, match="no picture"):
        figures.save_figure(Broken(), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"blockbasis\[plot\]"):
        figures.panels(1)
