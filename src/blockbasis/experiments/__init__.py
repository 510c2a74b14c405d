"""Reproduction of the figures and tables of the paper."""

from blockbasis.experiments.comparison import compare as compare
from blockbasis.experiments.framework.base import Experiment as Experiment
from blockbasis.experiments.framework.base import Part as Part
from blockbasis.experiments.framework.base import Result as Result
from blockbasis.experiments.framework.base import Table as Table
from blockbasis.experiments.framework.base import Verdict as Verdict
from blockbasis.experiments.framework.running import read as read
from blockbasis.experiments.framework.running import run as run
from blockbasis.experiments.pages import write_index as write_index
from blockbasis.experiments.registry import EXPERIMENTS as EXPERIMENTS
