"""
The structure of a factorization
================================

The points are divided into clusters. U is block-diagonal, and C has a block for each pair of clusters that interact.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import panels
from blockbasis.report.structure_figures import block_map, clusters_and_ranks

rng = np.random.default_rng(0)
X = rng.uniform(size=(1_500, 2))
A = bb.factorize(X, bb.Gaussian(0.1), tol=1e-2, rng=0)
print(A)

figure, (left, right) = panels(2)
block_map(A, axes=left)
clusters_and_ranks(A, axes=right)
