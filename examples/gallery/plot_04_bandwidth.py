"""
Small bandwidths: where low rank fails
======================================

At the same memory, the error of the best low-rank matrix (SVD) and of Nyström grows as the bandwidth falls. The block
basis factorization stays accurate.
"""

import numpy as np

import blockbasis as bb
from blockbasis.baselines import approximate
from blockbasis.report.figures import panels, style

X = np.random.default_rng(0).normal(size=(800, 2))
bandwidths = [0.2, 0.4, 0.8, 1.6]
figure, (axes,) = panels(1)
for name in ("bbf", "svd", "nystrom"):
    errors = []
    for h in bandwidths:
        kernel = bb.Gaussian(h)
        A = approximate(X, kernel, name, memory=40 * len(X), rng=0)
        errors.append(bb.relative_error(A, X, kernel).value)
    axes.plot(bandwidths, errors, **style(name), label=name)
axes.set(xscale="log", yscale="log", xlabel="bandwidth", ylabel="relative error", title="40 floats per point")
axes.legend(frameon=False)
