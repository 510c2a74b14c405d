from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from blockbasis.report import model_figures as figures
from blockbasis.report.figures import new_axes


def test_figures_are_drawn_into_given_axes():
    axes = new_axes()
    assert figures.score_bars(["a", "b"], [1.0, 2.0], [0.1, np.nan], axes=axes) is axes
    assert [bar.get_width() for bar in axes.patches] == [1.0, 2.0]


def test_many_points_are_a_sample():
    y = np.arange(5000.0)
    axes = figures.predicted_against_true(y, y)
    assert len(axes.lines[0].get_xdata()) == 2000
    assert axes.lines[1].get_xdata().tolist() == [0.0, 4999.0]


def test_confusion_counts_rows_by_true_class():
    counts = figures.confusion_counts([1, 1, 2, 3], [1, 2, 2, 1], [1, 2, 3])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    many = figures.confusion_matrix(np.arange(20), np.arange(20), np.arange(20))
    assert len(many.texts) == 0


def test_calibration_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = np.where(rng.uniform(size=20_000) < p, "b", "a")
    bins = figures.calibration_bins(y, np.column_stack([1 - p, p]), ["a", "b"])
    np.testing.assert_allclose(bins[:, 0], bins[:, 1], atol=0.04)
    assert bins[:, 2].sum() == 20_000
    assert figures.calibration_curve(y, np.column_stack([1 - p, p]), ["a", "b"]).get_legend() is not None


def test_importances_are_sorted_and_the_tiny_are_left_out():
    axes = figures.importance_bars(["a", "b", "a name that is far too long for a bar"], [0.3, 0.001, 0.699])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["a name that is fa…", "a"]


def test_the_map_marks_the_best_pair():
    results = {
        "param_bandwidth": [1, 2, 1, 2], "param_alpha": [0.1, 0.1, 1.0, 1.0], "mean_test_score": [0.1, 0.2, 0.9, 0.3],
    }  # fmt: skip
    bandwidths, ridges, scores = figures.search_grid(results)
    assert (bandwidths.tolist(), ridges.tolist(), scores.tolist()) == ([1, 2], [0.1, 1], [[0.1, 0.2], [0.9, 0.3]])
    axes = figures.search_map(results)
    (cross,) = axes.lines
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (0, 1)


def test_the_learning_curve_has_the_best_of_each_kernel():
    results = {
        "n_resources": [100, 100, 200, 200],
        "param_kernel": ["gaussian", "gaussian", "gaussian", "gaussian + matern"],
        "mean_test_score": [0.3, 0.4, 0.6, 0.7],
    }
    assert figures.learning_scores(results) == {"gaussian": ([100, 200], [0.4, 0.6])}
    assert len(figures.learning_curve(results).lines) == 1
