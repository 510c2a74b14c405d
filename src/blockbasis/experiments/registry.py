"""All experiments, in the order of the paper."""

from __future__ import annotations

from blockbasis.experiments import (
    alternating,
    circles,
    class_table,
    curvature,
    f1_vs_bandwidth,
    pendigits_clusters,
    rank_vs_bandwidth,
    statistics,
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
    statistics.EXPERIMENT,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
