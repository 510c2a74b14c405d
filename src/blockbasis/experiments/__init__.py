"""The paper's figures and tables, measured again."""

from blockbasis.experiments.base import Experiment as Experiment
from blockbasis.experiments.base import Part as Part
from blockbasis.experiments.base import Result as Result
from blockbasis.experiments.base import Table as Table
from blockbasis.experiments.base import Verdict as Verdict
from blockbasis.experiments.comparison import compare as compare
from blockbasis.experiments.index import write_index as write_index
from blockbasis.experiments.registry import EXPERIMENTS as EXPERIMENTS
from blockbasis.experiments.running import read as read
from blockbasis.experiments.running import run as run
