"""Regression and classification: ridge and bandwidth by leave-one-out, and one bandwidth for each class."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score

import blockbasis as bb


def main(n: int = 20_000, n_new: int = 5_000, n_clusters: int = 30) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n + n_new, 3))
    regress(X, n, n_clusters, rng)
    classify(X, n, n_clusters)


def regress(X: np.ndarray, n: int, n_clusters: int, rng: np.random.Generator) -> None:
    y = np.sin(5 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.1 * rng.standard_normal(len(X))
    model = bb.KernelRidge([1e-2, 1e-1, 1.0], bandwidth=[0.5, 1.0, 2.0], n_clusters=n_clusters, rank=40, random_state=0)
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    print(f"KernelRidge on {n:,} points, 9 pairs of alpha and bandwidth: {time.perf_counter() - start:.1f} s")
    print(f"  chosen by leave-one-out   alpha={model.alpha_:g}, bandwidth={model.bandwidth_:g}")
    print(f"  leave-one-out RMSE        {np.sqrt(-model.cv_results_['mean_test_score'].max()):.4f} (noise: 0.1)")
    start = time.perf_counter()
    values = model.predict(X[n:])
    seconds = (time.perf_counter() - start) / len(values)
    print(f"  RMSE at new points        {np.sqrt(np.mean((values - y[n:]) ** 2)):.4f}")
    print(f"  prediction                {1e6 * seconds:.1f} microseconds for a new point")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bbf"
        bb.save(model.set_params(keep_points=False).fit(X[:n], y[:n]), path)
        print(f"  saved without the points  {path.stat().st_size / 1e6:.1f} MB")


def classify(X: np.ndarray, n: int, n_clusters: int) -> None:
    ball = np.linalg.norm(X - 0.5, axis=1) < 0.2
    y = np.where(ball, "ball", np.where(X[:, 0] > 0, "right", "left"))
    print(f"\nKernelRidgeClassifier, one of the three classes has {ball[:n].mean():.1%} of the points")
    for bandwidth in (2.0, "per-class"):
        candidates = [0.25, 0.5, 1.0, 2.0] if bandwidth == "per-class" else None
        model = bb.KernelRidgeClassifier(
            0.1, bandwidth=bandwidth, bandwidths=candidates, n_clusters=n_clusters, rank=40, random_state=0
        ).fit(X[:n], y[:n])
        scores = f1_score(y[n:], model.predict(X[n:]), average=None, labels=model.classes_)
        shown = ", ".join(f"{label} {score:.3f}" for label, score in zip(model.classes_, scores, strict=True))
        print(f"  bandwidth {model.bandwidth_}: F1 {shown}")


if __name__ == "__main__":
    main()
