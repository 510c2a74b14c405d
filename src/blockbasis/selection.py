"""The paper's choice of its own parameters; see `blockbasis.planning.paper_rule`."""

from blockbasis.planning.paper_rule import Selection as Selection
from blockbasis.planning.paper_rule import select as select
