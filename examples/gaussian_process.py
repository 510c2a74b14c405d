"""A Gaussian process: a function of two variables from noisy values at scattered points, with standard deviations."""

from __future__ import annotations

import numpy as np

import blockbasis as bb

NOISE = 0.2


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])


def main(n: int = 2_000, n_new: int = 1_000) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = truth(X) + NOISE * rng.standard_normal(n)
    model = bb.GaussianProcessRegressor(random_state=0).fit(X, y)
    lengths = " and ".join(f"{length:.2f}" for length in model.bandwidth_)
    print(f"lengths   {lengths}, log marginal likelihood {model.log_marginal_likelihood_value_:.1f}")
    print(f"noise     {np.sqrt(model.noise_variance_):.3f}, where {NOISE} was added")

    X_new = rng.uniform(-2, 2, size=(n_new, 2))
    mean, std = model.predict(X_new, return_std=True, include_noise=False)
    errors = np.abs(mean - truth(X_new))
    print(
        f"error     {np.sqrt(np.mean(errors**2)):.3f} root mean square; the mean standard deviation is {std.mean():.3f}"
    )
    print(f"{np.mean(errors < 2 * std):.0%} of the errors are within two standard deviations")

    _, far = model.predict([[40.0, 40.0]], return_std=True, include_noise=False)
    prior = np.sqrt(model.signal_variance_)
    print(f"far from the points the standard deviation is {far[0]:.2f}; that of the prior is {prior:.2f}")


if __name__ == "__main__":
    main()
