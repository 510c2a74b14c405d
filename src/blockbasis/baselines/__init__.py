"""Competing approximations of kernel matrices, one method per file. Each method returns a linear operator."""

from blockbasis.baselines.approximate import METHODS as METHODS
from blockbasis.baselines.approximate import approximate as approximate
from blockbasis.baselines.bbf import bbf as bbf
from blockbasis.baselines.bbf import bbf_paper as bbf_paper
from blockbasis.baselines.clra import clra as clra
from blockbasis.baselines.ifgt import ifgt as ifgt
from blockbasis.baselines.meka import meka as meka
from blockbasis.baselines.nystrom import nystrom as nystrom
from blockbasis.baselines.nystrom_kmeans import nystrom_kmeans as nystrom_kmeans
from blockbasis.baselines.nystrom_leverage import nystrom_leverage as nystrom_leverage
from blockbasis.baselines.protocol import Approximation as Approximation
from blockbasis.baselines.random_features import random_features as random_features
from blockbasis.baselines.rpcholesky import rpcholesky as rpcholesky
from blockbasis.baselines.svd import svd as svd
