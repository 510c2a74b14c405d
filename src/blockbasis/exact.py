"""Names of `blockbasis.operators.exact` under their former path."""

from blockbasis.operators.exact import ExactCrossKernel as ExactCrossKernel
from blockbasis.operators.exact import ExactKernel as ExactKernel
