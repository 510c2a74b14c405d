"""
Intervals around predictions
============================

Intervals from leave-one-out residuals are wider where the data are noisier, if the mean depends on the columns that the
noise depends on: other columns have little weight in a learned metric. The coverage holds on average over all points.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import COLOURS, panels

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, size=500))
y = np.sin(x) + 0.05 * (1 + x**1.5) * rng.normal(size=500) / 2
model = bb.KernelRidgeCV(random_state=0).fit(x[:, np.newaxis], y)
grid = np.linspace(0, 6, 200)[:, np.newaxis]
lower, upper = model.predict_interval(grid, coverage=0.9)

figure, (axes,) = panels(1)
axes.plot(x, y, linestyle="none", marker=".", ms=4, color=COLOURS[7])
axes.plot(grid, model.predict(grid), color=COLOURS[0])
axes.fill_between(grid[:, 0], lower, upper, color=COLOURS[5], alpha=0.4)
axes.set(xlabel="x", ylabel="y", title="Intervals that hold 90% of new values")
