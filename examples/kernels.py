"""Columns of different scales: one bandwidth for each column, a metric, and a sum of kernels with noise."""

from __future__ import annotations

import numpy as np

import blockbasis as bb

#: Standard deviations of a year, a temperature and an income. Distances have no meaning before the columns are scaled.
SCALES = np.array([10.0, 8.0, 20_000.0])


def main(n: int = 3_000) -> None:
    rng = np.random.default_rng(0)
    X = [2000.0, 15.0, 50_000.0] + SCALES * rng.normal(size=(n, 3))
    y = np.sin((X[:, 0] - 2000) / 10) + (X[:, 1] - 15) / 16 + 0.2 * rng.standard_normal(n)
    X_new, y_new = X[-500:], y[-500:]
    X, y = X[:-500], y[:-500]

    print("one bandwidth for each column")
    lengths = bb.Gaussian(2 * SCALES)
    A = bb.factorize(X, lengths, tol=1e-3, rng=0)
    print(f"  {A.stored / len(X):.0f} floats per point, error {bb.relative_error(A, X, lengths).value:.1e}")

    print("a metric that ignores the income")
    projected = bb.Gaussian(2.0).with_metric(np.diag(1 / SCALES)[:2])
    B = bb.factorize(X, projected, tol=1e-3, rng=0)
    print(f"  {B.stored / len(X):.0f} floats per point, error {bb.relative_error(B, X, projected).value:.1e}")

    print("a smooth part, a rough part and noise")
    kernel = 2.0 * lengths + 0.1 * bb.Laplacian(SCALES) + bb.White(0.04)
    print(f"  {kernel.to_sklearn()} in scikit-learn")
    for name, each in (
        ("one value", bb.Gaussian(2e4)),
        ("per column", lengths),
        ("metric", projected),
        ("sum", kernel),
    ):
        model = bb.KernelRidge(0.04, kernel=each, memory=100 * len(X), random_state=0).fit(X, y)
        print(f"  {name:10s} test error {np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)):.3f}")

    print("mean absolute gradient of the regression, in units of the columns")
    coefficients = bb.KernelRidge(0.04, kernel=lengths, memory=100 * len(X), random_state=0).fit(X, y).dual_coef_
    slopes = lengths.gradient(X_new, X, coefficients) * SCALES
    print("  " + ", ".join(f"{size:.3f}" for size in np.abs(slopes).mean(axis=0)))


if __name__ == "__main__":
    main()
