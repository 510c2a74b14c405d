"""
A factorization as a preconditioner
===================================

Conjugate gradients with the exact matrix need few iterations with a factorization as the preconditioner.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import panels, style

rng = np.random.default_rng(0)
X, b = rng.normal(size=(600, 3)), rng.normal(size=600)
kernel = bb.Gaussian(1.0)
ridges = [1.0, 0.1, 0.01]
figure, (axes,) = panels(1)
for place, tol in enumerate((1e-1, 1e-2)):
    A = bb.factorize(X, kernel, tol=tol, rng=0)
    counts = [bb.exact_solve(X, kernel, b, ridge=ridge, preconditioner=A).iterations for ridge in ridges]
    axes.plot(ridges, counts, **style(place), label=f"tolerance {tol:g}")
axes.set(xscale="log", xlabel="ridge", ylabel="iterations", ylim=(0, None))
axes.legend(frameon=False)
