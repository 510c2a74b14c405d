"""Logistic and Huber regression on features of a compressed kernel, compared with Nystroem of the same size."""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LogisticRegression

import blockbasis as bb

BANDWIDTH = 0.3


def main(n: int = 10_000, n_new: int = 2_000, n_components: int = 200) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n + n_new, 3))
    y = np.sin(8 * X[:, 0]) * np.cos(8 * X[:, 1]) + X[:, 2]
    for features in (
        bb.BlockBasisFeatures(n_components, bandwidth=BANDWIDTH, random_state=0),
        Nystroem(gamma=BANDWIDTH**-2, n_components=n_components, random_state=0),
    ):
        print(type(features).__name__)
        compare(features, X, y, n, rng)


def compare(features: TransformerMixin, X: np.ndarray, y: np.ndarray, n: int, rng: np.random.Generator) -> None:
    start = time.perf_counter()
    known, new = features.fit_transform(X[:n]), features.transform(X[n:])
    numbers = known.nnz if issparse(known) else known.size
    seconds = time.perf_counter() - start
    print(f"  features              {known.shape[1]} columns, {numbers / n:.0f} numbers per point, {seconds:.1f} s")
    classes = y > 0
    classifier = LogisticRegression(C=100, max_iter=2000).fit(known, classes[:n])
    print(f"  LogisticRegression    {1 - classifier.score(new, classes[n:]):.2%} of the new points are misclassified")
    outliers = 10 * rng.standard_normal(n) * (rng.random(n) < 0.1)
    regression = HuberRegressor(alpha=0.01, max_iter=2000).fit(known, y[:n] + outliers)
    error = np.sqrt(np.mean((regression.predict(new) - y[n:]) ** 2))
    print(f"  HuberRegressor        RMSE {error:.4f} at new points, where 10% of the targets are outliers")


if __name__ == "__main__":
    main()
