"""Models of tables with text, dates and missing values: read, encode, fit, evaluate and save."""

from blockbasis.tables.checks import check_data as check_data
from blockbasis.tables.checks import check_points as check_points
from blockbasis.tables.encoding import ColumnEncoding as ColumnEncoding
from blockbasis.tables.encoding import TableEncoder as TableEncoder
from blockbasis.tables.encoding import encode as encode
from blockbasis.tables.encoding import learn_encoder as learn_encoder
from blockbasis.tables.fitting import Evaluation as Evaluation
from blockbasis.tables.fitting import Prepared as Prepared
from blockbasis.tables.fitting import fit_prepared as fit_prepared
from blockbasis.tables.fitting import fit_table as fit_table
from blockbasis.tables.fitting import prepare_table as prepare_table
from blockbasis.tables.model import TableModel as TableModel
from blockbasis.tables.reading import read_table as read_table
from blockbasis.tables.scorecard import Score as Score
from blockbasis.tables.scorecard import Scorecard as Scorecard
from blockbasis.tables.table import Table as Table
