"""List of all experiments, in the order of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockbasis.experiments.figures import (
    alternating,
    block_errors,
    circles,
    class_table,
    complexity,
    curvature,
    error_vs_bandwidth,
    error_vs_memory,
    f1_vs_bandwidth,
    gauss_transform,
    linear_time,
    pendigits_clusters,
    rank_vs_bandwidth,
    regression,
    small_bandwidth_spectra,
    statistics,
    structure,
    synthetic_memory,
    ten_dimensions,
    two_bandwidths,
)

if TYPE_CHECKING:
    from blockbasis.experiments.framework.base import Experiment

_ALL = (
    rank_vs_bandwidth.EXPERIMENT,
    class_table.EXPERIMENT,
    f1_vs_bandwidth.EXPERIMENT,
    two_bandwidths.EXPERIMENT,
    curvature.EXPERIMENT,
    alternating.EXPERIMENT,
    circles.EXPERIMENT,
    ten_dimensions.EXPERIMENT,
    pendigits_clusters.EXPERIMENT,
    complexity.EXPERIMENT,
    linear_time.EXPERIMENT,
    block_errors.EXPERIMENT,
    structure.EXPERIMENT,
    error_vs_memory.EXPERIMENT,
    small_bandwidth_spectra.EXPERIMENT,
    synthetic_memory.EXPERIMENT,
    statistics.EXPERIMENT,
    error_vs_bandwidth.EXPERIMENT,
    regression.EXPERIMENT,
    gauss_transform.EXPERIMENT,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
