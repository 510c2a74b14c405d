"""
A bandwidth for each class
==========================

The two large classes have noisy labels and a smooth border: a large bandwidth averages the noise. The small class
lies in narrow stripes, which only a small bandwidth resolves.
"""

import numpy as np
from sklearn.metrics import f1_score

import blockbasis as bb
from blockbasis.report.figures import panels

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(1_400, 2))
y = np.where(rng.uniform(size=1_400) < 0.25, rng.integers(2, size=1_400), (X[:, 0] > 0).astype(int))
y[(X[:, 1] > 0.6) & (np.sin(40 * X[:, 0]) > 0.6)] = 2
scores = {}
for name, bandwidth in (("one for all", "auto"), ("one for each class", "per-class")):
    model = bb.KernelRidgeClassifier(0.1, bandwidth=bandwidth, random_state=0).fit(X[:700], y[:700])
    scores[name] = f1_score(y[700:], model.predict(X[700:]), average=None)
    print(name, model.bandwidth_, scores[name].round(2))

figure, (axes,) = panels(1)
for place, (name, values) in enumerate(scores.items()):
    axes.bar(np.arange(3) + 0.4 * place, values, width=0.38, label=name, color=("#0072B2", "#D55E00")[place])
axes.set_xticks(np.arange(3) + 0.2, ["left", "right", "stripes"])
axes.set(ylabel="F1 score", ylim=(0, 1.15))
axes.legend(frameon=False, ncols=2)
