"""Logistic and Huber regression on features of a compressed kernel, beside Nystroem of as many numbers a point."""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LogisticRegression

import blockbasis as bb

N, NEW, COMPONENTS, BANDWIDTH = 10_000, 2_000, 200, 0.3


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(N + NEW, 3))
    y = np.sin(8 * X[:, 0]) * np.cos(8 * X[:, 1]) + X[:, 2]
    for features in (
        bb.BlockBasisFeatures(COMPONENTS, bandwidth=BANDWIDTH, random_state=0),
        Nystroem(gamma=BANDWIDTH**-2, n_components=COMPONENTS, random_state=0),
    ):
        print(type(features).__name__)
        compare(features, X, y, rng)


def compare(features: TransformerMixin, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
    start = time.perf_counter()
    learnt, new = features.fit_transform(X[:N]), features.transform(X[N:])
    numbers = learnt.nnz if issparse(learnt) else learnt.size
    seconds = time.perf_counter() - start
    print(f"  features              {learnt.shape[1]} columns, {numbers / N:.0f} numbers a point, {seconds:.1f} s")
    classes = y > 0
    classifier = LogisticRegression(C=100, max_iter=2000).fit(learnt, classes[:N])
    print(f"  LogisticRegression    {1 - classifier.score(new, classes[N:]):.2%} of the new points wrong")
    outliers = 10 * rng.standard_normal(N) * (rng.random(N) < 0.1)
    regression = HuberRegressor(alpha=0.01, max_iter=2000).fit(learnt, y[:N] + outliers)
    error = np.sqrt(np.mean((regression.predict(new) - y[N:]) ** 2))
    print(f"  HuberRegressor        RMSE {error:.4f} at new points, a tenth of the targets being outliers")


if __name__ == "__main__":
    main()
