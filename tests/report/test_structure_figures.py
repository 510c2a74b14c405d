from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from blockbasis.report import structure_figures as figures


def test_block_norms_are_those_of_the_inner_matrix(factorization):
    A = factorization
    norms = figures.block_norms(A)
    assert np.linalg.norm(norms) == pytest.approx(np.sqrt(A.inner.energy))
    np.testing.assert_array_equal(norms, norms.T)
    image = figures.block_map(A).images[0].get_array()
    assert image.shape == (A.n_clusters, A.n_clusters)
    map_axes, bar = figures.block_map(A).figure.axes
    low, high = map_axes.images[0].get_clim()
    assert all(low <= tick <= high for tick in bar.get_yticks())  # ticks beyond would extend the bar


def test_memory_parts_add_up(factorization):
    parts = figures.memory_parts(factorization)
    total = parts.pop("all of it")
    assert parts.pop("dense matrix") == 8 * 300**2
    assert sum(parts.values()) == total == factorization.nbytes
    assert len(figures.memory_bars(factorization).patches) == len([count for count in parts.values() if count]) + 2


def test_spectra_fall(factorization):
    axes = figures.spectra(factorization)
    assert 1 <= len(axes.lines) <= 5
    assert all((np.diff(line.get_ydata()) <= 0).all() for line in axes.lines)


def test_clusters_and_stages(factorization):
    (dots,) = figures.clusters_and_ranks(factorization).lines
    assert dots.get_ydata().tolist() == factorization.ranks.tolist()
    bars = figures.stage_bars({"plan": 1.0, "bases": 2.5}).patches
    assert [bar.get_width() for bar in bars] == [1.0, 2.5]
