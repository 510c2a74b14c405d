"""
Methods on your own points
==========================

``blockbasis compare`` in Python: error against memory and against time.
"""

import numpy as np

import blockbasis as bb
from blockbasis.experiments import compare

X = np.random.default_rng(0).normal(size=(700, 2))
result = compare(
    X, bb.Gaussian(0.4), methods=["bbf", "svd", "nystrom", "rpcholesky", "meka"], budgets=[10, 20, 40], runs=1
)
print(result.verdict().sentence)
figure = result.experiment.draw(result)
