"""
A table with text and missing values
====================================

What ``blockbasis fit`` does, in Python: encode, fit, compare with simple models.
"""

import numpy as np

from blockbasis.report.figures import panels
from blockbasis.report.model_figures import predicted_against_true, score_bars
from blockbasis.tables import Table, fit_table

rng = np.random.default_rng(0)
size, colour = rng.uniform(size=500), np.array(["red", "green", "blue"], dtype=object)[rng.integers(3, size=500)]
price = np.sin(5 * size) + (colour == "red") * size + 0.1 * rng.normal(size=500)
size[::25] = np.nan
model, evaluation = fit_table(Table(("size", "colour", "price"), (size, colour, price)), "price")
print("\n".join(model.encoder.sentences))
print(model.scorecard.verdict)

figure, (left, right) = panels(2)
scores = model.scorecard.scores
score_bars([s.name for s in scores], [s.error for s in scores], [s.stderr for s in scores], axes=left)
predicted_against_true(evaluation.prepared.y_test, evaluation.predictions["kernel model"], axes=right)
