"""
Clusters of points
==================

The clusters of a factorization in the plane, with the rank of each as text.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import COLOURS, panels

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(size=(900, 2)), 0.3 * rng.normal(size=(600, 2)) + [3, 1]])
A = bb.factorize(X, bb.Gaussian(0.7), tol=1e-2, rng=0)

figure, (axes,) = panels(1)
for i in range(A.n_clusters):
    own = X[A.partition.labels == i]
    axes.plot(*own.T, linestyle="none", marker=".", ms=3, color=COLOURS[i % 6])
    axes.text(*own.mean(axis=0), str(A.ranks[i]), fontsize=9, ha="center", fontweight="bold")
axes.set(title="Clusters and their ranks", aspect="equal")
