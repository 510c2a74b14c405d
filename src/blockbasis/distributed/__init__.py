"""Factorizations and ridge regressions of dask collections, over the workers of dask.distributed.

It needs dask, which ``pip install 'blockbasis[distributed]'`` installs.
"""

from blockbasis.distributed.client import WorkersLostError as WorkersLostError
from blockbasis.distributed.client import connect as connect
from blockbasis.distributed.costs import Costs as Costs
from blockbasis.distributed.costs import predicted_costs as predicted_costs
from blockbasis.distributed.estimators import DaskKernelRidge as DaskKernelRidge
from blockbasis.distributed.estimators import DaskKernelRidgeClassifier as DaskKernelRidgeClassifier
from blockbasis.distributed.factorization import factorize as factorize
from blockbasis.distributed.operator import DistributedBlockBasis as DistributedBlockBasis
from blockbasis.distributed.operator import DistributedCrossBasis as DistributedCrossBasis
from blockbasis.distributed.sizes import register as _register
from blockbasis.distributed.storage import load as load

_register()
