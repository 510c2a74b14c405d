from __future__ import annotations

import time

import numpy as np
import pytest

from blockbasis.experiments.framework.timing import column, exponent, product_seconds, shortest, timed
from blockbasis.report import figures


def test_seconds_and_result_of_a_piece_of_work():
    seconds, result = timed(lambda: time.sleep(0.02) or "done")
    assert seconds >= 0.02
    assert result == "done"


def test_the_shortest_of_several_runs_and_the_last_result():
    pauses = iter([0.05, 0.0, 0.02])
    done = []

    def job():
        time.sleep(next(pauses))
        done.append(len(done))
        return done[-1]

    seconds, result = shortest(job, 3)
    assert seconds < 0.02
    assert result == 2


def test_a_short_product_is_repeated():
    class Counted:
        shape, products = (3, 4), 0

        def __matmul__(self, v):
            assert v.shape == (4,)
            self.products += 1
            time.sleep(0.001)

    A = Counted()
    assert 0.001 <= product_seconds(A, np.random.default_rng(0)) < 0.1
    assert A.products > 1


@pytest.mark.parametrize("power", [1.0, 2.5])
def test_the_exponent_is_the_slope_on_loglog_axes(power):
    assert exponent([1, 2, 4, 8], [3.0 * n**power for n in (1, 2, 4, 8)]) == pytest.approx(power)


def test_values_of_a_column():
    assert column([{"n": 1, "s": 2.0}, {"n": 3, "s": 4.0}], "s") == [2.0, 4.0]


def test_growth_is_drawn_with_its_exponent():
    pytest.importorskip("matplotlib")
    from blockbasis.experiments.framework.timing import draw_growth, draw_linear

    _, axes = figures.panels(1)
    (ax,) = np.ravel(axes)
    draw_growth(ax, [1, 10], [1.0, 100.0], label="ours", place=0)
    draw_growth(ax, [1], [1.0], label="alone", place=1)
    draw_linear(ax, [1, 10], 1.0)
    assert [line.get_label() for line in ax.lines] == ["ours (exponent 2.00)", "alone", "linear"]
    assert list(ax.lines[-1].get_ydata()) == [1.0, 10.0]
