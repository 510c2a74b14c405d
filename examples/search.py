"""Regression without parameters: a search by leave-one-out chooses kernel, metric, bandwidth and ridge."""

from __future__ import annotations

import time

import numpy as np

import blockbasis as bb

#: The unit of each column.
UNITS = np.array([1e-3, 1.0, 1e4, 1.0, 1.0, 1.0, 1.0, 1.0])


def main(n: int = 8_000, n_new: int = 2_000) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n + n_new, 8))
    y = 20 + np.sin(3 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.1 * rng.normal(size=n + n_new)
    X = Z * UNITS
    start = time.perf_counter()
    model = bb.KernelRidgeCV(random_state=0).fit(X[:n], y[:n])
    print(f"KernelRidgeCV on {n:,} points of 8 columns: {time.perf_counter() - start:.1f} s")
    print(f"  chosen              {model.best_params_}")
    print(f"  importances         {model.feature_importances_.round(2)}")
    print(f"  RMSE at new points  {np.sqrt(np.mean((model.predict(X[n:]) - y[n:]) ** 2)):.3f} (noise: 0.1)")
    plain = bb.KernelRidge(0.1, bandwidth="median", fit_intercept=True, random_state=0).fit(Z[:n], y[:n])
    print(f"  without a metric    {np.sqrt(np.mean((plain.predict(Z[n:]) - y[n:]) ** 2)):.3f}")
    slopes = model.gradient(X[n:]) * UNITS
    print(f"  mean squared slopes {(slopes**2).mean(axis=0).round(2)}")


if __name__ == "__main__":
    main()
