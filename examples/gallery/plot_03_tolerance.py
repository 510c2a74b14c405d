"""
Memory against tolerance
========================

A smaller tolerance needs more floats. The error that is reported stays below the tolerance.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import panels, style

X = np.random.default_rng(0).normal(size=(1_500, 3))
tolerances = [0.1, 0.03, 0.01, 0.003]
found = [bb.factorize(X, bb.Gaussian(1.0), tol=tol, rng=0) for tol in tolerances]

figure, (left, right) = panels(2)
left.plot(tolerances, [A.stored / len(X) for A in found], **style(0))
left.set(xscale="log", xlabel="tolerance", ylabel="floats per point")
right.plot(tolerances, [A.error_estimate.value for A in found], **style(0), label="measured error")
right.plot(tolerances, tolerances, **style(1), label="tolerance")
right.set(xscale="log", yscale="log", xlabel="tolerance", ylabel="relative error")
right.legend(frameon=False)
