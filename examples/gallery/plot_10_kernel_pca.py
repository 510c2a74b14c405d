"""
Kernel principal components
===========================

Two circles are separated by the leading kernel principal components.
"""

from sklearn.datasets import make_circles

import blockbasis as bb
from blockbasis.report.figures import COLOURS, panels

X, y = make_circles(600, factor=0.4, noise=0.06, random_state=0)
Z = bb.KernelPCA(2, bandwidth=0.7, random_state=0).fit_transform(X)
figure, (left, right) = panels(2)
for axes, points, title in ((left, X, "points"), (right, Z, "components")):
    for label in (0, 1):
        axes.plot(*points[y == label].T, linestyle="none", marker="o^"[label], ms=3, color=COLOURS[label])
    axes.set(title=title)
