"""Names of `blockbasis.report.figures` under their former path."""

from blockbasis.report.figures import COLOURS as COLOURS
from blockbasis.report.figures import DASHES as DASHES
from blockbasis.report.figures import MARKERS as MARKERS
from blockbasis.report.figures import legend_below as legend_below
from blockbasis.report.figures import panels as panels
from blockbasis.report.figures import runs_and_mean as runs_and_mean
from blockbasis.report.figures import shared_legend as shared_legend
from blockbasis.report.figures import style as style
