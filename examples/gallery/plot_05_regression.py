"""
Regression with everything chosen from the data
===============================================

Friedman's problem has ten columns, of which five matter. The noise has standard deviation 1, which no model can beat.
"""

import numpy as np
from sklearn.datasets import make_friedman1

import blockbasis as bb
from blockbasis.report.figures import panels
from blockbasis.report.model_figures import importance_bars, predicted_against_true

X, y = make_friedman1(900, noise=1.0, random_state=0)
model = bb.KernelRidgeCV(random_state=0).fit(X[:700], y[:700])
predictions = model.predict(X[700:])
print("test RMSE:", round(float(np.sqrt(np.mean((predictions - y[700:]) ** 2))), 3))

figure, (left, right) = panels(2)
predicted_against_true(y[700:], predictions, axes=left)
importance_bars([f"x{j + 1}" for j in range(10)], model.feature_importances_, axes=right)
