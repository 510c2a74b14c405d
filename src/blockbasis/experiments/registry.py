"""All experiments, in the order of the paper."""

from __future__ import annotations

from blockbasis.experiments import (
    alternating,
    block_errors,
    circles,
    class_table,
    curvature,
    error_vs_bandwidth,
    error_vs_memory,
    f1_vs_bandwidth,
    pendigits_clusters,
    rank_vs_bandwidth,
    small_bandwidth_spectra,
    statistics,
    structure,
    synthetic_memory,
    ten_dimensions,
    two_bandwidths,
)
from blockbasis.experiments.base import Experiment

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
    block_errors.EXPERIMENT,
    structure.EXPERIMENT,
    error_vs_memory.EXPERIMENT,
    small_bandwidth_spectra.EXPERIMENT,
    synthetic_memory.EXPERIMENT,
    statistics.EXPERIMENT,
    error_vs_bandwidth.EXPERIMENT,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
