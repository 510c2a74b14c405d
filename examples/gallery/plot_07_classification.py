"""
Classification: decision boundary and calibration
=================================================

Two moons, with the probability of the second class as a map, and how often the model is right at each probability.
"""

import numpy as np
from sklearn.datasets import make_moons

import blockbasis as bb
from blockbasis.report.figures import COLOURS, panels
from blockbasis.report.model_figures import calibration_curve

X, y = make_moons(1_000, noise=0.3, random_state=0)
model = bb.KernelRidgeClassifierCV(random_state=0).fit(X[:500], y[:500])
print("test accuracy:", model.score(X[500:], y[500:]))

grid = np.stack(np.meshgrid(np.linspace(-2, 3, 80), np.linspace(-1.5, 2, 80)), axis=-1)
p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(80, 80)
figure, (left, right) = panels(2)
left.imshow(p, origin="lower", extent=(-2, 3, -1.5, 2), cmap="cividis", aspect="auto")
for label in (0, 1):
    left.plot(*X[:200][y[:200] == label].T, linestyle="none", marker="os"[label], ms=4, color=COLOURS[1 + 4 * label])
calibration_curve(y[500:], model.predict_proba(X[500:]), model.classes_, axes=right)
