"""
A Gaussian process on a map
===========================

Mean and standard deviation of a field that was measured at some places.
"""

import numpy as np

import blockbasis as bb
from blockbasis.report.figures import panels

rng = np.random.default_rng(0)
places = rng.uniform(0, 10, size=(250, 2))
places = places[np.hypot(places[:, 0] - 7, places[:, 1] - 7) > 2]
values = np.sin(places[:, 0]) * np.cos(places[:, 1]) + 0.1 * rng.normal(size=len(places))
process = bb.GaussianProcessRegressor(random_state=0).fit(places, values)
grid = np.stack(np.meshgrid(np.linspace(0, 10, 40), np.linspace(0, 10, 40)), axis=-1)
mean, std = process.predict(grid.reshape(-1, 2), return_std=True)

figure, (left, right) = panels(2)
for axes, field, title in ((left, mean, "mean"), (right, std, "standard deviation")):
    image = axes.imshow(field.reshape(40, 40), origin="lower", extent=(0, 10, 0, 10), cmap="cividis")
    axes.plot(*places.T, linestyle="none", marker=".", ms=2, color="white")
    axes.set(title=title)
    axes.grid(False)
    figure.colorbar(image, ax=axes)
